"""How soon the first of 5,000 workloads is on the screen, in Debian's chromium, through the door of ``plimsoll ui``."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from playwright.sync_api import expect

from tests.page.browser import chromium, looking
from tests.page.filled import filled, report_many

WORKLOADS: Final = 5000
ROWS: Final = 200
"""That the page asks for at once."""
TIMES: Final = 7
_FIRST_ROW: Final = """() => new Promise((done) => {
  const look = () => document.querySelector("main tbody tr") ? done(performance.now()) : requestAnimationFrame(look);
  look();
})"""


def measure() -> dict[str, float]:
    """Look some times, each without anything kept, from the address to the first row.

    The first time of all is told apart: nobody has asked the webhook for what workloads cost yet.
    """
    taken: list[float] = []
    with TemporaryDirectory(prefix="page-") as folder, filled(Path(folder), days=1) as webhook:
        report_many(webhook, WORKLOADS)
        origin = f"http://{webhook.door.host}"
        with chromium() as browser:
            with looking(browser, origin) as first:
                first.page.goto(webhook.door.url)
                first.page.wait_for_url("**/ui/")
                state = first.page.context.storage_state()
            for _ in range(TIMES):
                with looking(browser, origin, storage_state=state) as seen:
                    seen.page.goto(f"{origin}/ui/#/workloads")
                    taken.append(seen.page.evaluate(_FIRST_ROW))
                    expect(seen.page.locator("main tbody tr")).to_have_count(ROWS)
    later = sorted(taken[1:])
    return {
        f"page_first_row_ms_{WORKLOADS}": round(later[len(later) // 2]),
        f"page_first_row_largest_ms_{WORKLOADS}": round(later[-1]),
        f"page_first_row_of_first_visit_ms_{WORKLOADS}": round(taken[0]),
    }
