"""Generated traces: loads of known shape, the same on every machine, and the small files of them in tests/data/traces.

``python -m tests.generated_traces`` writes those files anew. Each recipe gives one container's CPU (whole millicores)
and memory (whole bytes) minute by minute from ``START_UNIX_MINUTE``, a Monday's midnight in UTC.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.recommender.simulation.trace import TraceSet

DIRECTORY: Final = Path(__file__).parent / "data" / "traces"
START_UNIX_MINUTE: Final = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) // 60
DAY: Final = 1440
MIB: Final = 1 << 20

Series = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Load:
    """One container's demand, a value per minute."""

    cpu_millicores: Series
    memory_bytes: Series
    psi: Series | None = None


def _drift(random: np.random.Generator, minutes: int, deviation: float, keep: float) -> Series:
    """Return noise that remembers ``keep`` of its last value, with this standard deviation."""
    pushes = random.normal(0.0, deviation * np.sqrt(1.0 - keep * keep), minutes)
    values = np.empty(minutes)
    value = 0.0
    for minute, push in enumerate(pushes.tolist()):
        value = keep * value + push
        values[minute] = value
    return values


def _steady_memory(minutes: int, mib: float) -> Series:
    return np.full(minutes, mib * MIB)


def week_shape(random: np.random.Generator, minutes: int) -> Load:
    """Return a service for people: busy in the day, quiet at night and at weekends; memory follows by a tenth."""
    time = np.arange(minutes)
    day = np.clip(np.sin(2 * np.pi * (time / DAY - 0.3)), 0.0, None)
    workday = np.where(time // DAY % 7 < 5, 1.0, 0.25)
    shape = 1.0 + 3.0 * day * workday
    cpu = 250.0 * shape * np.exp(_drift(random, minutes, 0.1, 0.9))
    return Load(cpu, 300.0 * MIB + 30.0 * MIB * np.maximum.accumulate(shape) / 4.0)


def bursts(random: np.random.Generator, minutes: int) -> Load:
    """Give a quiet service with a burst of minutes now and then, at no hour of its own, and a job each night at two."""
    time = np.arange(minutes)
    cpu = 120.0 * np.exp(_drift(random, minutes, 0.1, 0.9))
    for start in random.integers(0, minutes, minutes // 400).tolist():
        cpu[start : start + int(random.integers(3, 20))] *= random.uniform(2.0, 6.0)
    job = (time % DAY >= 120) & (time % DAY < 150)
    return Load(cpu + 900.0 * job, _steady_memory(minutes, 200.0))


def steps(random: np.random.Generator, minutes: int) -> Load:
    """Return a load that moves to another level for good: three times as much, then back, then twice as much."""
    levels = np.repeat([200.0, 600.0, 200.0, 400.0], -(-minutes // 4))[:minutes]
    return Load(levels * np.exp(_drift(random, minutes, 0.05, 0.8)), _steady_memory(minutes, 500.0))


def growing_memory(random: np.random.Generator, minutes: int) -> Load:
    """Return a leak: 200 MiB, and 100 MiB more each day, by steps of a MiB."""
    memory = (200.0 + np.floor(100.0 * np.arange(minutes) / DAY)) * MIB
    return Load(50.0 * np.exp(_drift(random, minutes, 0.1, 0.5)), memory)


def flat_jvm(random: np.random.Generator, minutes: int) -> Load:
    """Return a Java service: the heap is taken at the start and stays; a start-up burst, then little CPU."""
    cpu = 150.0 * np.exp(_drift(random, minutes, 0.15, 0.7))
    cpu[:5] = 2000.0
    return Load(cpu, _steady_memory(minutes, 2048.0))


def pressed(random: np.random.Generator, minutes: int) -> Load:
    """Return a service that has to wait for others' CPU up to half of the time, each afternoon."""
    time = np.arange(minutes)
    psi = 0.5 * np.clip(np.sin(2 * np.pi * (time / DAY - 0.4)), 0.0, None)
    return Load(300.0 * np.exp(_drift(random, minutes, 0.05, 0.8)), _steady_memory(minutes, 128.0), psi)


RECIPES: Final[Mapping[str, Callable[[np.random.Generator, int], Load]]] = {
    "week-shape": week_shape,
    "bursts": bursts,
    "steps": steps,
    "growing-memory": growing_memory,
    "flat-jvm": flat_jvm,
    "pressed": pressed,
}


def load(recipe: str, *, days: float, seed: int = 0) -> Load:
    """Cook one recipe; CPU and memory in whole numbers, psi to a thousandth."""
    minutes = round(days * DAY)
    usage = RECIPES[recipe](np.random.default_rng([seed, sorted(RECIPES).index(recipe)]), minutes)
    return Load(
        np.round(usage.cpu_millicores),
        np.ceil(usage.memory_bytes),
        None if usage.psi is None else np.round(usage.psi, 3),
    )


def trace(recipes: Mapping[str, Load], *, name: str = "generated") -> TraceSet:
    """Lay loads of one length side by side; psi is 0 where a load has none."""
    loads = list(recipes.values())
    cpu = np.stack([usage.cpu_millicores for usage in loads], axis=1).astype(np.float32)
    psi = np.stack([np.zeros(cpu.shape[0]) if usage.psi is None else usage.psi for usage in loads], axis=1)
    return TraceSet(
        name=name,
        containers=tuple(recipes),
        start_unix_minute=START_UNIX_MINUTE,
        cpu_millicores=cpu,
        has_cpu=np.ones(cpu.shape, dtype=np.bool_),
        memory_bytes=np.stack([usage.memory_bytes for usage in loads], axis=1),
        has_memory=np.ones(cpu.shape, dtype=np.bool_),
        psi=psi.astype(np.float32),
    )


FILES: Final[Mapping[str, tuple[tuple[str, ...], float]]] = {
    "seasons.csv.gz": (("week-shape", "bursts"), 10.0),
    "changes.csv.gz": (("steps", "growing-memory", "flat-jvm"), 4.0),
    "pressure.jsonl.gz": (("pressed",), 5.0),
}
"""Which recipes each file holds, and for how many days."""


def file_bytes(name: str) -> bytes:
    """Return the content of one of ``FILES``."""
    recipes, days = FILES[name]
    loads = {recipe: load(recipe, days=days) for recipe in recipes}
    text = io.StringIO()
    if name.endswith(".jsonl.gz"):
        for row in _rows(loads):
            text.write(json.dumps({key: value for key, value in row.items() if value is not None}) + "\n")
        return gzip.compress(text.getvalue().encode(), mtime=0)
    writer = csv.DictWriter(text, ["time", "container", "cpu_millicores", "memory_bytes"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(_rows(loads))
    return gzip.compress(text.getvalue().encode(), mtime=0)


def _rows(loads: Mapping[str, Load]) -> list[dict[str, str | float | None]]:
    minutes = next(iter(loads.values())).cpu_millicores.size
    return [
        {
            "time": (START_UNIX_MINUTE + minute) * 60,
            "container": name,
            "cpu_millicores": int(usage.cpu_millicores[minute]),
            "memory_bytes": int(usage.memory_bytes[minute]),
            "psi": None if usage.psi is None else float(usage.psi[minute]),
        }
        for minute in range(minutes)
        for name, usage in loads.items()
    ]


if __name__ == "__main__":
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        (DIRECTORY / file).write_bytes(file_bytes(file))
