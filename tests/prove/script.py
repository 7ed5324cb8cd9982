"""What the pods of the hour do, second by second: scripted and seeded, the same in every arm. Pure.

Amounts are those of CPU time, so that they mean the same on any machine. The past that every arm remembers is made of
hours by the same script under other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

import numpy as np

from agent.core.history.minute.minutes import Minutes
from agent.core.numbers.arrays import Floats
from agent.core.numbers.units import MIB
from agent.core.orders.annotations import MAX_CPU
from tests.e2e.workloads import bytes_of

MINUTE_SECONDS: Final = 60
REQUEST_CPU_SECONDS: Final = 0.02
"""Of the server, for one request of its client."""
LEAST_RATE, MOST_RATE = 2.0, 10.0
"""Requests a second: the least and the most of a wave that takes ``WAVE_SECONDS``."""
WAVE_SECONDS: Final = 240
BURST_MILLICORES: Final = 300.0
OWN_MIB: Final = 12
"""Of a server in Python that does nothing."""


class Kind(StrEnum):
    """What the workload is in the cluster."""

    DEPLOYMENT = "Deployment"
    DAEMON_SET = "DaemonSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a pod wants in each second; shape ``(seconds,)`` each."""

    cpu_millicores: Floats
    memory_mib: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One workload of the node: what was written for it, and what it does."""

    meaning: str
    kind: Kind = Kind.DEPLOYMENT
    requests: Mapping[str, str]
    """As its people wrote them."""
    limits: Mapping[str, str]
    course: Callable[[Random, int], Course]
    """Of a random source and so many seconds."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What its people tell whoever sizes it."""


def rates(seconds: int) -> Floats:
    """Return how many requests a second the client sends, by second."""
    phase = np.arange(seconds) * (2 * np.pi / WAVE_SECONDS)
    by_second: Floats = LEAST_RATE + (MOST_RATE - LEAST_RATE) * (1 - np.cos(phase)) / 2
    return by_second


def arrivals(seed: int, seconds: int) -> list[float]:
    """Return when requests are sent, seconds from the beginning: a Poisson process of the rates."""
    random, now = Random(f"arrivals {seed}"), 0.0
    sent: list[float] = []
    of_second = rates(seconds)
    while True:
        now += random.expovariate(MOST_RATE)
        if now >= seconds:
            return sent
        if random.random() * MOST_RATE < of_second[int(now)]:
            sent.append(now)


def _serving(random: Random, seconds: int) -> Course:
    """A server: what its client asks for, as many requests as arrive."""
    expected = rates(seconds)
    noise = np.array([random.gauss(0.0, 1.0) for _ in range(seconds)]) * np.sqrt(expected)
    return Course(
        cpu_millicores=np.maximum(0.0, expected + noise) * REQUEST_CPU_SECONDS * 1000,
        memory_mib=np.full(seconds, float(OWN_MIB)),
    )


def _bursts(random: Random, seconds: int) -> Course:
    """Nearly idle, and every minute or so busy for some seconds."""
    cpu = np.full(seconds, 15.0)
    now = random.uniform(5.0, 40.0)
    while now < seconds:
        length = random.uniform(4.0, 12.0)
        cpu[int(now) : int(now + length)] = BURST_MILLICORES
        now += length + random.uniform(30.0, 70.0)
    return Course(cpu_millicores=cpu, memory_mib=np.full(seconds, 24.0))


def _batch(random: Random, seconds: int) -> Course:
    """Stretches of a minute in which it takes what is left over, and rests between them."""
    cpu = np.full(seconds, 5.0)
    now = random.uniform(0.0, 20.0)
    while now < seconds:
        length = random.uniform(40.0, 80.0)
        cpu[int(now) : int(now + length)] = 1000.0
        now += length + random.uniform(15.0, 40.0)
    return Course(cpu_millicores=cpu, memory_mib=np.full(seconds, 64.0))


LEAK_LEAST_MIB, LEAK_MOST_MIB = 40.0, 140.0
LEAK_SECONDS: Final = 420


def _leak(random: Random, seconds: int) -> Course:
    """Memory that grows until it begins anew."""
    at = (np.arange(seconds) + random.uniform(0.0, 30.0)) % LEAK_SECONDS / LEAK_SECONDS
    memory = LEAK_LEAST_MIB + (LEAK_MOST_MIB - LEAK_LEAST_MIB) * at
    return Course(cpu_millicores=np.full(seconds, 10.0), memory_mib=np.floor(memory))


HEAP_MIB: Final = 420.0
"""More than the 250 MiB that the Vertical Pod Autoscaler gives each pod at least."""


def _heap(random: Random, seconds: int) -> Course:
    """A fixed heap, and collections that take CPU for some seconds, as of a JVM."""
    cpu = np.full(seconds, 30.0)
    now = random.uniform(10.0, 60.0)
    while now < seconds:
        cpu[int(now) : int(now + 3)] = 120.0
        now += random.uniform(40.0, 90.0)
    return Course(cpu_millicores=cpu, memory_mib=np.full(seconds, HEAP_MIB))


def _steady(_: Random, seconds: int) -> Course:
    return Course(cpu_millicores=np.full(seconds, 8.0), memory_mib=np.full(seconds, 16.0))


SERVER: Final = "server"
BATCH: Final = "batch"
ROLES: Final[Mapping[str, Role]] = {
    SERVER: Role(
        meaning="latency-sensitive; requested too little",
        requests={"cpu": "50m", "memory": "96Mi"},
        limits={},
        course=_serving,
    ),
    "bursts": Role(
        meaning="idle, and busy for seconds",
        requests={"cpu": "560m", "memory": "128Mi"},
        limits={"memory": "256Mi"},
        course=_bursts,
    ),
    BATCH: Role(
        # Whoever goes by use alone would give it the node.
        meaning="takes what is left over, and is to be promised 400m at most",
        requests={"cpu": "400m", "memory": "192Mi"},
        limits={"memory": "192Mi"},
        annotations={MAX_CPU: "400m"},
        course=_batch,
    ),
    "leak": Role(
        meaning=f"grows to {LEAK_MOST_MIB:.0f} MiB under a limit of 128",
        requests={"cpu": "40m", "memory": "64Mi"},
        limits={"memory": "128Mi"},
        course=_leak,
    ),
    "heap": Role(
        meaning="a fixed heap with collections, as a JVM",
        requests={"cpu": "300m", "memory": "1Gi"},
        limits={"memory": "1Gi"},
        course=_heap,
    ),
    "steady": Role(
        meaning="a DaemonSet's pod, steady",
        kind=Kind.DAEMON_SET,
        requests={"cpu": "50m", "memory": "64Mi"},
        limits={"memory": "64Mi"},
        course=_steady,
    ),
}


def wanted_millicores(role: str, seed: int, first_second: int, seconds: int) -> float:
    """Return what CPU a role wants in the mean of some seconds of the script: the server's is that of its requests."""
    last = first_second + seconds
    if role == SERVER:
        asked = sum(first_second <= moment < last for moment in arrivals(seed, last))
        return asked * REQUEST_CPU_SECONDS * 1000.0 / seconds
    return float(course_of(role, seed, last).cpu_millicores[first_second:].mean())


def course_of(role: str, seed: int, seconds: int) -> Course:
    """Return what a role does under a seed."""
    return ROLES[role].course(Random(f"{role} {seed}"), seconds)


def changes(course: Course) -> list[tuple[int, int, int]]:
    """Return the seconds in which something changes, with the millicores and the MiB from then on."""
    steps: list[tuple[int, int, int]] = []
    for second, (cpu, memory) in enumerate(zip(course.cpu_millicores, course.memory_mib, strict=True)):
        wanted = round(float(cpu)), round(float(memory))
        if not steps or steps[-1][1:] != wanted:
            steps.append((second, *wanted))
    return steps


def past(first_unix_minute: int, count: int, seed: int, *, rate_window_seconds: float) -> list[Minutes]:
    """Return the minutes of all roles, in the order of ``ROLES``, as an agent would have measured them.

    Each hour is one by the script, under a seed of its own; nobody is taken to have been short of CPU. Of memory no
    more was seen than a limit let through.

    Args:
        rate_window_seconds: What a rate of the agent's spans, whole seconds: a burst that is shorter counts by its
            share of it.
    """
    hour = 60 * MINUTE_SECONDS
    courses = [
        [course_of(role, seed + 1 + begun, hour) for begun in range(0, count, 60)] for role in ROLES
    ]  # by role, then by hour
    cpu = np.stack([np.concatenate([course.cpu_millicores for course in of_role]) for of_role in courses])
    memory = np.stack([np.concatenate([course.memory_mib for course in of_role]) for of_role in courses])
    by_minute = len(ROLES), -1, MINUTE_SECONDS
    means = cpu.reshape(by_minute).mean(axis=2)
    # A rate over little more than a minute's mean may round below it.
    peaks = np.maximum(sliding_means(cpu, round(rate_window_seconds)).reshape(by_minute).max(axis=2), means)
    limits = [bytes_of(role.limits["memory"]) if role.limits else np.inf for role in ROLES.values()]
    working_sets = np.minimum(np.round(memory.reshape(by_minute).max(axis=2) * MIB), np.array(limits)[:, np.newaxis])
    known = np.ones(len(ROLES), dtype=np.bool_)
    return [
        Minutes(
            unix_minute=first_unix_minute + minute,
            cpu_usage_millicores=means[:, minute],
            cpu_peak_millicores=peaks[:, minute],
            has_cpu=known,
            working_set_bytes=working_sets[:, minute],
            has_memory=known,
        )
        for minute in range(count)
    ]


def sliding_means(amounts: Floats, seconds: int) -> Floats:
    """Return the mean of so many seconds that ends with each; of what there is where it is less. Shape ``(n, s)``."""
    sums = np.cumsum(np.pad(amounts, ((0, 0), (1, 0))), axis=1)
    ends = np.arange(1, amounts.shape[1] + 1)
    begins = np.maximum(ends - seconds, 0)
    means: Floats = (sums[:, ends] - sums[:, begins]) / (ends - begins)
    return means
