"""A store, opened at once: what the webhook does in steps, as it also begins while its database is away."""

from agent.webhook.store.database.engine import StorePatience
from agent.webhook.store.store import Store


def open_store(url: str, *, patience: StorePatience | None = None) -> Store:
    """Open the store, made or migrated first where that is needed.

    Raises:
        StoreAway, SchemaTooNew, StoreUnusable: As ``Store.prepare``.
    """
    store = Store(url, patience=patience)
    try:
        store.prepare()
    except BaseException:
        store.close()
        raise
    return store
