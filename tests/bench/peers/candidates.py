"""Who is compared: how each is started, when it is ready, what it serves and how old its samples are."""

from __future__ import annotations

import re
import socket
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from agent.core.window.ring_rows import Status
from agent.core.window.snapshot import Snapshot
from agent.node.files.documents import SNAPSHOT
from agent.node.sockets.control import ControlError, request
from agent.sensing.ring_file import RingFile

QUESTIONS: Final = 10
PAUSE_SECONDS: Final = 1.37
"""Between two questions for the age of samples: out of step with sweeps."""
A_DAY: Final = "86400"
"""Rounds of preads: killed long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Programs that are compared, by path; None = that one is left out."""

    preads: Path
    cadvisor: Path | None = None
    below: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the cgroups are, and where a candidate may write."""

    mount: Path
    tree_name: str
    list_file: Path
    """Paths of the containers' cgroups below the mount, a line each."""
    count: int
    scratch: Path
    """Empty for each candidate."""
    rings: Path
    """In memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of the compared; what is None it does not have."""

    name: str
    command: Sequence[str]
    is_ready: Callable[[], bool] = lambda: True
    metrics_url: Callable[[], str] | None = None
    sweeps: Callable[[], int] | None = None
    """Sweeps over all containers so far, where it counts them."""
    ages_seconds: Callable[[], list[float]] | None = None
    """How old the newest sample of each container is, asked for some seconds long."""


def makers(tools: Tools) -> list[Callable[[Place], Candidate]]:
    """Return who can be run; the floor, to which the others are compared, first."""
    factories: list[Callable[[Place], Candidate]] = [partial(floor, tools.preads), plimsoll, python]
    if tools.cadvisor is not None:
        factories.append(partial(cadvisor, "cadvisor", tools.cadvisor, ()))
        factories.append(partial(cadvisor, "cadvisor, 1 s", tools.cadvisor, ("--allow_dynamic_housekeeping=false",)))
    if tools.below is not None:
        factories.append(partial(below, tools.below))
    return factories


def floor(program: Path, place: Place) -> Candidate:
    """Return three preads of each container a second, nothing made of them."""
    arguments = (str(place.mount), str(place.list_file), A_DAY, "--each-second")
    return Candidate(name="preads", command=(str(program), *arguments))


def python(place: Place) -> Candidate:
    """Return a script that opens, reads and parses the same files."""
    program = Path(__file__).with_name("plain_reader.py")
    command = (sys.executable, "-I", "-S", str(program), str(place.mount), str(place.list_file))
    return Candidate(name="plain Python", command=command)


def plimsoll(place: Place) -> Candidate:
    """Return the agent with its default settings, without an API server."""
    socket_path = place.scratch / "agent.sock"

    def snapshot() -> Snapshot:
        return SNAPSHOT.from_json(request(socket_path, "snapshot", {}, timeout_seconds=60.0))

    def is_ready() -> bool:
        try:
            return len(snapshot().units) == place.count
        except (ControlError, OSError):
            return False

    def ages() -> list[float]:
        (rings,) = place.rings.iterdir()
        return _asked(lambda: ring_ages(rings))

    return Candidate(
        name="plimsoll",
        command=(
            sys.executable, "-m", "agent", "agent", "--cgroup-mount", str(place.mount),
            "--cgroup-root", f"/{place.tree_name}", "--state-dir", str(place.scratch), "--socket", str(socket_path),
            "--port", "0", "--set", "logging.level=warning", "--set", f"state.ringsDirectory={place.rings}",
            "--set", f"sampling.maxContainers={max(place.count, 1000)}",
        ),
        is_ready=is_ready,
        metrics_url=lambda: str(request(socket_path, "ping", {}, timeout_seconds=60.0)["metrics"]),
        sweeps=lambda: snapshot().sampler.sweeps,
        ages_seconds=ages,
    )  # fmt: skip


def ring_ages(file: Path) -> list[float]:
    """Return the age of each watched cgroup's newest sample, from the rings: the agent need not be asked.

    The socket would tell, too, but only after the windows of all containers were worked out: a second in the guest.
    """
    with RingFile.open_readonly(file) as rings:
        newest = rings.newest_rows(list(rings.retained().values()))
    now_ns = time.monotonic_ns()
    is_good = newest["status"] == Status.OK
    stamps_ns: list[int] = newest["monotonic_ns"][is_good].astype("int64").tolist()
    return [(now_ns - stamp_ns) / 1e9 for stamp_ns in stamps_ns]


def cadvisor(name: str, program: Path, arguments: Sequence[str], place: Place) -> Candidate:
    """Return cAdvisor on a free port; by default its housekeeping of what is idle slows down to once a minute."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    prefix = f"/{place.tree_name}/kubepods/"

    def is_ready() -> bool:
        try:
            return get(f"http://127.0.0.1:{port}/healthz") == b"ok"
        except OSError:
            return False

    return Candidate(
        name=name,
        command=(str(program), "--listen_ip=127.0.0.1", f"--port={port}", *arguments),
        is_ready=is_ready,
        metrics_url=lambda: url,
        ages_seconds=lambda: _asked(lambda: cadvisor_ages(get(url).decode(), prefix, time.time())),
    )


def below(program: Path, place: Place) -> Candidate:
    """Return below as a recorder, each second instead of each five, without its eBPF part."""
    settings = place.scratch / "below.conf"
    settings.write_text(
        f'log_dir = "{place.scratch}/log"\nstore_dir = "{place.scratch}/store"\ncgroup_root = "{place.mount}"\n'
    )
    record = ("record", "--interval-s", "1", "--disable-exitstats")
    return Candidate(name="below, 1 s", command=(str(program), "--config", str(settings), *record))


def cadvisor_ages(page: str, prefix: str, now_unix_seconds: float) -> list[float]:
    """Return the age of each container's CPU time on a page of cAdvisor, whose lines end in a timestamp in ms."""
    matches = re.finditer(r'^container_cpu_usage_seconds_total\{[^}]*\bid="([^"]+)"[^}]*\} \S+ (\d+)$', page, re.M)
    newest: dict[str, float] = {}
    for line in matches:
        if line[1].startswith(prefix):
            newest[line[1]] = max(newest.get(line[1], 0.0), int(line[2]) / 1e3)
    return [now_unix_seconds - at for at in newest.values()]


def _asked(ask: Callable[[], list[float]]) -> list[float]:
    ages: list[float] = []
    for _ in range(QUESTIONS):
        time.sleep(PAUSE_SECONDS)
        ages += ask()
    return ages


def get(url: str) -> bytes:
    """Return what a server on this machine answers."""
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310 - our own loopback address
        body: bytes = answer.read()
    return body


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def median_and_oldest(ages_seconds: Sequence[float]) -> tuple[float, float] | None:
    """Return the two figures that tell of ages; None where there are none."""
    return (statistics.median(ages_seconds), max(ages_seconds)) if ages_seconds else None
