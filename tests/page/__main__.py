"""``python -m tests.page screenshots``: pictures of the page for the READMEs.

They are of a real webhook, through the door of ``plimsoll ui``; the shop that it knows is made up (``filled``). With
``--url`` they are of whatever ``plimsoll ui --no-browser`` shows: a cluster as it is, that of ``make e2e`` among them.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from tests.page.browser import chromium, looking
from tests.page.filled import filled

ROOT: Final = Path(__file__).parents[2]
PICTURES: Final = ROOT / "charts/plimsoll"
SCREENS: Final = {
    "page-now": ("now", ".tile .money"),
    "page-workloads": ("workloads", "td .money"),
    "page-workload": ("workloads/{workload}", ".tile .money"),
    "page-nodes": ("nodes", ".stack"),
}
"""Each with what comes last."""
SIZE: Final = {"width": 1280, "height": 900}
WORKLOAD: Final = "shop/Deployment/web"


def screenshots(url: str, folder: Path, workload: str) -> list[Path]:
    """Take the pictures anew, of the page behind a one-time address.

    Raises:
        AssertionError: The page did what it should not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    with chromium() as browser, looking(browser, f"http://{urlsplit(url).netloc}", viewport=SIZE) as seen:
        seen.page.goto(url)
        seen.page.wait_for_url("**/ui/")
        for name, (screen, last) in SCREENS.items():
            seen.page.goto(f"{seen.origin}/ui/#/{screen.format(workload=workload)}")
            seen.page.wait_for_selector(last)
            taken.append(folder / f"{name}.png")
            seen.page.screenshot(path=taken[-1])
        assert not seen.faults(), seen.faults()
    return taken


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.page", description=__doc__)
    parser.add_argument("what", choices=("screenshots",))
    parser.add_argument("--url", help="what plimsoll ui --no-browser printed (default: a made-up shop)")
    parser.add_argument("--workload", default=WORKLOAD, metavar="NAMESPACE/KIND/NAME", help="default: %(default)s")
    parser.add_argument("--into", type=Path, default=PICTURES, metavar="DIR", help="default: %(default)s")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        url = arguments.url
        if url is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="page-")))
            url = stack.enter_context(filled(folder, days=14)).door.url
        for path in screenshots(url, arguments.into, arguments.workload):
            print(f"page: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
