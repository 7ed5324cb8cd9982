"""The page in a real browser, on a real webhook, through the door of ``plimsoll ui``."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import pytest
import yaml
from playwright.sync_api import Browser, Route, StorageState, ViewportSize, expect

from agent.cli.main import main
from agent.core.cost.prices import month_text
from agent.kube.client.errors import Unreachable
from tests.cost_sheet import WORKLOADS
from tests.page.browser import Seen, chromium, looking
from tests.page.filled import HOSTILE, NAME, Filled, filled, priced
from tests.webhook.https import running
from tests.webhook.test_access import user

SCREENS = ("now", "workloads", "workloads/shop/Deployment/web", "nodes", "events", "policy", "cost")
NARROW, WIDE = ViewportSize(width=320, height=800), ViewportSize(width=3840, height=2160)
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
SETTLED = "main :is(table, .empty, .refused, .notice, .card)"


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with filled(tmp_path_factory.mktemp("page"), days=2, is_hostile=True) as site:
        yield site


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as chrome:
        yield chrome


@pytest.fixture(scope="module")
def entered(webhook: Filled, browser: Browser) -> StorageState:
    """Keep the cookie of who came in by the address that is printed; it is good once, and leaves no key behind."""
    with looking(browser, f"http://{webhook.door.host}") as seen:
        seen.page.goto(webhook.door.url)
        seen.page.wait_for_url("**/ui/")
        expect(seen.page.locator("header")).to_contain_text("Plimsoll")
        state = seen.page.context.storage_state()
        assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in state["cookies"]] == [(True, "Strict")]
        assert seen.page.evaluate("document.cookie + localStorage.length + sessionStorage.length") == "00"
        assert not seen.faults()
    with looking(browser, f"http://{webhook.door.host}") as other:
        other.page.goto(webhook.door.url)
        expect(other.page.locator("#said")).to_contain_text("used already")
    return state


@pytest.fixture
def seen(webhook: Filled, browser: Browser, entered: StorageState) -> Iterator[Seen]:
    with looking(browser, f"http://{webhook.door.host}", storage_state=entered) as visit:
        yield visit
        assert not visit.faults()


def look(seen: Seen, screen: str) -> None:
    seen.page.goto(f"{seen.origin}/ui/#/{screen}")
    # The screen before is settled, too, until the browser has told the page of its new address. No wait_for_function:
    # it asks again by eval, which the page's policy forbids.
    expect(seen.page.locator("main")).to_have_attribute("data-shown", seen.page.evaluate("location.hash"))
    seen.page.wait_for_selector(SETTLED)


def test_an_address_that_changes_right_after_the_first_drawing_is_shown(seen: Seen) -> None:
    """As a link does that is opened while the page is loading."""
    seen.page.add_init_script(
        """new MutationObserver((changes, observer) => {
             if (!document.getElementById("main")) return;
             observer.disconnect();
             location.hash = "#/nodes";
           }).observe(document, {childList: true, subtree: true});"""
    )
    seen.page.goto(f"{seen.origin}/ui/")
    expect(seen.page.locator("main")).to_have_attribute("data-shown", "#/nodes")
    seen.page.wait_for_selector(SETTLED)


def test_screens_fit_and_everybody_can_use_them(seen: Seen) -> None:
    violations: list[Any] = []
    for screen in SCREENS:
        look(seen, screen)
        for scheme in SCHEMES:
            seen.page.emulate_media(color_scheme=scheme)
            violations += [(screen, scheme, violation) for violation in seen.unusable()]
        for size in (NARROW, WIDE):
            seen.page.set_viewport_size(size)
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= size["width"], (screen, size)
    assert violations == []


def test_a_node_is_drawn_by_its_plan_and_read_without_the_drawing(seen: Seen) -> None:
    look(seen, "nodes")
    cells = seen.page.locator("main td[data-label='CPU']").all_inner_texts()
    # 1500 millicores of which a twentieth is reserved: 75. Seven pods of ten workloads need more than is left.
    assert "does not fit" in cells[0]
    assert "too much of 1.5 cores" in cells[0]
    assert "reserved 75m, base " in cells[0]
    assert "requested now" in cells[0]
    assert "no plan: this replica of the webhook has no report of it yet" in cells[-1]


def test_pods_of_a_workload_are_listed_with_why_a_resize_is_pending(seen: Seen) -> None:
    look(seen, "workloads/shop/StatefulSet/catalogue")
    rows = seen.page.locator("section", has_text="Pods, now").locator("tbody tr")
    assert rows.count() == 3
    first = rows.first.locator("td,th").all_inner_texts()
    assert first[0].startswith("catalogue-0")
    assert first[1:3] == ["node-b", "running"]
    assert (first[3], first[5]) == ("500m", HOSTILE)


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_a_manifest_has_sidecars_among_the_init_containers_and_none_that_no_pod_has(seen: Seen, kind: str) -> None:
    def answer(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        (app,) = body["containers"]
        app["advice"] |= {"missing": None, "cpuRequestMillicores": 300, "memoryRequestBytes": 64 << 20}
        body["kind"] = kind
        sides = {**app, "container": "proxy", "kind": "sidecar"}, {**app, "container": "gone", "kind": None}
        body["containers"] = [{**app, "kind": "regular"}, *sides]
        route.fulfill(response=response, json=body)

    seen.page.route("**/v1/workloads/shop/Deployment/web", answer)
    look(seen, "workloads/shop/Deployment/web")
    requests = {"requests": {"cpu": "300m", "memory": "64Mi"}}
    pod_spec = {
        "initContainers": [{"name": "proxy", "resources": requests}],
        "containers": [{"name": "app", "resources": requests}],
    }
    manifest = yaml.safe_load(seen.page.get_by_label("In a manifest", exact=True).inner_text())
    spec = manifest["spec"] if kind == "Deployment" else manifest["spec"]["jobTemplate"]["spec"]
    assert spec == {"template": {"spec": pod_spec}}


def test_hostile_names_are_words(seen: Seen) -> None:
    for screen in (*SCREENS, f"workloads/{HOSTILE}/x/y", f"workloads?q={HOSTILE}", f"events?node={HOSTILE}"):
        look(seen, screen)
        assert seen.page.locator("main img, main script").count() == 0
        assert seen.page.title() != "owned"
    seen.page.goto(f"{seen.origin}/ui/#/{HOSTILE}")
    expect(seen.page.locator("h1")).to_have_text("There is no such screen")
    look(seen, "nodes")
    assert '"><img src=x' in seen.text()


def test_everything_is_reached_by_keys_and_the_address_keeps_it(seen: Seen) -> None:
    keys = seen.page.keyboard
    look(seen, "now")
    keys.press("2")
    expect(seen.page.locator("h1")).to_have_text("Workloads")
    keys.press("/")
    keys.type("web")
    seen.page.wait_for_url("**/ui/#/workloads?*q=web*")
    seen.page.reload()
    expect(seen.page.get_by_label("Find")).to_have_value("web")
    seen.page.wait_for_selector("[data-row]")
    keys.press("j")
    assert seen.page.evaluate("document.activeElement.textContent") == "shop/web"
    keys.press("Enter")
    expect(seen.page.locator("h1")).to_contain_text("web")
    seen.page.wait_for_selector(SETTLED)
    keys.press("?")
    expect(seen.page.get_by_role("dialog")).to_be_visible()
    keys.press("Escape")
    expect(seen.page.get_by_role("dialog")).to_have_count(0)
    keys.press("Escape")
    expect(seen.page.locator("h1")).to_have_text("Workloads")


def test_what_is_seen_can_be_kept(seen: Seen) -> None:
    look(seen, "workloads")
    for kind, begins in (("CSV", "namespace,kind,name,"), ("JSON", "[\n"), ("Markdown", "| namespace | kind |")):
        with seen.page.expect_download() as saved:
            seen.page.get_by_role("button", name=kind, exact=True).click()
        text = Path(saved.value.path()).read_text()
        assert text.startswith(begins)
        assert "web" in text


def moments(seen: Seen) -> tuple[list[float], list[float]]:
    """Return when the events were, by their saved file and by the words under the pointer."""
    with seen.page.expect_download() as saved:
        seen.page.get_by_role("button", name="CSV", exact=True).click()
    rows = csv.DictReader(Path(saved.value.path()).read_text().splitlines())
    titles = seen.page.locator("main td[data-label='When'] time").evaluate_all("times => times.map(({title}) => title)")
    return (
        [float(row["unixSeconds"]) for row in rows],
        [datetime.fromisoformat(title.partition(",")[0]).timestamp() for title in titles],
    )


def test_ages_grow_where_the_answer_is_that_nothing_changed(seen: Seen) -> None:
    seen.page.clock.install()
    look(seen, "events")
    newest = seen.page.locator("main td[data-label='When']").first
    expect(newest).to_have_text(re.compile(r"^\d+ (s|min) ago$"))
    before = moments(seen)
    with seen.page.expect_response(lambda response: response.status == 304):
        seen.page.clock.fast_forward("03:00:00")
    expect(newest).to_have_text("3 h ago")
    after = moments(seen)
    for early, late in zip(before, after, strict=True):
        # Both files are written to the second; ages are drawn up to ten seconds after they came.
        assert late == pytest.approx(early, abs=15)


def test_each_refusal_says_what_to_do(seen: Seen, webhook: Filled) -> None:
    server, way = webhook.stack.server, webhook.way
    server.users["nobody"] = user("nobody")
    readable, server.readable = server.readable, frozenset()
    try:
        way.ask("nobody")
        look(seen, "nodes")
        expect(seen.page.locator(".refused")).to_contain_text("You may not read this.")
        expect(seen.page.locator(".refused")).to_contain_text("kubectl auth can-i")
        way.ask("unknown")
        look(seen, "workloads")
        expect(seen.page.locator(".refused")).to_contain_text("plimsoll ui")
        server.down = Unreachable("away")
        way.ask("new")
        look(seen, "nodes")
        expect(seen.page.locator(".refused")).to_contain_text("The webhook cannot tell now.")
        expect(seen.page.locator(".refused")).to_contain_text("kubectl -n plimsoll logs")
    finally:
        server.readable, server.down = readable, None
        way.ask("good")
    seen.page.get_by_role("button", name="Ask again now").click()
    seen.page.wait_for_selector("main table")


def test_cost_tells_who_sees_one_namespace_nothing_of_nodes(seen: Seen, webhook: Filled) -> None:
    server, way = webhook.stack.server, webhook.way
    server.users["ann"] = user("ann")
    readable, server.readable = server.readable, frozenset()
    server.listable["ann"] = frozenset({"shop"})
    try:
        way.ask("ann")
        look(seen, "cost")
        seen.page.wait_for_selector("main table")
        page = seen.page.locator("main").inner_text()
        assert "Requested by pods" in page
        assert "shop" in page
        for foreign in ("All nodes", "Idle", "NaN", "null", "undefined", "payments", "search", "platform", "node-"):
            assert foreign not in page, foreign
        look(seen, "cost?by=node")
        expect(seen.page.locator("main")).to_contain_text("readers of the whole cluster alone")
        assert not seen.faults()
    finally:
        server.readable = readable
        way.ask("good")


def test_of_many_pages_of_cost_none_says_that_it_begins_with_the_dearest_of_all(seen: Seen) -> None:
    def answer(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), "next": "shop/Deployment/web"})

    look(seen, "cost?by=workload")
    bar = seen.page.locator("main .bar-row")
    expect(bar).to_contain_text("dearest first")
    look(seen, "cost?by=workload&after=shop/Deployment/cart")
    expect(bar).to_contain_text("dearest of this page first, pages by name")
    seen.page.route("**/v1/cost?*", answer)
    look(seen, "cost?by=workload&namespace=shop")
    expect(bar).to_contain_text("dearest of this page first, pages by name")


def test_without_plimsoll_ui_a_token_is_asked_for_and_kept_nowhere(webhook: Filled, browser: Browser) -> None:
    host, port = webhook.way.server.address
    with looking(browser, f"https://{host}:{port}", ignore_https_errors=True) as seen:
        seen.page.goto(f"{seen.origin}/ui/#/nodes")
        expect(seen.page.locator(".refused")).to_contain_text("create token plimsoll-webhook-reader")
        seen.page.get_by_label("Token", exact=True).fill("good")
        seen.page.get_by_role("button", name="Look").click()
        seen.page.wait_for_selector("main table")
        seen.page.reload()
        expect(seen.page.get_by_label("Token", exact=True)).to_have_value("")
        assert not seen.faults()


def test_money_is_to_the_cent_what_was_worked_out_by_hand_and_what_the_command_line_says(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The API's own figures are held to the same sheet in tests/webhook/test_cost.py."""
    by_hand = {key: [month_text(Decimal(text)) for text in texts] for key, texts in WORKLOADS.items()}
    dearest = sorted(by_hand, key=lambda key: -Decimal(by_hand[key][0]))
    with priced(tmp_path) as site, looking(browser, f"http://{site.door.host}") as seen:
        seen.page.goto(site.door.url)
        seen.page.wait_for_url("**/ui/")
        look(seen, "workloads?sort=cost")
        cells = seen.page.locator("main td[data-label='A month']")
        assert cells.locator("b").all_inner_texts() == [f"{by_hand[key][0]} USD" for key in dearest]
        assert [cell.split("\n")[1:] for cell in cells.all_inner_texts()] == [
            [
                f"{sign} {text} USD {words}"
                for sign, text, words in zip("▽▲", by_hand[key][2:], ("to free", "needed"), strict=True)
                if text != "0.00"
            ]
            for key in dearest
        ]
        look(seen, "workloads/shop/Deployment/web")
        expect(seen.page.locator(".tiles .big")).to_have_text(
            [f"{text} USD" for text in by_hand["shop/Deployment/web"]]
        )
        look(seen, "cost?by=workload")
        amounts = seen.page.locator("main [aria-label='Cost'] td[data-label='A month']").all_inner_texts()
        assert amounts == [f"{by_hand[key][0]} USD" for key in dearest]
        totals = ["569.40 USD", "184.87 USD", "384.53 USD", "54.75 USD", "27.38 USD", "26.46 USD"]
        expect(seen.page.locator(".tiles .big")).to_have_text(totals)
        assert not seen.faults()
        host, port = site.way.server.address
        options = [f"--webhook=https://{host}:{port}", f"--token-file={tmp_path / 'token-of-good'}"]
        assert (
            main(["cost", "--by", "workload", "--width", "120", *options, f"--ca-file={site.way.server.authority}"])
            == 0
        )
    table = {"/".join(words[:3]): words for words in map(str.split, capsys.readouterr().out.splitlines())}
    for key, (cost, *worth) in by_hand.items():
        assert (table[key][4], table[key][-3:]) == (cost, worth)


def test_a_webhook_that_restarts_makes_the_page_say_how_old_it_is(webhook: Filled, seen: Seen) -> None:
    """At the end of this module: the server that the others look at stays."""
    first = webhook.way.server
    try:
        with running(webhook.stack.services, webhook.folder / "second", names=(NAME,)) as second:
            webhook.way.ask("good", second)
            look(seen, "nodes")
            seen.page.wait_for_selector("main table")
        seen.page.keyboard.press("r")
        banner = seen.page.locator(".stale-banner")
        expect(banner).to_contain_text("the webhook does not answer")
        assert seen.page.locator("main table").count() == 1, "what was told stays"
        with running(webhook.stack.services, webhook.folder / "third", names=(NAME,)) as third:
            webhook.way.ask("good", third)
            banner.get_by_role("button").click()
            expect(banner).to_have_count(0)
    finally:
        webhook.way.ask("good", first)
