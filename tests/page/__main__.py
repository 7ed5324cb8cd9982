"""``python -m tests.page screenshots``: pictures of the page for the READMEs.

They are of a real webhook, through the door of ``plimsoll ui``; the shop that it knows is made up (``filled``).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.page.browser import chromium, looking
from tests.page.filled import Filled, filled

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "charts/plimsoll"
SCREENS = {
    "page-now": ("now", ".tile .money"),
    "page-workloads": ("workloads", "td .money"),
    "page-workload": ("workloads/shop/Deployment/web", ".tile .money"),
    "page-nodes": ("nodes", ".stack"),
}
"""Each with what comes last."""
SIZE = {"width": 1280, "height": 900}


def screenshots(webhook: Filled) -> None:
    """Take the pictures anew."""
    with chromium() as browser, looking(browser, f"http://{webhook.door.host}", viewport=SIZE) as seen:
        seen.page.goto(webhook.door.url)
        seen.page.wait_for_url("**/ui/")
        for name, (screen, last) in SCREENS.items():
            seen.page.goto(f"{seen.origin}/ui/#/{screen}")
            seen.page.wait_for_selector(last)
            path = PICTURES / f"{name}.png"
            seen.page.screenshot(path=path)
            print(f"page: {path.relative_to(ROOT)}")


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.page", description=__doc__)
    parser.add_argument("what", choices=("screenshots",))
    parser.parse_args()
    with TemporaryDirectory(prefix="page-") as folder, filled(Path(folder), days=14) as webhook:
        screenshots(webhook)
    return 0


if __name__ == "__main__":
    sys.exit(main())
