"""Who asks the webhook: a token of the reader's account, asked of an API server that may not know it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agent.cli.main import main

READER = "/api/v1/namespaces/plimsoll/serviceaccounts/plimsoll-webhook-reader/token"


@contextmanager
def api_server(code: int, message: str) -> Iterator[tuple[str, list[str]]]:
    """Serve one Status to every call; give its address, and the calls."""
    calls: list[str] = []
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            calls.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(status).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", calls
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def kubeconfig(directory: Path, server: str) -> str:
    path = directory / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
        f"clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n"
        "users: [{name: u, user: {token: x}}]\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("words", "account", "path"),
    [
        ((), "plimsoll/plimsoll-webhook-reader", READER),
        (("--account", "ops/eve"), "ops/eve", "/api/v1/namespaces/ops/serviceaccounts/eve/token"),
    ],
)
@pytest.mark.slow
def test_an_account_that_is_not_there_is_named_with_what_helps(
    directory: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], account: str, path: str
) -> None:
    with api_server(404, f'serviceaccounts "{account}" not found') as (server, calls):
        assert main(["workloads", "--kubeconfig", kubeconfig(directory, server), *words]) == 1
    assert calls == [path]
    assert capsys.readouterr().err == (
        f"plimsoll workloads: there is no service account {account} to read as; "
        "allowed: --account NAMESPACE/NAME, or the reader of the chart\n"
    )


def test_another_refusal_is_told_in_the_servers_words(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with api_server(403, "you may not create tokens") as (server, _):
        assert main(["policy", "shop/web", "--kubeconfig", kubeconfig(directory, server)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("plimsoll policy: ")
    assert "you may not create tokens" in line
    assert "to read as" not in line
