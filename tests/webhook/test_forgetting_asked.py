"""An order to forget as a person gives it: over real TLS, by its own right, after a question; one clear line else."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from tests.webhook.https import running
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.stack import READABLE, Stack, stack
from tests.webhook.test_access import Server, user
from tests.webhook.test_runs import a_run

REPOSITORY = Path(__file__).parents[2]
FORGETTABLE = frozenset(
    {
        "/v1/workloads/shop/Deployment/web",
        "/v1/workloads/shop/Job/nix",
        "/v1/workloads/shop/CronJob/report",
        "/v1/nodes/node-a",
        "/v1/nodes/node-x",
    }
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Stack, list[str]]]:
    """A webhook that knows one workload, and how to reach it as one who may forget, as ``--token-file`` says."""
    server = Server(users={"good": user(), "reader": user("reader")}, readable=READABLE, forgettable=FORGETTABLE)
    (tmp_path / "token").write_text("good\n")
    with stack(tmp_path, server=server) as webhook:
        webhook.report(packed(report_body(row_body(0), row_body(1))), content_encoding="gzip")
        webhook.follow()
        with running(webhook.services, tmp_path, names=("plimsoll-webhook.plimsoll.svc",)) as running_server:
            host, port = running_server.address
            options = [f"--webhook=https://{host}:{port}", f"--token-file={tmp_path / 'token'}"]
            yield webhook, [*options, f"--ca-file={running_server.authority}"]


def code_of(*arguments: str) -> int:
    try:
        return main(["workloads", *arguments])
    except SystemExit as ended:
        return int(str(ended.code))


@pytest.mark.parametrize(
    "words",
    [
        ("--forget", "shop/Deployment/web"),
        ("--forget=shop/Deployment/web",),
        ("shop/Deployment/web", "--forget"),
        ("--forget", "shop/web"),
        ("--forget", "--node", "node-a"),
        ("--node", "node-a", "--forget"),
        ("--forget", "--node=node-a", "--since", "2h"),
    ],
)
def test_every_spelling_forgets_and_tells_what_went(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    webhook, options = served
    assert [seen.workload.name for seen in webhook.index.workloads()] == ["web"]
    assert code_of(*words, "--yes", *options) == 0
    out, _ = capsys.readouterr()
    first, second, *_ = out.splitlines()
    assert first.startswith("forgotten: ")
    assert "1 workload, 1 container, 1 hour, 0 rows of the database" in first
    assert second.split() == ["shop/Deployment/web", "app", "1", "hour"]
    assert webhook.index.workloads() == ()
    assert webhook.counted('plimsoll_forget_orders_received_total{result="accepted"}') == 1


def test_a_cron_job_of_which_there_are_runs_alone_is_forgotten(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    webhook, options = served
    webhook.store.take_runs([a_run(1)])
    assert code_of("--forget", "shop/CronJob/report", "--yes", *options) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("forgotten: CronJob shop/report: 1 workload, 0 containers, 0 hours, 0 rows of the database")
    assert second.split() == ["shop/CronJob/report", "0", "hours"]
    assert webhook.store.runs_after(0)[0] == []


def test_json_is_the_webhooks_own(served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("--forget", "--node", "node-a", "--yes", "-o", "json", *served[1]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["dryRun"], answer["node"], answer["inMemoryToo"], answer["reports"]) == (False, "node-a", True, 1)
    assert answer["workloads"] == [
        {"namespace": "shop", "kind": "Deployment", "name": "web", "containers": ["app"], "hours": 1}
    ]


def test_who_asked_and_what_went_is_logged(served: tuple[Stack, list[str]], caplog: pytest.LogCaptureFixture) -> None:
    assert code_of("--forget", "shop/Deployment/web", "--yes", *served[1]) == 0
    (record,) = [entry for entry in caplog.records if entry.getMessage() == "history forgotten"]
    fields = record.__dict__
    assert fields["asked_by"] == user()["username"]
    assert "web" in fields["what"]
    assert (fields["workloads"], fields["hours"]) == (1, 1)


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("--node", "node-a"), 2, "workloads: --node is for --forget; allowed: --forget --node NAME"),
        (("--yes",), 2, "workloads: --yes is for --forget"),
        (("--since", "1h"), 2, "workloads: --since is for --forget"),
        (("--forget",), 2, "neither a workload nor --node is given"),
        (("--forget", "shop/web", "--node", "node-a"), 2, "both a workload and --node are given"),
        (("--forget", "shop/web", "shop/api"), 2, "--forget names one workload and WORKLOAD another"),
        (("--forget", "shop", "--yes"), 2, "shop: is not allowed; allowed: NAMESPACE/KIND/NAME"),
        (("--forget", "shop/a/b/c", "--yes"), 2, "is not allowed; allowed: NAMESPACE/KIND/NAME"),
        (("--forget", "shop/web", "--since", "1h", "--yes"), 2, "--since is for a node"),
        (("--forget", "--node", "node-a", "--since", "15d", "--yes"), 2, "too long; allowed: up to 14d"),
        (("--forget", "--node", "a/b", "--yes"), 2, "--node 'a/b': is not allowed; allowed: a node's name"),
        (("--forget", "shop/web", "--policy", "vpa", "--yes"), 2, "--policy does not go with --forget"),
        (("--forget", "shop/Job/nix", "--yes"), 1, "404: nothing is known of Job shop/nix"),
        (("--forget", "shop/nix", "--yes"), 1, "nothing is known of a workload shop/nix"),
        (("--forget", "--node", "node-x", "--yes"), 1, "404: nothing is known of a node node-x"),
        (("--forget", "shop/web"), 2, "--forget asks first, and there is no terminal to ask on; allowed: --yes"),
    ],
)
def test_what_cannot_be_forgotten_is_one_line(
    served: tuple[Stack, list[str]],
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    line: str,
) -> None:
    assert code_of(*words, *served[1]) == code
    out, error = capsys.readouterr()
    assert (line in error, error.count("\n"), out) == (True, 1, ""), error
    assert len(served[0].index.workloads()) == 1


def test_a_reader_may_not_have_anything_forgotten(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    webhook, options = served
    webhook.server.forgettable = frozenset()
    assert code_of("shop/Deployment/web", *options) == 0
    for words in (("--forget", "shop/Deployment/web"), ("--forget", "--node", "node-a")):
        assert code_of(*words, "--yes", *options) == 1
        path = "/v1/workloads/shop/Deployment/web" if len(words) == 2 else "/v1/nodes/node-a"
        assert f"may not delete the nonResourceURL {path}" in capsys.readouterr().err
    assert len(webhook.index.workloads()) == 1
    assert webhook.counted('plimsoll_forget_orders_received_total{result="forbidden"}') == 2


@pytest.mark.parametrize(("said", "code", "left"), [(b"n\n", 1, 1), (b"\n", 1, 1), (b"\x04", 1, 1), (b"y\n", 0, 0)])
def test_on_a_terminal_it_says_what_goes_and_asks(
    served: tuple[Stack, list[str]], said: bytes, code: int, left: int
) -> None:
    webhook, options = served
    keyboard, terminal = pty.openpty()
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "agent", "workloads", "--forget", "--node", "node-a", *options],
            cwd=REPOSITORY,
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(terminal)
        assert child.stderr is not None
        asked = b""
        while not asked.endswith(b"[y/N] "):
            some = child.stderr.read1()  # type: ignore[attr-defined]
            assert some, asked
            asked += some
        assert len(webhook.index.workloads()) == 1, "nothing goes before it is answered"
        os.write(keyboard, said)
        out, _ = child.communicate(timeout=60)
    finally:
        os.close(keyboard)
    words = asked.decode()
    assert words.startswith("would be forgotten: what node node-a reported: 1 workload, 1 container, 1 hour")
    assert "what others reported of these workloads in these hours goes too" in words
    assert child.returncode == code
    assert len(webhook.index.workloads()) == left
    assert out.decode().startswith("forgotten: ") == (code == 0)


def ask(webhook: Stack, path: str, names: dict[str, str], **query: str) -> Any:
    from agent.webhook.http.routes import Call

    return webhook.services.forget(Call(path=path, authorization="Bearer good", query=query, names=names))


@pytest.mark.parametrize(
    ("path", "query", "words"),
    [
        ("/v1/nodes/node-a", {"dryRun": "yes"}, "dryRun: 'yes' is not allowed; allowed: true, false"),
        ("/v1/nodes/node-a", {"sinceSeconds": "0"}, "sinceSeconds: '0' is not allowed; allowed: 1 to 1209600"),
        ("/v1/nodes/node-a", {"sinceSeconds": "1e3"}, "sinceSeconds: '1e3' is not allowed"),
        ("/v1/workloads/shop/Deployment/web", {"sinceSeconds": "60"}, "sinceSeconds: is not allowed here"),
        ("/v1/nodes/a\0", {}, "node: 'a\\x00' is not allowed"),
    ],
)
def test_a_question_that_is_not_understood_is_400(
    served: tuple[Stack, list[str]], path: str, query: dict[str, str], words: str
) -> None:
    webhook, _ = served
    webhook.server.forgettable |= {path}
    parts = path.split("/")[3:]
    names = {"node": parts[0]} if len(parts) == 1 else dict(zip(("namespace", "kind", "name"), parts, strict=True))
    reply = ask(webhook, path, names, **query)
    assert reply.status == 400
    assert words in json.loads(reply.body)["error"]
    assert len(webhook.index.workloads()) == 1
