"""``python -m tests.page screenshots``: pictures of the page for the READMEs.

They are of a real webhook, through the door of ``plimsoll ui``; the shop that it knows is made up (``filled``). With
``--url`` they are of whatever ``plimsoll ui --no-browser`` shows: a cluster as it is, that of ``make e2e`` among them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from playwright.sync_api import Error as BrowserError

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
    """Take the pictures anew, of the page behind a one-time address; all of them are written, or none.

    Raises:
        AssertionError: The page did what it should not.
        PageError: It does not answer, or does not show what a picture is of; one line.
    """
    taken: dict[str, bytes] = {}
    with chromium() as browser, looking(browser, f"http://{urlsplit(url).netloc}", viewport=SIZE) as seen:
        with said_as("does not answer, or its address was opened before"):
            seen.page.goto(url)
            seen.page.wait_for_url("**/ui/")
        for name, (screen, last) in SCREENS.items():
            place = screen.format(workload=workload)
            with said_as(
                f"screen {place}: there is no {last} on it; the webhook knows no whole hour yet, or no such one"
            ):
                seen.page.goto(f"{seen.origin}/ui/#/{place}")
                seen.page.wait_for_selector(last)
            taken[name] = seen.page.screenshot()
        assert not seen.faults(), seen.faults()
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in taken.items():
        (folder / f"{name}.png").write_bytes(picture)
    return [folder / f"{name}.png" for name in taken]


class PageError(Exception):
    """No pictures; one line."""


@contextmanager
def said_as(what: str) -> Iterator[None]:
    """Raise what the browser complains of as one line."""
    try:
        yield
    except BrowserError as error:
        raise PageError(f"{what} ({error.message.splitlines()[0]})") from error


def page_url(text: str) -> str:
    """Return an address as ``plimsoll ui`` prints it."""
    parts = urlsplit(text)
    if parts.scheme != "http" or not parts.netloc or not parts.fragment:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: http://127.0.0.1:PORT/#k=KEY")
    return text


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.page", description=__doc__)
    parser.add_argument("what", choices=("screenshots",))
    parser.add_argument("--url", type=page_url, help="what plimsoll ui --no-browser printed (default: a made-up shop)")
    parser.add_argument("--workload", default=WORKLOAD, metavar="NAMESPACE/KIND/NAME", help="default: %(default)s")
    parser.add_argument("--into", type=Path, default=PICTURES, metavar="DIR", help="default: %(default)s")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        url = arguments.url
        if url is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="page-")))
            url = stack.enter_context(filled(folder, days=14)).door.url
        try:
            paths = screenshots(url, arguments.into, arguments.workload)
        except PageError as error:
            print(f"page: {error}", file=sys.stderr)
            return 1
        for path in paths:
            print(f"page: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
