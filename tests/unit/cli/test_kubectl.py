"""``kubectl plimsoll`` against a server of sockets in the API server's place: whom it asks, with which words."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.cli.kubectl import KUBECTL_VERBS, main
from tests.unit.kube.client.test_pod_exec import SUCCESS, Behave, Server, answering, api_server, frame, upgrade
from tests.webhook_server import authority

REPOSITORY = Path(__file__).parents[3]
AGENTS = "/api/v1/namespaces/plimsoll/pods"
NO_POD = {"kind": "Status", "reason": "NotFound", "message": "not found", "code": 404}
FAILED = (
    b'\x03{"status": "Failure", "message": "exit code 1", '
    b'"details": {"causes": [{"reason": "ExitCode", "message": "1"}]}}'
)


def agent_pod(name: str, node: str) -> dict[str, object]:
    return {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": node}, "status": {"phase": "Running"}}


def playing(documents: Mapping[str, object], *frames: bytes) -> Behave:
    """Answer reads from documents by path, and an exec with frames."""

    def behave(connection: ssl.SSLSocket, head: str) -> None:
        path = urlsplit(head.split()[1]).path
        if path.endswith("/exec"):
            upgrade(connection, head)
            connection.sendall(b"".join(frames))
            return
        document = documents.get(path, NO_POD)
        status = "404 Not Found" if document is NO_POD else "200 OK"
        answering(status, json.dumps(document).encode(), "Connection: close")(connection, head)

    return behave


def two_agents() -> dict[str, object]:
    pod = {"metadata": {"name": "web-1"}, "spec": {"nodeName": "node-b"}}
    return {
        AGENTS: {"items": [agent_pod("agent-a", "node-a"), agent_pod("agent-b", "node-b")]},
        "/api/v1/namespaces/shop/pods/web-1": pod,
        "/api/v1/namespaces/shop/pods/waiting": {"metadata": {"name": "waiting"}, "spec": {}},
    }


@pytest.fixture(autouse=True)
def _called_by_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-plimsoll"])


def kubeconfig(folder: Path, server: str) -> str:
    path = folder / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: one\n"
        "contexts: [{name: one, context: {cluster: k, user: u, namespace: shop}}]\n"
        f"clusters: [{{name: k, cluster: {{server: '{server}', certificate-authority: "
        f"'{authority('api').certificate}'}}}}]\nusers: [{{name: u, user: {{token: x}}}}]\n"
    )
    return f"--kubeconfig={path}"


def asked(server: Server) -> tuple[str, list[str]]:
    """Return the pod of the one exec, and its command."""
    [target] = [head.split()[1] for head in server.heads if "/exec?" in head]
    address = urlsplit(target)
    return address.path.split("/")[-2], parse_qs(address.query)["command"]


@pytest.mark.parametrize(
    ("words", "pod", "command"),
    [
        (("top", "node-a", "--once"), "agent-a", "top --once"),
        (
            ("top", "--sort", "memory", "web-1", "-ojson"),
            "agent-b",
            "top --sort memory -ojson --namespace shop --pod web-1",
        ),
        (("events", "node-b", "-n", "bank"), "agent-b", "events --namespace bank"),
        (("why", "web-1"), "agent-b", "why shop/web-1"),
        (("why", "web-1/app", "--since=2h", "--plot"), "agent-b", "why --since=2h --plot shop/web-1/app"),
        (("why", "shop/web-1"), "agent-b", "why shop/web-1"),
        (("pause", "node-a", "--for", "2h"), "agent-a", "pause --for 2h"),
        (("plan", "node/node-a", "--what-if"), "agent-a", "plan --what-if"),
    ],
)
def test_a_verb_runs_beside_the_agent_of_the_node(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], pod: str, command: str
) -> None:
    behave = playing(two_agents(), frame(b"\x01shown\n"), frame(b"\x02noted\n"), frame(SUCCESS))
    with api_server(behave) as server:
        assert main([*words, kubeconfig(tmp_path, server.url)]) == 0
        assert asked(server) == (pod, ["plimsoll", *command.split()])
    assert capfd.readouterr() == ("shown\n", "noted\n")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("top", "node/node-c"), 1, "kubectl plimsoll top: no agent is on node node-c; allowed: node-a, node-b"),
        (("why", "gone"), 2, "kubectl plimsoll why: gone: there is no pod shop/gone; allowed: "),
        (("why", "waiting"), 2, "kubectl plimsoll why: pod shop/waiting is on no node yet"),
        (("top", "node-a", "--context", "two"), 2, "context two is not there; allowed: one"),
        (
            ("why", "web-1", "--png", "x.png"),
            2,
            "kubectl plimsoll why: --png: is for files and processes of one machine",
        ),
        (("pause",), 2, "kubectl plimsoll pause: the following arguments are required: NODE"),
        (("restore", "--all"), 2, "kubectl plimsoll: argument VERB: 'restore' is not allowed; allowed: top, "),
        (("workloads",), 1, "kubectl plimsoll workloads: no webhook is installed in namespace plimsoll"),
    ],
)
def test_what_cannot_be_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, told: str
) -> None:
    documents = two_agents()
    if words == ("workloads",):
        documents[AGENTS] = {"items": []}
    with api_server(playing(documents)) as server:
        file = kubeconfig(tmp_path, server.url)
        try:
            ended: object = main([*words, *(() if words[0] == "restore" else (file,))])
        except SystemExit as error:
            ended = error.code
        assert not any("/exec?" in head for head in server.heads)
    assert ended == code
    [line] = capfd.readouterr().err.splitlines()
    assert told in line


@pytest.mark.parametrize(
    ("frames", "code", "told"),
    [
        ((frame(FAILED),), 1, ""),
        ((frame(b"\x01half"),), 1, "kubectl plimsoll plan: exec plimsoll/agent-a: the connection ended too early"),
        ((frame(b'\x03{"status": "Failure", "message": "no such file"}'),), 1, "agent-a on node node-a: no such file"),
    ],
)
def test_the_end_there_is_the_end_here(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], frames: tuple[bytes, ...], code: int, told: str
) -> None:
    with api_server(playing(two_agents(), *frames)) as server:
        assert main(["plan", "node-a", kubeconfig(tmp_path, server.url)]) == code
    assert told in capfd.readouterr().err


def test_a_missing_right_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    message = 'pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "plimsoll"'
    body = json.dumps({"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}).encode()
    with api_server(answering("403 Forbidden", body, "Connection: close")) as server:
        assert main(["plan", "node-a", kubeconfig(tmp_path, server.url)]) == 1
    assert capfd.readouterr().err == f"kubectl plimsoll plan: a right is missing: {message}\n"


@pytest.mark.parametrize("verb", KUBECTL_VERBS)
def test_usage_tells_the_name_it_was_called_by(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert f"usage: kubectl plimsoll {verb}" in capsys.readouterr().out


@pytest.mark.slow
def test_the_agent_loads_none_of_it() -> None:
    script = (
        "import sys, agent.cli.main, agent.cli.verbs.node.agent, agent.node.daemon\n"
        "loaded = {name for name in sys.modules if name.startswith(('websocket', 'agent.cli.kubectl', "
        "'agent.kube.client.pod_', 'agent.cli.client.webhook_forward'))}\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
