"""``plimsoll report --weekly``: a real webhook is asked over real TLS, of a week with all that a report tells."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.cli.main import main
from agent.cli.workloads.weekly import WeeklyBody
from agent.core.cost.prices import Prices
from agent.webhook.store.records.decisions import DecisionLogState
from tests import cost_sheet
from tests.webhook.https import running
from tests.webhook.stack import WEB, Stack, stack
from tests.webhook.test_cost import put_sheet
from tests.webhook.test_reading_scopes import Desk, decision

HOSTILE = "<img src=x onerror=alert(1)> | `*_[a](javascript:b)"


def put_week(backend: Stack) -> None:
    """Two resizes of web, what people ordered, and what failed for a reason that somebody chose the words of."""
    now = time.time()
    state = DecisionLogState(node="node-a", incarnation="w", agent="1", dropped=0, received_unix_seconds=now)
    change = '[{"container":"app","resource":"cpu","field":"request","before":%d,"after":%d}]'

    def at(sequence: int, seconds: float, **fields: Any) -> Any:
        fields = {"incarnation": "w", "unix_seconds": now - seconds, **fields}
        workload = fields.pop("workload", WEB)
        return decision(sequence, workload, **fields)

    backend.store.take_decisions(
        state,
        [
            at(10, 9 * 86_400, changes=change % (900, 800)),  # before the week
            at(11, 6 * 86_400, changes=change % (600, 500), pod_uid="uid-1"),
            at(12, 5 * 86_400, changes=change % (500, 400), pod_uid="uid-2"),
            at(13, 4000, outcome="rejected", reason="admission", detail=HOSTILE),
            at(14, 3900, outcome="rejected", reason="admission", detail="the last word", repeats=4),
            at(15, 3800, action="pause", outcome="done", reason="asked for", asked_by="root (uid 0)", workload=None),
            at(16, 3700, outcome="deferred", reason="node full"),
        ],
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, list[str]]]:
    folder = tmp_path_factory.mktemp("week")
    (folder / "token").write_text("good\n")
    with stack(folder, prices=Prices(), advice=cost_sheet.Advice()) as backend:
        Desk(backend)
        put_week(backend)
        put_sheet(backend)
        with running(backend.services, folder, names=("plimsoll-webhook.plimsoll.svc",)) as webhook:
            host, port = webhook.address
            reach = [f"--webhook=https://{host}:{port}", f"--token-file={folder / 'token'}"]
            yield backend, ["report", "--weekly", *reach, f"--ca-file={webhook.authority}"]


def told(served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*served[1], *words]) == 0
    return capsys.readouterr().out


def test_json_counts_what_was_done_within_the_week(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    body = msgspec.json.decode(told(served, capsys, "-o", "json"), type=WeeklyBody, strict=True)
    assert (body.schema, body.days, body.scope.whole_cluster, body.is_whole) == (1, 7, True, True)
    # web: 600 -> 500 and 500 -> 400 of two pods, and the Desk's 400 -> 200 of a third; 900 -> 800 is older than a week
    web, *others = body.changed
    assert (web.workload, web.resizes, web.pods) == ("web", 3, 3)
    assert [(change.before, change.after) for change in web.changes] == [(600, 200)]
    assert [(entry.workload, entry.resizes) for entry in others] == [("vault", 1), ("api", 1)]
    assert (body.resizes, body.changed_workloads) == (5, 3)
    # One rejection of web, and one that was said four times; what is only late is no failure.
    assert [(fault.action, fault.outcome, fault.count, fault.workloads, fault.detail) for fault in body.failed] == [
        ("resize", "rejected", 5, 1, "the last word")
    ]
    assert [(order.action, order.by, order.count) for order in body.ordered] == [("pause", "root (uid 0)", 1)]
    assert (body.short, [line.name for line in body.shortest]) == (1, ["api"])
    # web 500 - 400, api 500 - 100, vault 9000 - 9000
    assert [day.sum.freed_cpu_millicores for day in body.freed_by_day] == [500]
    assert [row.key for row in body.cost.rows] == ["shop/Deployment/web", "bank/StatefulSet/db"]


class Page(HTMLParser):
    """What a reader of the page is shown, and what it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_markdown_and_html_tell_what_a_monday_asks(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = told(served, capsys).replace("\\", "")
    page = Page()
    page.feed(told(served, capsys, "-o", "html"))
    shown = " ".join(" ".join(page.texts).split())
    for text in (
        "What changed",
        "What it freed",
        "Who is short",
        "What failed, and what people ordered",
        "Worst sizing",
    ):
        assert f"## {text}\n" in plain
        assert text in shown
    for text in (
        "Of the whole cluster: 0.2 cores and 0.0 GiB are requested and not needed; 1 workload is short.",
        "5 resizes in place, of 3 workloads.",
        "app CPU request 600m -> 200m",
        "* = list price (OpenCost's reference), not your bill",
        "could go if all pods requested what is recommended",
        "the bill falls only when nodes go",
        "1 of 7 workloads is short in the newest whole hour.",
        "needs 200m more CPU than it requests",
        "the last word",
        "root (uid 0)",
        "No node told yet how good sizing was.",
    ):
        assert text in plain, text
        assert text in shown, text
    # By list prices: web could free 300m of each pod; two of them on a spot node, one not:
    # (2 x 0.006655 + 0.031611) x 0.3 x 730 = 9.84; each needs half a GiB more: (2 x 0.000892 + 0.004237) x 0.5 x 730
    assert "| 9.84* | 2.20* |" in plain
    assert "| shop/Deployment/web | 3 | 3 | app CPU request 600m -> 200m |" in plain


def test_page_has_no_script_and_asks_nobody(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    page = Page()
    page.feed(told(served, capsys, "-o", "html"))
    allowed = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div"}
    assert page.tags <= allowed | {"table", "thead", "tbody", "tr", "th", "td"}
    assert page.attributes <= {"lang", "charset", "name", "content", "class"}
    assert "url(" not in " ".join(page.texts)


def test_words_of_anybody_are_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("good\n")
    with stack(tmp_path, prices=Prices()) as backend:
        backend.follow()
        log = DecisionLogState(node="node-a", incarnation="i", agent="1", dropped=0, received_unix_seconds=time.time())
        named = replace(WEB, name=HOSTILE)
        backend.store.take_decisions(
            log, [decision(1, named), decision(2, named, outcome="error", reason=HOSTILE, detail=HOSTILE)]
        )
        with running(backend.services, tmp_path, names=("plimsoll-webhook.plimsoll.svc",)) as webhook:
            host, port = webhook.address
            reach = [f"--webhook=https://{host}:{port}", f"--token-file={tmp_path / 'token'}"]
            words = ["report", "--weekly", *reach, f"--ca-file={webhook.authority}"]
            assert main([*words, "-o", "html"]) == 0
            content = capsys.readouterr().out
            file = tmp_path / "week.md"
            assert main([*words, "--file", str(file)]) == 0
            assert capsys.readouterr().out == ""
    page = Page()
    page.feed(content)
    assert "img" not in page.tags
    assert "onerror" not in page.attributes
    assert HOSTILE in " ".join(page.texts)
    rows = [line for line in file.read_text().splitlines() if "onerror" in line]
    assert len(rows) == 2
    for row in rows:
        bare = row.replace("\\\\", "")
        for mark in ("<img", "`", "*", "_", "["):
            assert bare.count(mark) == bare.count("\\" + mark), (mark, row)
        assert "\\|" in bare, "or it would be a column of its own"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: --weekly"),
        (["--weekly", "-o", "pdf"], "argument -o/--output: 'pdf' is not allowed; allowed: md, html, json"),
        (["--weekly", "--file", "/none/week.md"], "report: --file /none/week.md: no such directory"),
        (["--weekly", "--file", "/dev"], "report: --file /dev: is not a regular file"),
    ],
)
def test_what_cannot_be_meant_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_closed_doors_are_one_line_and_leave_no_file(
    served: tuple[Stack, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend, words = served
    file = tmp_path / "week.html"
    (tmp_path / "other").write_text("bad\n")
    refused = [word if "token-file" not in word else f"--token-file={tmp_path / 'other'}" for word in words]
    away = [word if "--webhook" not in word else "--webhook=https://127.0.0.1:1" for word in words]
    for asked, said in ((refused, ": 401: "), (away, "webhook at https://127.0.0.1:1: no answer")):
        assert main([*asked, "-o", "html", "--file", str(file)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("plimsoll report: webhook at ")
        assert said in error
        assert error.count("\n") == 1
    backend.facts.is_complete = False
    try:
        assert main([*words, "--file", str(file)]) == 1
        assert "503: the cluster's pods, HPAs and VPAs are not all read yet" in capsys.readouterr().err
    finally:
        backend.facts.is_complete = True
    assert not file.exists()
