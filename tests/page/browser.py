"""Debian's chromium, driven by Playwright: a page that keeps what it should not have done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import axe_playwright_python
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM: Final = "/usr/bin/chromium"
AXE: Final = Path(axe_playwright_python.__file__).with_name("axe.min.js")
WAIT_MS: Final = 60_000
expect.set_options(timeout=WAIT_MS)
_VIOLATIONS: Final = """
window.violations = [];
addEventListener("securitypolicyviolation", ({blockedURI, violatedDirective}) =>
  window.violations.push(`${blockedURI} ${violatedDirective}`));
"""
_RUN_AXE: Final = "async () => (await axe.run()).violations.map((one) => [one.id, one.nodes.map((node) => node.html)])"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start it; as root it takes no sandbox of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=WAIT_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Seen:
    """A page, and what it did."""

    page: Page
    origin: str
    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Return what it should not have done so far."""
        return [*self.errors, *self.elsewhere, *self.page.evaluate("window.violations ?? []")]

    def unusable(self) -> list[Any]:
        """Return what axe finds."""
        self.page.evaluate(AXE.read_text())
        violations: list[Any] = self.page.evaluate(_RUN_AXE)
        return violations

    def text(self) -> str:
        return self.page.inner_text("main")


@contextmanager
def looking(browser: Browser, origin: str, **options: Any) -> Iterator[Seen]:
    """Open a page in a context of its own; requests beyond ``origin`` are broken off and kept."""
    context = browser.new_context(**options)
    context.set_default_timeout(WAIT_MS)
    context.add_init_script(_VIOLATIONS)
    seen = Seen(context.new_page(), origin)

    def judge(route: Any) -> None:
        if route.request.url.startswith((f"{origin}/", f"blob:{origin}/", "data:image/")):
            route.continue_()
        else:
            seen.elsewhere.append(route.request.url)
            route.abort()

    def hear(message: Any) -> None:
        # A refusal is a status, and the browser says each on the console; what the page makes of it is looked at.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            seen.errors.append(message.text)

    context.route("**/*", judge)
    seen.page.on("console", hear)
    seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
    try:
        yield seen
    finally:
        context.close()
