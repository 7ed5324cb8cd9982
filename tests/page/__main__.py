"""``python -m tests.page screenshots|rows``: pictures of the page for the READMEs; how soon 5,000 rows are begun.

Both look at a real webhook through the door of ``plimsoll ui``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.page.browser import chromium, looking
from tests.page.filled import Filled, filled, report_many

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "charts/plimsoll"
SCREENS = {
    "page-now": "now",
    "page-workloads": "workloads",
    "page-workload": "workloads/shop/Deployment/web",
}
SIZE = {"width": 1280, "height": 900}
WORKLOADS = 5000
TIMES = 7
SETTLED = "main :is(table, .empty, .refused, .notice, .card)"
_FIRST_ROW = """() => new Promise((done) => {
  const look = () => document.querySelector("main tbody tr") ? done(performance.now()) : requestAnimationFrame(look);
  look();
})"""


def screenshots(webhook: Filled) -> None:
    """Take the pictures anew."""
    with chromium() as browser, looking(browser, f"http://{webhook.door.host}", viewport=SIZE) as seen:
        seen.page.goto(webhook.door.url)
        seen.page.wait_for_url("**/ui/")
        for name, screen in SCREENS.items():
            seen.page.goto(f"{seen.origin}/ui/#/{screen}")
            seen.page.wait_for_selector(SETTLED)
            path = PICTURES / f"{name}.png"
            seen.page.screenshot(path=path)
            print(f"page: {path.relative_to(ROOT)}")


def rows(webhook: Filled) -> None:
    """Tell how long it takes from the address to the first row of 5,000 workloads, each time without anything kept."""
    report_many(webhook.stack, WORKLOADS)
    taken: list[float] = []
    with chromium() as browser:
        origin = f"http://{webhook.door.host}"
        with looking(browser, origin) as first:
            first.page.goto(webhook.door.url)
            first.page.wait_for_url("**/ui/")
            kept = first.page.context.storage_state()
        for _ in range(TIMES):
            with looking(browser, origin, storage_state=kept) as seen:
                seen.page.goto(f"{origin}/ui/#/workloads")
                taken.append(seen.page.evaluate(_FIRST_ROW))
                shown = seen.page.locator("main tbody tr").count()
    taken.sort()
    print(
        f"page: first of {shown} rows of {WORKLOADS} workloads after {taken[len(taken) // 2]:.0f} ms "
        f"(median of {TIMES}; {taken[0]:.0f} to {taken[-1]:.0f})"
    )


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.page", description=__doc__)
    parser.add_argument("what", choices=("screenshots", "rows"))
    given = parser.parse_args()
    with (
        TemporaryDirectory(prefix="page-") as folder,
        filled(Path(folder), days=1 if given.what == "rows" else 14) as webhook,
    ):
        (screenshots if given.what == "screenshots" else rows)(webhook)
    return 0


if __name__ == "__main__":
    sys.exit(main())
