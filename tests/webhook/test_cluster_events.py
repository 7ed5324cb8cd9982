"""``plimsoll events --cluster``: a real webhook is asked over real TLS."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.cli.main import main
from agent.webhook.store.records.decisions import DecisionLogState, StoredDecision
from tests.webhook.https import running
from tests.webhook.stack import WEB, stack

NOW = time.time()
"""One moment for all: of each its own, those that a busy machine makes long after others would not be older."""
CHANGE = '[{"container":"app","resource":"cpu","field":"request","before":400,"after":200}]'


def decision(sequence: int) -> StoredDecision:
    return StoredDecision(
        node="node-a",
        incarnation="i",
        sequence=sequence,
        unix_seconds=NOW - 10 * sequence,
        action="resize",
        outcome="applied",
        reason="over",
        detail="=1+1",
        workload=WEB,
        pod=f"web-{sequence}",
        pod_uid=f"uid-{sequence}",
        changes=CHANGE,
        seconds=1.5,
        repeats=1,
        asked_by=None,
    )


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    folder = tmp_path_factory.mktemp("events")
    (folder / "token").write_text("good\n")
    with stack(folder) as webhook:
        log = DecisionLogState(node="node-a", incarnation="i", agent="1", dropped=7, received_unix_seconds=time.time())
        about_node = replace(
            decision(601),
            workload=None,
            pod=None,
            pod_uid=None,
            action="pause",
            outcome="done",
            changes="[]",
            asked_by="root (uid 0)",
            reason="asked for",
        )
        for first in range(1, 601, 200):
            webhook.store.take_decisions(log, [decision(number) for number in range(first, first + 200)])
        webhook.store.take_decisions(log, [about_node])
        with running(webhook.services, folder, names=("plimsoll-webhook.plimsoll.svc",)) as server:
            host, port = server.address
            reach = [f"--webhook=https://{host}:{port}", f"--token-file={folder / 'token'}"]
            yield ["--cluster", *reach, f"--ca-file={server.authority}"]


def test_table_says_who_what_why_and_that_there_is_more(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", *options, "--limit", "3", "--width", "160"]) == 0
    out = capsys.readouterr().out
    assert "3 decisions of the whole cluster, newest first" in out
    assert "there are more: --limit, --since" in out
    assert "nodes had to drop 7 decisions" in out
    assert "shop/web-1" in out
    assert "app CPU request 400m" in out
    assert main(["events", *options, "--action", "pause", "--width", "160"]) == 0
    assert "root (uid 0)" in capsys.readouterr().out


def test_json_and_csv_hold_all_pages(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", *options, "--limit", "0", "-o", "json"]) == 0
    assert [event["sequence"] for event in json.loads(capsys.readouterr().out)["events"]] == list(range(1, 602))
    assert main(["events", *options, "--limit", "0", "-o", "csv", "--workload", "Deployment/web"]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (len(rows), "there are more" in err) == (600, False)
    assert (rows[0]["pod"], rows[0]["changes"]) == ("web-1", "app CPU request 400m -> 200m")
    assert rows[0]["detail"] == "'=1+1", "no spreadsheet works it out"


def test_csv_that_is_cut_says_so_beside_its_rows(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", *options, "--limit", "3", "-o", "csv"]) == 0
    out, err = capsys.readouterr()
    assert len(list(csv.DictReader(io.StringIO(out)))) == 3
    assert err.splitlines() == [
        "plimsoll events: there are more: --limit, --since",
        "plimsoll events: nodes had to drop 7 decisions before the webhook took them",
    ]


def test_help_tells_the_most_that_is_shown_of_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["events", "--help"])
    assert "0 = all that are kept, with --cluster the newest 10000 (default: 40)" in " ".join(
        capsys.readouterr().out.split()
    )


def test_nothing_that_matches_is_said(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", *options, "--pod", "none"]) == 0
    assert "no decision about a pod called none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--node", "a"], "--node is of all nodes; allowed: with --cluster"),
        (["--workload", "a"], "--workload is of all nodes; allowed: with --cluster"),
        (["-o", "csv"], "-o csv is of all nodes; allowed: with --cluster, or -o json"),
        (["--cluster", "--all"], "allowed: without --all"),
        (["--cluster", "-n", "a*"], "allowed: one namespace with --cluster"),
    ],
)
def test_what_does_not_go_together_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["events", *words])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_no_answer_is_code_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("good\n")
    reach = ["--webhook=https://127.0.0.1:1", f"--token-file={tmp_path / 'token'}"]
    assert main(["events", "--cluster", *reach]) == 1
    assert "plimsoll events: webhook at https://127.0.0.1:1: no answer" in capsys.readouterr().err
