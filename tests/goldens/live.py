"""A real agent and a real webhook for some seconds: their pages, answers and API calls by name and form, not value."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cluster.processes import free_ports
from tests.goldens.cases import prepare, write_cgroups
from tests.goldens.command import Tree, json_of, normalised, path_lines
from tests.goldens.places import INPUTS
from tests.goldens.servers import ClusterAnswers, http_server, write_kubeconfig

Json = dict[str, Any]
_PATIENCE_SECONDS: Final = 180.0


def _token() -> str:
    claims = {
        "aud": ["plimsoll-webhook"],
        "exp": 4_000_000_000,
        "sub": "system:serviceaccount:plimsoll:plimsoll-agent",
        "kubernetes.io": {"node": {"name": "worker-7"}, "pod": {"name": "agent-x", "uid": "uid-agent-x"}},
    }
    parts = ({"alg": "RS256", "kid": "a"}, claims)
    written = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*written, "AAAA"])


TOKEN: Final = _token()
"""Of an agent, as far as can be seen without the API server's keys; the API server is asked about it."""
_RAW: Final[tuple[tuple[str, Json], ...]] = (
    ("ping", {}),
    ("ping", {"colour": 1}),
    ("snapshot", {}),
    ("snapshot", {"at_age_seconds": -1}),
    ("snapshot", {"colour": 1}),
    ("recommend", {}),
    ("recommend", {"colour": 1}),
    ("why", {"name": "web"}),
    ("why", {"name": "nobody"}),
    ("why", {"name": 1}),
    ("why", {"name": "web", "trail_seconds": 600}),
    ("plan", {"what_if": False}),
    ("plan", {"what_if": "x"}),
    ("events", {}),
    ("events", {"limit": "x"}),
    ("holds", {}),
    ("cluster", {}),
    ("pause", {"seconds": "x"}),
    ("pin", {"name": "nobody"}),
    ("restore", {"name": "nobody"}),
    ("dance", {}),
)
"""Questions to the socket, right and wrong."""
_TOLD: Final[tuple[tuple[str, ...], ...]] = (
    ("pin",),
    ("pause", "--for", "30m"),
    ("pin", "shop/db-0", "--for", "1h"),
    ("pin", "nobody"),
    ("pin",),
    ("plan",),
    ("resume",),
    ("resume",),
    ("restore", "--all", "--dry-run"),
    ("restore", "web-7d9c5b8f4-x2x9k"),
    ("unpin", "shop/db-0"),
    ("unpin", "--all"),
    ("events", "--all"),
    ("restore", "nobody"),
)
"""Verbs to an agent that acts, in this order."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: It did not come to hold.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"goldens: {what}: not within {_PATIENCE_SECONDS:g} s")
        time.sleep(0.05)


@contextmanager
def process(tree: Tree, words: list[str], folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a verb that serves, and end it as Kubernetes does; its log is beside."""
    with (folder / f"{name}.log").open("wb") as log:
        begun = subprocess.Popen(
            [*tree.command(), *words],
            cwd=folder,
            env=tree.environment(folder, stops_clock=False),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield begun
        finally:
            begun.send_signal(signal.SIGTERM)
            try:
                begun.wait(20)
            except subprocess.TimeoutExpired:
                begun.kill()
                begun.wait()


def metric_lines(page: str) -> str:
    """Return each family of a page with its type and help, and the names of its labels."""
    kinds: dict[str, str] = {}
    helps: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for line in page.splitlines():
        if line.startswith("# HELP "):
            name, _, text = line[7:].partition(" ")
            helps[name] = text
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            kinds[name] = kind
        elif line and not line.startswith("#"):
            name, _, rest = line.partition("{")
            label_names = set(re.findall(r'(?:^|,)([a-zA-Z_]\w*)="', rest))
            labels.setdefault(name.split()[0], set()).update(label_names)
    lines = [f"family {name} {kind}: {helps.get(name, '')}" for name, kind in kinds.items()]
    lines += [f"series {name} {{{','.join(sorted(names))}}}" for name, names in labels.items()]
    return "\n".join(sorted(lines)) + "\n"


def fetch(url: str) -> str:
    """Read a page over plain HTTP."""
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  loopback
        text: str = answer.read().decode()
        return text


def ask_socket(path: Path, verb: str, arguments: Json) -> Any:
    """Put one question to an agent, as the socket's own words have it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        connection.sendall(json.dumps({"verb": verb, "arguments": arguments}).encode() + b"\n")
        with connection.makefile("rb") as stream:
            return json.loads(stream.read())


def has_answer(path: Path, verb: str = "ping") -> bool:
    """Return whether an agent answers at a socket."""
    with contextlib.suppress(OSError, ValueError):
        return bool(ask_socket(path, verb, {})["ok"])
    return False


# The agent


def agent_words(folder: Path, *more: str) -> list[str]:
    """Return the words that start an agent on a tree of plain files."""
    words = ["agent", "--cgroup-mount", str(folder / "cgroup"), "--scope", "kubernetes", "--port", "0"]
    return [*words, "--socket", str(folder / "live.sock"), "--node", "worker-7", *more]


@contextmanager
def cluster_of(folder: Path) -> Iterator[tuple[Path, ClusterAnswers]]:
    """Serve the API of a cluster with the inputs' node and pods; give the kubeconfig."""

    def read(name: str) -> Any:
        return json.loads((INPUTS / name).read_text(encoding="utf-8"))

    answers = ClusterAnswers(read("pods.json")["items"], read("node.json"), read("namespaces.json")["items"])
    with http_server(answers) as url:
        yield write_kubeconfig(folder / "kubeconfig", url), answers


def agent_page(tree: Tree, folder: Path) -> str:
    """Return the metrics of an agent that has no API server; the cheapest one there is."""
    folder.mkdir(parents=True, exist_ok=True)
    write_cgroups(folder / "cgroup")
    with process(tree, agent_words(folder, "--state-dir", "none"), folder, "agent"):
        wait_for(lambda: has_answer(folder / "live.sock"), "an agent that answers")
        return fetch(ask_socket(folder / "live.sock", "ping", {})["result"]["metrics"])


def write_agent(tree: Tree, out: Path, scratch: Path) -> None:
    """Write down an agent without and one with an API server."""
    for name in ("alone", "acting"):
        folder = scratch / f"agent-{name}"
        prepare(folder)
        with contextlib.ExitStack() as stack:
            more = ["--pods", str(folder / "pods.json"), "--state-dir", str(folder / "kept")]
            answers = None
            if name == "acting":
                kubeconfig, answers = stack.enter_context(cluster_of(folder))
                more = ["--kubeconfig", str(kubeconfig), "--state-dir", str(folder / "kept")]
            stack.enter_context(process(tree, agent_words(folder, *more), folder, "agent"))
            _write_running(name, tree, folder, out, answers)
        logged = (folder / "agent.log").read_text(encoding="utf-8", errors="replace")
        (out / f"live-agent-{name}-log.txt").write_text(_log_lines(logged, {"serving", "stopped"}), encoding="utf-8")
        state = sorted(str(path.relative_to(folder / "kept")) for path in (folder / "kept").rglob("*"))
        (out / f"live-agent-{name}-state.txt").write_text("\n".join(state) + "\n", encoding="utf-8")


def _write_running(name: str, tree: Tree, folder: Path, out: Path, answers: ClusterAnswers | None) -> None:
    path = folder / "live.sock"
    wait_for(lambda: has_answer(path), "an agent that answers")
    wait_for(lambda: len(_units(path)) >= 3, "an agent that sees its containers")
    wait_for(lambda: all(unit["cpu"]["burst_millicores"] is not None for unit in _units(path)), "an agent with figures")
    if answers is not None:
        wait_for(lambda: has_answer(path, "plan") and bool(_planned(path)), "an agent that plans")
        wait_for(lambda: bool(ask_socket(path, "events", {})["result"]["items"]), "an agent that told of its rights")
    base = ask_socket(path, "ping", {})["result"]["metrics"].removesuffix("/metrics")
    wait_for(lambda: _is_full(fetch(f"{base}/metrics")), "an agent that evaluated")
    asked = []
    for verb, arguments in _RAW:
        answer = ask_socket(path, verb, arguments)
        said = path_lines(answer) if answer["ok"] else json.dumps(answer, sort_keys=True) + "\n"
        asked.append(f"? {verb} {json.dumps(arguments, sort_keys=True)}\n{said}")
    (out / f"live-agent-{name}-socket.txt").write_text(normalised("\n".join(asked), folder, tree), encoding="utf-8")
    (out / f"live-agent-{name}-metrics.txt").write_text(metric_lines(fetch(f"{base}/metrics")), encoding="utf-8")
    transcripts = [_told_live(tree, folder, (*words, "--socket", str(path))) for words in _TOLD]
    transcripts.append(_told_live(tree, folder, ("record", "-o", "live.plimsoll", "--state-dir", str(folder / "kept"))))
    (out / f"live-agent-{name}-verbs.txt").write_text("\n".join(transcripts), encoding="utf-8")
    for verb in ("top", "recommend", "plan", "events"):
        once = ["--once"] if verb == "top" else []
        done = tree.run([verb, *once, "-o", "json", "--socket", str(path)], folder, stops_clock=False)
        (out / f"live-agent-{name}-{verb}.fields").write_text(path_lines(json_of(done.stdout)), encoding="utf-8")
    doctor = tree.run(["doctor", "-o", "json", "--socket", str(path)], folder, stops_clock=False)
    checks = [check["name"] for check in json_of(doctor.stdout).get("checks", [])]
    (out / f"live-agent-{name}-doctor.txt").write_text("\n".join(checks) + "\n", encoding="utf-8")
    if answers is not None:
        (out / "live-agent-api.txt").write_text(_calls(answers), encoding="utf-8")


def _is_full(page: str) -> bool:
    """Return whether the first evaluation is behind the agent."""
    return all(f"\n{name}" in page for name in ("plimsoll_node_pressure_ratio{", "plimsoll_ring_span_seconds "))


def _units(path: Path) -> list[Json]:
    units: list[Json] = ask_socket(path, "snapshot", {})["result"]["units"]
    return units


def _calls(answers: ClusterAnswers) -> str:
    """Return the calls; a Lease is renewed in some runs and not in others."""
    return "".join(f"{call}\n" for call in sorted(answers.requests) if not call.startswith("PUT "))


def _planned(path: Path) -> list[object]:
    pods: list[object] = ask_socket(path, "plan", {})["result"]["pods"]
    return pods


def _told_live(tree: Tree, folder: Path, words: tuple[str, ...]) -> str:
    done = tree.run(words, folder, stops_clock=False)
    text = f"$ plimsoll {' '.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
    return _timeless(normalised(text, folder, tree))


def _timeless(text: str) -> str:
    """Replace moments, ages, sizes and what a bar or column makes of them."""
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?Z?", "$MOMENT", text)
    text = re.sub(r"\b\d\d:\d\d(:\d\d)?\b", "$TIME", text)
    text = re.sub(r"\b\d+(\.\d+)?(ms|s|m|h|KiB)\b(\d\dm)?(\d\ds)?", "$AMOUNT", text)
    text = re.sub(r"\b\d+ samples\b", "$N samples", text)
    return re.sub(r"[ \t]+", " ", text)


def _log_lines(text: str, chosen: set[str]) -> str:
    """Return the fields of log lines by message; only of those that each run has."""
    keys_by_message: dict[str, set[str]] = {}
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if entry.get("message") in chosen:
                keys_by_message.setdefault(str(entry["message"]), set()).update(entry)
    return "".join(f"{message}: {' '.join(sorted(keys))}\n" for message, keys in sorted(keys_by_message.items()))


# The webhook


@dataclass(slots=True)
class WebhookClient:
    """Speaks to a webhook on loopback."""

    port: int
    authority: Path

    def ask(self, method: str, path: str, body: object = None, *, token: str | None = TOKEN) -> tuple[int, str]:
        """Return status and body."""
        context = ssl.create_default_context(cafile=str(self.authority))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        content = body if isinstance(body, str) or body is None else json.dumps(body)
        with contextlib.closing(connection):
            connection.request(method, path, body=content, headers={**headers, "Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def is_ready(self) -> bool:
        """Return whether it serves and is ready."""
        with contextlib.suppress(OSError):
            return self.ask("GET", "/readyz")[0] == 200
        return False


@contextmanager
def webhook(tree: Tree, folder: Path, kubeconfig: Path) -> Iterator[WebhookClient]:
    """Run a webhook on SQLite, with a certificate of its own."""
    port = free_ports(1, "127.0.0.1")[0]
    words = ["webhook", "--listen", f"127.0.0.1:{port}", "--tls-cert", "tls.crt", "--tls-key", "tls.key"]
    words += ["--database", str(folder / "webhook.db"), "--kubeconfig", str(kubeconfig), "--replica", "a"]
    with process(tree, words, folder, "webhook"):
        yield WebhookClient(port, folder / "tls.crt")


def webhook_pages(tree: Tree, folder: Path) -> tuple[str, str]:
    """Return the OpenAPI document and the metrics of a webhook."""
    prepare(folder)
    with cluster_of(folder) as (kubeconfig, _), webhook(tree, folder, kubeconfig) as client:
        wait_for(client.is_ready, "a webhook that is ready")
        return client.ask("GET", "/openapi.json")[1], client.ask("GET", "/metrics")[1]


def write_webhook(tree: Tree, out: Path, scratch: Path) -> None:
    """Write down what a webhook answers to agents, to people and to the API server."""
    folder = scratch / "webhook"
    prepare(folder)
    with cluster_of(folder) as (kubeconfig, answers), webhook(tree, folder, kubeconfig) as client:
        wait_for(client.is_ready, "a webhook that is ready")
        document = json.loads(client.ask("GET", "/openapi.json")[1])
        (out / "live-webhook-openapi.json").write_text(
            json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )
        client.ask("POST", "/v1/report", report())
        wait_for(lambda: "shop" in client.ask("GET", "/v1/workloads")[1], "a webhook that knows a workload")
        parts = [_asked(client, *question) for question in _questions()]
        (out / "live-webhook-answers.txt").write_text(_timeless(normalised("\n".join(parts), folder, tree)))
        (out / "live-webhook-metrics.txt").write_text(metric_lines(client.ask("GET", "/metrics")[1]), encoding="utf-8")
        (out / "live-webhook-api.txt").write_text(_calls(answers), encoding="utf-8")


def report() -> Json:
    """Return a report of the node's pods."""
    body: Json = json.loads((INPUTS / "report.json").read_text(encoding="utf-8"))
    pod = json.loads((INPUTS / "pods.json").read_text(encoding="utf-8"))["items"][0]
    about = {"pod": pod["metadata"]["name"], "podUid": pod["metadata"]["uid"]}
    return {**body, "node": "worker-7", "rows": [{**body["rows"][0], **about}]}


def _questions() -> list[tuple[str, str, object, str | None]]:
    pod = json.loads((INPUTS / "pods.json").read_text(encoding="utf-8"))["items"][0]
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": "CREATE", "namespace": "shop", "object": pod},
    }
    workload_path = "/v1/workloads/shop/Deployment/web"
    return [
        ("POST", "/v1/report", report(), TOKEN),
        ("POST", "/v1/report", {"schema": 1}, TOKEN),
        ("POST", "/v1/report", "{", TOKEN),
        ("POST", "/v1/report", report(), None),
        ("GET", "/v1/report", None, TOKEN),
        ("POST", "/v1/evictions", {}, TOKEN),
        ("POST", "/v1/taint", {}, TOKEN),
        ("GET", "/v1/workloads", None, TOKEN),
        ("GET", "/v1/workloads?limit=x", None, TOKEN),
        ("GET", "/v1/workloads?colour=red", None, TOKEN),
        ("GET", workload_path, None, TOKEN),
        ("GET", f"{workload_path}?policy=vpa", None, TOKEN),
        ("GET", f"{workload_path}?policy=best", None, TOKEN),
        ("GET", "/v1/workloads/shop/Job/nix", None, TOKEN),
        ("GET", "/v1/nodes", None, TOKEN),
        ("GET", "/v1/nodes", None, None),
        ("GET", "/v1/buffers", None, TOKEN),
        ("GET", "/v1/buffers/shop/room", None, TOKEN),
        ("GET", "/healthz", None, None),
        ("GET", "/readyz", None, None),
        ("GET", "/nowhere", None, None),
        ("POST", "/mutate", review, None),
        ("POST", "/mutate", "{", None),
        ("POST", "/mutate", {"request": {"uid": "u-2"}}, None),
        ("DELETE", workload_path, None, TOKEN),
        ("DELETE", "/v1/nodes/worker-7?since=1h", None, TOKEN),
    ]


def _asked(client: WebhookClient, method: str, path: str, body: object, token: str | None) -> str:
    status, text = client.ask(method, path, body, token=token)
    content = json_of(text)
    is_told_whole = status != 200 or path == "/mutate" or "no JSON" in content
    said = text if is_told_whole else path_lines(content)
    return f"{method} {path} -> {status}\n{said.rstrip()}\n"
