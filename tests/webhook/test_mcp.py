"""``plimsoll mcp``: the protocol's own client speaks to it over pipes, and it to a real webhook over real TLS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent

from agent.cli.client.webhook import NoWebhookAnswerError, PassedAnswer
from agent.cli.main import main
from agent.cli.verbs.cluster.mcp import MOST_CHARACTERS, Tools
from tests.webhook.https import running
from tests.webhook.stack import READABLE, stack
from tests.webhook.test_access import Server, user
from tests.webhook.test_reading_scopes import Desk

T = TypeVar("T")
OF_WEB = "/v1/workloads/shop/Deployment/web"


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """How the verb is called for a webhook that knows three workloads."""
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "token").write_text("good\n")
    server = Server(users={"good": user(), "stranger": user()}, readable=READABLE | {OF_WEB})
    with stack(folder, server=server) as backend:
        Desk(backend)
        with running(backend.services, folder, names=("plimsoll-webhook.plimsoll.svc",)) as webhook:
            host, port = webhook.address
            reach = [f"--webhook=https://{host}:{port}", f"--token-file={folder / 'token'}"]
            yield ["mcp", *reach, f"--ca-file={webhook.authority}"]


def spoken(words: list[str], say: Callable[[ClientSession], Awaitable[T]]) -> T:
    """Speak with a process of it, as a model's client does."""

    async def session() -> T:
        server = StdioServerParameters(command=sys.executable, args=["-m", "agent", *words], env=dict(os.environ))
        async with stdio_client(server) as (incoming, outgoing), ClientSession(incoming, outgoing) as client:
            await client.initialize()
            return await say(client)

    return anyio.run(session)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def test_a_client_lists_the_tools_and_has_answers_and_faults_it_can_mend(words: list[str]) -> None:
    async def say(client: ClientSession) -> list[object]:
        listed = await client.list_tools()
        return [
            listed,
            await client.call_tool("workloads", {"sort": "short", "limit": 2}),
            await client.call_tool("workload", {"namespace": "shop", "kind": "Deployment", "name": "web"}),
            await client.call_tool("workloads", {"sort": "size"}),
        ]

    listed, workloads, workload, faulty = spoken(words, say)
    tools = {tool.name: tool for tool in listed.tools}  # type: ignore[attr-defined]  # as list_tools gives it
    assert set(tools) == {"buffers", "buffer", "cost", "events", "nodes", "policy", "summary", "workloads", "workload"}
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    assert tools["workload"].input_schema["required"] == ["namespace", "kind", "name"]
    assert "If-None-Match" not in tools["workload"].input_schema["properties"]
    assert isinstance(workloads, CallToolResult)
    assert [line["name"] for line in json.loads(text_of(workloads))["workloads"]] == ["api", "web"]
    assert isinstance(workload, CallToolResult)
    assert json.loads(text_of(workload))["name"] == "web"
    assert isinstance(faulty, CallToolResult)
    assert faulty.is_error
    assert text_of(faulty).startswith("workloads: 400: sort: 'size' is not allowed; allowed: name, short, kills")


def test_it_ends_with_its_input_and_says_in_one_line_why_it_does_not_begin(words: list[str], tmp_path: Path) -> None:
    def ended(*more: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "agent", *words, *more]
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return process.returncode, process.stdout, process.stderr

    assert ended() == (0, "", "")
    (tmp_path / "token").write_text("nobody\n")
    code, out, err = ended(f"--token-file={tmp_path / 'token'}")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("plimsoll mcp: the webhook refuses: 401: ")
    assert ended("--webhook=http://x")[0] == 2


def tools(answer: PassedAnswer, asked: list[str]) -> Tools:
    def ask(target: str) -> PassedAnswer:
        asked.append(target)
        return answer

    return Tools(ask)


def test_what_is_asked_stays_within_the_path_of_its_tool() -> None:
    asked: list[str] = []
    toolset = tools(PassedAnswer(status=200, headers={}, body=b"{}"), asked)
    hostile = {"namespace": "a/../../x", "kind": "?q=1", "name": "n#%2e", "policy": "vpa&x=1"}
    assert not toolset.call("workload", hostile).is_error
    toolset.call("workloads", {"reverse": True, "limit": 5})
    assert asked == [
        "/v1/workloads/a%2F..%2F..%2Fx/%3Fq%3D1/n%23%252e?policy=vpa%26x%3D1",
        "/v1/workloads?reverse=true&limit=5",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (
            "forget",
            {},
            "forget: is no tool; allowed: buffer, buffers, cost, events, nodes, policy, summary, workload, workloads",
        ),
        ("nodes", {"limit": 1}, "nodes: 'limit' is not allowed; allowed: nothing"),
        ("summary", {"x" * 100: 1}, f"summary: '{'x' * 60}' is not allowed; allowed: nothing"),
        ("buffer", {"namespace": "shop"}, "buffer: name: missing"),
        ("buffer", {"namespace": "..", "name": "x"}, "buffer: namespace: '..' is not allowed; allowed: a name"),
    ],
)
def test_a_call_that_cannot_be_is_refused_before_anything_is_asked(
    name: str, arguments: dict[str, object], said: str
) -> None:
    asked: list[str] = []
    result = tools(PassedAnswer(status=200, headers={}, body=b"{}"), asked).call(name, arguments)
    assert (result.is_error, asked) == (True, [])
    assert text_of(result).startswith(said)


def test_an_answer_too_long_for_a_model_and_a_webhook_that_is_away_are_faults() -> None:
    long = PassedAnswer(status=200, headers={}, body=b"x" * (MOST_CHARACTERS + 1))
    result = tools(long, []).call("workloads", {})
    assert result.is_error
    assert text_of(result) == (
        f"workloads: {MOST_CHARACTERS + 1} characters; allowed: at most {MOST_CHARACTERS}; ask for less, by limit or "
        "namespace"
    )

    def away(_target: str) -> PassedAnswer:
        raise NoWebhookAnswerError("webhook at https://x: no answer: refused")

    assert text_of(Tools(away).call("nodes", {})) == "nodes: webhook at https://x: no answer: refused"


def test_without_the_library_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert capsys.readouterr().err == (
        "plimsoll mcp: the library for it is not installed; allowed: pip install 'plimsoll[mcp]'\n"
    )
