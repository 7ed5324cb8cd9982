"""What a list tells of, where another thread changes what is known while it is taken."""

from __future__ import annotations

from collections.abc import Callable

from agent.kube.watch.watched_objects import WatchedEntry
from agent.webhook.buffers.tables import ByNamespace, SeenTemplate, template_seen


class HeldUpKey(str):
    """A key of which a thread that puts it into a table is held up once: something happens meanwhile."""

    meanwhile: Callable[[], object] | None = None

    def __hash__(self) -> int:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().__hash__()


def entry(key: str) -> WatchedEntry[SeenTemplate]:
    namespace, _, name = key.partition("/")
    template = SeenTemplate(namespace=namespace, name=name, uid="u", generation=1)
    return WatchedEntry(key=key, uid="u", version="1", generation=1, value=template)


def test_a_list_is_taken_while_the_last_object_of_a_namespace_goes() -> None:
    """As where the watch before it, of another version, hangs and goes on while this one lists."""
    told: list[tuple[str, str]] = []
    kept = ByNamespace(template_seen, lambda template: template.namespace, lambda *which: told.append(which))
    held_up = HeldUpKey("shop/room")
    for key in (held_up, "bank/room", "mill/room"):
        kept.put(entry(key), now_seconds=0.0)
    told.clear()
    went: list[str] = []

    def go() -> None:
        kept.remove(entry("bank/room"))
        went.append("bank/room")

    held_up.meanwhile = go
    kept.replace_all([entry("shop/room"), entry("mill/room")], now_seconds=0.0, is_newest=True)
    assert went == ["bank/room"]
    assert set(told) == {("bank", "room")}
    assert set(kept.namespaces()) == {"shop", "mill"}
