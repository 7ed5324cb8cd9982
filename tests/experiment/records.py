"""What containers told and what the kernel counted, as values; kept as JSON Lines. Pure but for the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

OPERATIONS: Final = ("build", "install", "run", "watch", "deploy")
LOADS: Final = ("load, both at once", "load, lsp after ide")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of one pod, or its load."""

    arm: str
    block: int
    pod: str
    name: str
    begun: float
    """Monotonic seconds of the guest."""
    ended: float
    cpu_seconds: float
    is_good: bool

    @property
    def seconds(self) -> float:
        """Guest seconds it took."""
        return self.ended - self.begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a cgroup's files say at one moment; None = there is no such file or line."""

    usage_usec: int | None = None
    nr_periods: int | None = None
    nr_throttled: int | None = None
    throttled_usec: int | None = None
    waiting_usec: int | None = None
    """``some`` of cpu.pressure."""
    memory_peak_bytes: int | None = None
    oom_kills: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The guest at one moment."""

    uptime_seconds: float
    root: Counters
    cgroups: Mapping[str, Counters]
    """By ``POD`` and ``POD/CONTAINER``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One arm for some minutes."""

    arm: str
    number: int
    pods: int
    window_seconds: float
    cpu_ratio: float
    """Of the node's CPUs, everything that runs on it."""
    pods_millicores: float
    """What the pods used together."""
    throttled_ratio: float
    """Throttled periods of all periods that a quota counted, containers and pods."""
    throttled_seconds: float
    """Of tools-a and of the pods' own quota, the mean of a pod."""
    waiting_ratio: float
    """Share of the time in which something in a pod waited for CPU, the mean of the pods."""
    memory_peak_bytes: int
    """The largest of a pod."""
    oom_kills: int


def told(log: str) -> list[dict[str, Any]]:
    """Return the JSON lines of a container's log as the kubelet keeps it: ``TIME stdout F LINE``; others are left out.

    A line that the kubelet cut in two (``P``) is none of ours: they are short.
    """
    documents = []
    for line in log.splitlines():
        words = line.split(" ", 3)
        if len(words) == 4 and words[1:3] == ["stdout", "F"] and words[3].startswith("{"):
            documents.append(json.loads(words[3]))
    return documents


def operations(lines: Iterable[Mapping[str, Any]], *, arm: str, block: int, pod: str) -> list[Operation]:
    """Return the operations that a container told of."""
    return [
        Operation(
            arm=arm,
            block=block,
            pod=pod,
            name=line["name"],
            begun=line["begun"],
            ended=line["ended"],
            cpu_seconds=line["cpu_seconds"],
            is_good=line["is_good"],
        )
        for line in lines
        if line["event"] == "operation"
    ]


def loads(lines: Iterable[Mapping[str, Any]], *, arm: str, block: int, pod: str, name: str) -> list[Operation]:
    """Return the loads of a pod, of what its containers told: from the first start-up's begin to the last one's end.

    Those of a turn are one of each role, in order; where one is missing there is no load.
    """
    ides, servers = (
        [line for line in lines if line["event"] == "started" and line["role"] == role] for role in ("ide", "lsp")
    )
    return [
        Operation(
            arm=arm,
            block=block,
            pod=pod,
            name=name,
            begun=min(ide["begun"], server["begun"]),
            ended=max(ide["ended"], server["ended"]),
            cpu_seconds=ide["cpu_seconds"] + server["cpu_seconds"],
            is_good=ide["is_good"] and server["is_good"],
        )
        for ide, server in zip(ides, servers, strict=False)
    ]


def parse_counters(files: Mapping[str, str]) -> Counters:
    """Return what the files of a cgroup say, by their names."""
    stat, events = pairs(files.get("cpu.stat", "")), pairs(files.get("memory.events", ""))
    waiting = None
    for line in files.get("cpu.pressure", "").splitlines():
        if line.startswith("some "):
            waiting = int(line.rpartition("total=")[2])
    peak = files.get("memory.peak", "").strip()
    return Counters(
        usage_usec=stat.get("usage_usec"),
        nr_periods=stat.get("nr_periods"),
        nr_throttled=stat.get("nr_throttled"),
        throttled_usec=stat.get("throttled_usec"),
        waiting_usec=waiting,
        memory_peak_bytes=int(peak) if peak else None,
        oom_kills=events.get("oom_kill"),
    )


def pairs(text: str) -> dict[str, int]:
    """Read lines of a name and a number."""
    return {name: int(value) for name, _, value in (line.partition(" ") for line in text.splitlines()) if value}


def parse_snapshot(text: str, places: Mapping[str, str]) -> Snapshot:
    """Read what ``grep -H .`` printed of the files.

    Args:
        text: ``PATH:LINE``, the guest's /proc/uptime among it.
        places: Cgroup directory, without a slash at its end, to the name it goes by; the root is ``root``.
    """
    files: dict[str, dict[str, list[str]]] = {}
    uptime = None
    for line in text.splitlines():
        path, colon, content = line.partition(":")
        directory, _, name = path.rpartition("/")
        if path == "/proc/uptime":
            uptime = float(content.split()[0])
        elif colon and directory in places:
            files.setdefault(places[directory], {}).setdefault(name, []).append(content)
    if uptime is None:
        raise ValueError(f"no /proc/uptime in: {text[:200]!r}")
    counters = {
        place: parse_counters({name: "\n".join(lines) for name, lines in content.items()})
        for place, content in files.items()
    }
    root = counters.pop("root", Counters())
    return Snapshot(uptime_seconds=uptime, root=root, cgroups=counters)


def block_of(
    before: Snapshot, after: Snapshot, *, arm: str, number: int, cpus: int, containers: Iterable[str]
) -> Block:
    """Return what the kernel counted between two moments; cgroups that are not in both are left out."""
    window = after.uptime_seconds - before.uptime_seconds
    names = [name for name in after.cgroups if name in before.cgroups]
    pods = [name for name in names if "/" not in name]
    limited = [name for name in names if "/" not in name or name.rpartition("/")[2] in set(containers)]

    def grown(field: str, of: Iterable[str]) -> int:
        total = 0
        for name in of:
            old, new = getattr(before.cgroups[name], field), getattr(after.cgroups[name], field)
            total += 0 if old is None or new is None else new - old
        return total

    periods = grown("nr_periods", limited)
    return Block(
        arm=arm,
        number=number,
        pods=len(pods),
        window_seconds=window,
        cpu_ratio=((after.root.usage_usec or 0) - (before.root.usage_usec or 0)) / 1e6 / window / cpus,
        pods_millicores=grown("usage_usec", pods) / 1e3 / window,
        throttled_ratio=grown("nr_throttled", limited) / periods if periods else 0.0,
        throttled_seconds=grown("throttled_usec", limited) / 1e6 / max(1, len(pods)),
        waiting_ratio=grown("waiting_usec", pods) / 1e6 / window / max(1, len(pods)),
        memory_peak_bytes=max((after.cgroups[name].memory_peak_bytes or 0 for name in pods), default=0),
        oom_kills=grown("oom_kills", pods),
    )


def write_lines(path: Path, values: Iterable[Operation | Block]) -> None:
    """Append values, one line each."""
    with path.open("a") as file:
        file.writelines(json.dumps({"kind": type(value).__name__, **asdict(value)}) + "\n" for value in values)


def read_lines(path: Path) -> tuple[list[Operation], list[Block]]:
    """Read what ``write_lines`` wrote; lines of another kind are left out."""
    done: list[Operation] = []
    blocks: list[Block] = []
    for line in path.read_text().splitlines():
        value = json.loads(line)
        match value.pop("kind"):
            case "Operation":
                done.append(Operation(**value))
            case "Block":
                blocks.append(Block(**value))
    return done, blocks
