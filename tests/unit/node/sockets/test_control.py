"""The control socket: protocol, limits, who may ask, what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agent.node.sockets import control
from agent.node.sockets.control import (
    MAX_REQUEST_BYTES,
    ControlEndpoint,
    ControlError,
    NoAgent,
    Refused,
    SocketInUse,
    Unable,
    asker,
    open_control_listener,
)
from agent.node.sockets.loop import ListeningLoop
from tests.examples import examples

PATIENCE_SECONDS = 60.0
"""Until a test that waits gives up; none takes it."""
request = partial(control.request, timeout_seconds=PATIENCE_SECONDS)


@pytest.fixture(autouse=True)
def _patient_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is held up within its half second closes over what it has not read, and the answer is lost."""
    monkeypatch.setattr("agent.node.sockets.loop.DRAIN_SECONDS", PATIENCE_SECONDS)


class Verbs:
    """Verbs of a made-up agent."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.begun = threading.Semaphore(0)

    def echo(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return {"arguments": dict(arguments)}

    def who(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return {"asker": asker()}

    def refuse(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        raise ControlError(f"at {arguments.get('at')!r} is not allowed;\nallowed: a time")

    def fail(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        raise RuntimeError("secret")

    def nan(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return {"x": float("nan")}

    def large(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return {"text": "x" * (4 << 20)}

    def unable(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        raise Unable("this agent neither plans nor acts")

    def wait(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        self.begun.release()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        return {}

    def registry(self) -> dict[str, object]:
        return {
            name: getattr(self, name) for name in ("echo", "who", "refuse", "unable", "fail", "nan", "large", "wait")
        }


@contextlib.contextmanager
def agent_at(path: Path, verbs: Verbs | None = None, *, read_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    verbs = verbs or Verbs()
    endpoint = ControlEndpoint(open_control_listener(path), verbs.registry())  # type: ignore[arg-type]
    loop = ListeningLoop([endpoint], read_seconds=read_seconds, write_seconds=PATIENCE_SECONDS)
    loop.start()
    try:
        yield
    finally:
        verbs.may_go_on.set()
        loop.close()
        for thread in threading.enumerate():  # close waits for 0.4 s, in which a busy machine may not let them run
            if thread.name.startswith("serving"):
                thread.join(PATIENCE_SECONDS)
        assert not [t for t in threading.enumerate() if t.name.startswith("serving")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "agent.sock"


@pytest.fixture
def agent(path: Path) -> Iterator[Path]:
    with agent_at(path):
        yield path


def raw(path: Path, line: bytes) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(str(path))
        with contextlib.suppress(BrokenPipeError):  # it has had enough before all is sent, and has said so
            connection.sendall(line)
        chunks = []
        while chunk := connection.recv(65_536):
            chunks.append(chunk)
    content = json.loads(b"".join(chunks))
    assert isinstance(content, dict)
    return content


def test_request_goes_to_its_verb_and_back(agent: Path) -> None:
    arguments = {"at": 1.5, "name": "ü\n", "list": [1, None, True]}
    assert request(agent, "echo", arguments) == {"arguments": arguments}
    assert request(agent, "echo") == {"arguments": {}}


@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=15,
        ),
        max_size=4,
    )
)
def test_request_any_json_goes_there_and_back_unchanged(agent: Path, arguments: dict[str, object]) -> None:
    assert request(agent, "echo", arguments) == {"arguments": arguments}


def test_request_large_answer_arrives_whole(agent: Path) -> None:
    assert request(agent, "large") == {"text": "x" * (4 << 20)}


def test_unknown_verb_lists_the_known_ones(agent: Path) -> None:
    with pytest.raises(
        ControlError, match="verb 'plan' is unknown; allowed: echo, fail, large, nan, refuse, unable, wait, who"
    ):
        request(agent, "plan")


def test_verb_that_refuses_is_one_line(agent: Path) -> None:
    with pytest.raises(Refused) as caught:
        request(agent, "refuse", {"at": "soon"})
    assert caught.value.reason == "at 'soon' is not allowed; allowed: a time"
    assert str(caught.value) == f"agent at {agent}: refuse: {caught.value.reason}"


def test_verb_that_names_itself_in_its_refusal_is_not_named_twice() -> None:
    assert str(Refused(Path("/s"), "why", "why: no")) == "agent at /s: why: no"


@pytest.mark.parametrize("verb", ["fail", "nan"])
def test_verb_that_breaks_tells_only_the_log(agent: Path, verb: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ControlError, match="the agent failed on this request; see its log"):
        request(agent, verb)
    assert "a request failed" in caplog.text
    assert request(agent, "echo") == {"arguments": {}}


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"\n", "not JSON"),
        (b"hello\n", "not JSON"),
        (b"\xff\xfe\n", "not JSON"),
        (b"[" * 50_000 + b"\n", "not JSON"),
        (b"[]\n", "no JSON object"),
        (b"{}\n", "verb None is unknown"),
        (b'{"verb": 3}\n', "verb 3 is unknown"),
        (b'{"verb": "echo", "arguments": []}\n', "arguments of echo are no JSON object"),
        (b'{"verb": "echo", "extra": 1}\n', "unknown key 'extra'"),
        (b"x" * (MAX_REQUEST_BYTES + 1), "too long"),
        (b"x" * (MAX_REQUEST_BYTES * 4) + b"\n", "too long"),
    ],
)
def test_garbage_gets_one_line_that_says_what_is_allowed(agent: Path, line: bytes, part: str) -> None:
    answer = raw(agent, line)
    assert answer["ok"] is False
    assert part in str(answer["error"])
    assert request(agent, "echo") == {"arguments": {}}


@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(agent: Path, line: bytes) -> None:
    assert raw(agent, line.replace(b"\n", b"") + b"\n")["ok"] is False


def test_slow_request_is_told_and_closed(path: Path) -> None:
    with agent_at(path, read_seconds=0.1):  # also where the half of it is sent only after that
        assert "in time" in str(raw(path, b'{"verb": "ec')["error"])


def test_half_request_then_closed_harms_nobody(agent: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(agent))
        connection.sendall(b'{"verb"')
    assert request(agent, "echo") == {"arguments": {}}


def test_fifth_request_at_once_is_refused_and_slots_come_back(path: Path) -> None:
    verbs = Verbs()
    with agent_at(path, verbs):
        threads = [threading.Thread(target=request, args=(path, "wait")) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert verbs.begun.acquire(timeout=PATIENCE_SECONDS)
        with pytest.raises(ControlError, match="4 requests are under way"):
            request(path, "echo")
        verbs.may_go_on.set()
        for thread in threads:
            thread.join()
        assert request(path, "echo") == {"arguments": {}}


def test_client_gives_up_in_time_on_an_agent_that_hangs(path: Path) -> None:
    with agent_at(path), pytest.raises(ControlError, match=r"no answer to wait within 0\.1 s"):
        request(path, "wait", timeout_seconds=0.1)


def test_socket_is_for_its_owner_only_and_gone_after_close(path: Path) -> None:
    with agent_at(path):
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()
    with pytest.raises(NoAgent, match="there is no such socket"):
        request(path, "echo")


ASK = """
import os, socket, sys
os.setuid(int(sys.argv[1]))  # after the interpreter has started: another user may not be able to read it
with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout(60)
    try:
        connection.connect("agent.sock")
        connection.sendall(b'{"verb": "echo"}\\n')
        sys.exit(len(connection.recv(10)))
    except (ConnectionResetError, BrokenPipeError):
        sys.exit(0)  # closed before or while it was asked
"""


def test_socket_of_another_user_is_not_admitted(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    with agent_at(path):
        path.parent.chmod(0o755)
        path.chmod(0o666)  # even if somebody widened the file's mode

        def ask_as(uid: int) -> subprocess.CompletedProcess[bytes]:
            command = [sys.executable, "-I", "-c", ASK, str(uid)]
            return subprocess.run(command, cwd=path.parent, check=False, capture_output=True)

        stranger = ask_as(65_534)
        assert (stranger.returncode, stranger.stderr) == (0, b"")
        assert ask_as(0).returncode == 10  # root asks the same and gets its ten bytes


def test_what_an_agent_does_not_do_at_all_is_no_wrong_argument(agent: Path) -> None:
    with pytest.raises(Unable) as caught:
        request(agent, "unable")
    assert not isinstance(caught.value, Refused)
    assert str(caught.value) == f"agent at {agent}: this agent neither plans nor acts"


def test_live_socket_is_refused_and_the_other_agent_named(agent: Path) -> None:
    with pytest.raises(SocketInUse, match=rf"another agent listens there: process {os.getpid()} \(.+\), uid \d+"):
        open_control_listener(agent)
    assert request(agent, "echo") == {"arguments": {}}


def test_left_over_socket_is_named_by_the_client_and_replaced_by_an_agent(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    with pytest.raises(NoAgent, match="left over"):
        request(path, "echo")
    with agent_at(path):
        assert request(path, "echo") == {"arguments": {}}


def test_close_leaves_a_socket_that_took_its_place(path: Path) -> None:
    with agent_at(path):
        path.unlink()
        other = open_control_listener(path)
    assert path.exists()
    other.close()


@pytest.mark.parametrize("what", ["file", "directory"])
def test_something_else_in_the_way_is_refused_and_kept(path: Path, what: str) -> None:
    path.parent.mkdir()
    path.write_text("precious") if what == "file" else path.mkdir()
    with pytest.raises(ControlError, match="no socket is in the way"):
        open_control_listener(path)
    assert path.exists()


def test_a_mistyped_path_makes_no_tree_of_directories(tmp_path: Path) -> None:
    path = tmp_path / "nix" / "dir" / "s"
    with pytest.raises(ControlError, match=r"control socket .*/nix/dir/s: no such file or directory"):
        open_control_listener(path)
    assert list(tmp_path.iterdir()) == []
    open_control_listener(path, makes_parents=True).close()


def test_place_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ControlError, match=r"control socket .*agent.sock: file exists"):
        open_control_listener(tmp_path / "file" / "agent.sock")
    with pytest.raises(ControlError, match="path too long"):
        open_control_listener(tmp_path / ("x" * 120))
    with pytest.raises(ControlError):
        request(tmp_path / ("x" * 120), "echo")


@pytest.mark.parametrize(
    ("answer", "part"),
    [(b"", "closed without an answer"), (b'{"ok": tr', "cut"), (b"no\n", "not JSON"), (b"[]\n", "not understood"),
     (b'{"ok": true}\n', "not understood"), (b'{"ok": true, "result": 3}\n', "not understood")],
)  # fmt: skip
def test_client_survives_whatever_answers(tmp_path: Path, answer: bytes, part: str) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def respond() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=respond)
        thread.start()
        with pytest.raises(ControlError, match=part):
            request(path, "echo")
        thread.join()


def test_request_too_long_is_refused_before_it_is_sent(path: Path) -> None:
    with pytest.raises(ControlError, match="allowed: at most 65536"):
        request(path, "echo", {"x": "y" * MAX_REQUEST_BYTES})


def test_a_verb_is_told_who_asks_as_the_kernel_knows_them(agent: Path) -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert request(agent, "who") == {"asker": f"{name} (uid {os.geteuid()})"}
    assert asker() is None, "nobody asks outside of a request"
