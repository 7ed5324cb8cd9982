"""What happens in the day and when: a pure function of seed, length and counts. No clock, no cluster.

A day of 24 hours lies on as many seconds as the run has. Each kind of event draws from a stream of its own, so that
more kills move no pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from tests.soak.roles import ROLES

HOUR_RATIO: Final = 1 / 24
"""Of the run: an hour of the day."""
STEP_SECONDS: Final = 3600.0
"""By which the wall clock is set, forwards and back, and backwards and forth: an hour of real time."""
API_OUTAGES: Final = ((0.06, 0.10), (0.30, 0.36), (0.56, 0.60), (0.90, 0.94))
"""In which parts of the day an API server is killed, once each."""
OUTAGE_RATIO: Final = (0.002, 0.008)
"""How long it is away, of the run; 3 to 12 minutes of the day."""
SHORTEST_OUTAGE_SECONDS: Final = 2.0
CLOCK_PARTS: Final = (((0.11, 0.15), 1.0), ((0.20, 0.24), 0.0), ((0.62, 0.66), -1.0), ((0.74, 0.78), 0.0))
"""In which parts of the day the clock is set, and to how many hours off."""
WEBHOOK_PART: Final = (0.26, 0.42)
DISK_PART: Final = (0.67, 0.72)
PRESSURE_PART: Final = (0.80, 0.84)
ROTATION_PARTS: Final = ((0.15, 0.19), (0.94, 0.96))
UPGRADE_PART: Final = 0.5
FIRST_POD_RATIO, LAST_POD_RATIO = 0.01, 0.97
LIVES: Final = ((0.70, 5.0, 30.0), (0.25, 30.0, 90.0), (0.05, 90.0, 240.0))
"""How pods of which share live for how long, seconds: most are gone before the agent may size them."""
KILL_PARTS: Final = ((0.02, 0.50), (0.65, 0.98))
"""In which parts the agent is killed; between them lies the stretch in which a slow growth of it would show."""


class Kind(StrEnum):
    """What happens."""

    POD_COMES = "pod comes"
    POD_GOES = "pod goes"
    AGENT_KILLED = "agent killed"
    API_SERVER_KILLED = "API server killed"
    API_SERVER_BACK = "API server back"
    WEBHOOK_AWAY = "webhook away"
    WEBHOOK_BACK = "webhook back"
    CLOCK_SET = "clock set"
    DISK_FULL = "disk full"
    DISK_FREE = "disk free"
    MEMORY_SHORT = "memory short"
    MEMORY_ENOUGH = "memory enough"
    CERTIFICATE_ROTATED = "certificate rotated"
    UPGRADED = "upgraded"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Event:
    """One thing that happens."""

    second: float
    """From the beginning of the run on."""
    kind: Kind
    pod: str = ""
    """Its name; empty = it is about no pod."""
    role: str = ""
    """Of a pod that comes, a key of ``ROLES``."""
    offset_seconds: float = 0.0
    """Of the clock: what it is off from then on."""


def schedule(*, seed: int, seconds: float, pods: int, kills: int) -> tuple[Event, ...]:
    """Return the day's events in order.

    Args:
        seed: Another one gives another day of the same kind.
        seconds: The run's length.
        pods: How many come in all, residents included; those alone where it is fewer.
        kills: How often the agent is killed.
    """
    return tuple(
        sorted(
            [
                *_pods(Random(f"{seed}/pods"), seconds, pods),
                *_kills(Random(f"{seed}/kills"), seconds, kills),
                *_outages(Random(f"{seed}/outages"), seconds),
                *_hours(Random(f"{seed}/hours"), seconds),
                *_moments(Random(f"{seed}/moments"), seconds),
            ]
        )
    )


def residents() -> tuple[str, ...]:
    """Return the roles of the pods that stay from the first second to the end, one pod each."""
    return tuple(ROLES)


def _pods(random: Random, seconds: float, count: int) -> list[Event]:
    events = [Event(second=0.0, kind=Kind.POD_COMES, pod=f"{role}-resident", role=role) for role in residents()]
    roles = [*ROLES]
    weights = [ROLES[role].weight for role in roles]
    visitors = max(0, count - len(events))
    moments = sorted(random.uniform(FIRST_POD_RATIO, LAST_POD_RATIO) * seconds for _ in range(visitors))
    for number, moment in enumerate(moments):
        (role,) = random.choices(roles, weights)
        ((_, shortest, longest),) = random.choices(LIVES, [share for share, _, _ in LIVES])
        name = f"{role}-{number}"
        events.append(Event(second=moment, kind=Kind.POD_COMES, pod=name, role=role))
        end = moment + random.uniform(shortest, longest)
        if end < seconds:
            events.append(Event(second=end, kind=Kind.POD_GOES, pod=name, role=role))
    return events


def _kills(random: Random, seconds: float, count: int) -> list[Event]:
    (first, calm), (end, last) = KILL_PARTS
    moments = [random.uniform(first, last - (end - calm)) for _ in range(count)]
    return [
        Event(second=(moment if moment < calm else moment + end - calm) * seconds, kind=Kind.AGENT_KILLED)
        for moment in moments
    ]


def _outages(random: Random, seconds: float) -> list[Event]:
    events = []
    for part in API_OUTAGES:
        begin = random.uniform(*part) * seconds
        length = max(SHORTEST_OUTAGE_SECONDS, random.uniform(*OUTAGE_RATIO) * seconds)
        events += [
            Event(second=begin, kind=Kind.API_SERVER_KILLED),
            Event(second=begin + length, kind=Kind.API_SERVER_BACK),
        ]
    return events


def _hours(random: Random, seconds: float) -> list[Event]:
    """Return what lasts an hour of the day."""
    kinds = (
        (WEBHOOK_PART, Kind.WEBHOOK_AWAY, Kind.WEBHOOK_BACK),
        (DISK_PART, Kind.DISK_FULL, Kind.DISK_FREE),
        (PRESSURE_PART, Kind.MEMORY_SHORT, Kind.MEMORY_ENOUGH),
    )
    events = []
    for part, begun, ended in kinds:
        begin = random.uniform(part[0], max(part[0], part[1] - HOUR_RATIO)) * seconds
        events += [Event(second=begin, kind=begun), Event(second=begin + HOUR_RATIO * seconds, kind=ended)]
    return events


def _moments(random: Random, seconds: float) -> list[Event]:
    events = [
        Event(second=random.uniform(*part) * seconds, kind=Kind.CLOCK_SET, offset_seconds=hours * STEP_SECONDS)
        for part, hours in CLOCK_PARTS
    ]
    events += [Event(second=random.uniform(*part) * seconds, kind=Kind.CERTIFICATE_ROTATED) for part in ROTATION_PARTS]
    return [*events, Event(second=UPGRADE_PART * seconds, kind=Kind.UPGRADED)]


def spans(events: Sequence[Event], begun: Kind, ended: Kind, seconds: float) -> list[tuple[float, float]]:
    """Return from when to when something lasted; what never ended lasts to the end of the run."""
    periods: list[tuple[float, float]] = []
    since: float | None = None
    for event in events:
        if event.kind is begun and since is None:
            since = event.second
        elif event.kind is ended and since is not None:
            periods.append((since, event.second))
            since = None
    return periods if since is None else [*periods, (since, seconds)]
