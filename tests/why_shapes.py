"""What ``plimsoll`` tells of series of known shape: ``python -m tests.why_shapes`` writes tests/data/why anew.

Each is five to nine days of whole millicores and MiB, a minute of every fifth; the pages are the steps of the policy
and of the bounds after it, as ``plimsoll why`` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.amount_text import amount_text
from agent.core.orders.policy_options import BoundsOptions, SizingOptions
from agent.core.recommender.credit import Credit
from agent.core.recommender.plimsoll.policy import PlimsollPolicy
from agent.core.recommender.policy import Step
from agent.core.recommender.recommender import explain
from agent.core.recommender.subject import Conditions
from tests.generated_traces import START_UNIX_MINUTE
from tests.policy_rows import make_minutes
from tests.subjects import cpu_window, subject

DIRECTORY: Final = Path(__file__).parent / "data" / "why"
STRIDE: Final = 5
DAY: Final = 1440 // STRIDE
NEW_IMAGE: Final = DAY // 2
"""For so long the last image runs, where there are two."""
MIB: Final = 1 << 20

Series = NDArray[np.float64]


def _noise(count: int, seed: int, deviation: float = 0.1) -> Series:
    return 1.0 + deviation * np.random.default_rng(seed).triangular(-2.0, 0.0, 2.0, count)


def _flat() -> Series:
    return np.full(6 * DAY, 250.0)


def _small_rise() -> Series:
    return 500.0 * _noise(5 * DAY + 3 * DAY // 24, 20, 0.05)


def _nightly() -> Series:
    usage = np.full(7 * DAY + DAY // 12, 20.0)
    usage[np.arange(usage.size) % DAY // 6 == 4] = 900.0
    return usage * _noise(usage.size, 2)


def _working_days() -> Series:
    time = np.arange(7 * DAY + 10 * DAY // 24)
    busy = (time % DAY >= DAY * 8 // 24) & (time % DAY < DAY * 18 // 24) & (time // DAY % 7 < 5)
    return np.where(busy, 800.0, 100.0) * _noise(time.size, 3)


def _bursts() -> Series:
    usage = 100.0 * _noise(7 * DAY, 4)
    usage[np.random.default_rng(5).integers(0, usage.size, 25)] *= 8.0
    return usage


def _regular_bursts() -> Series:
    usage = 100.0 * _noise(6 * DAY + 30, 10)
    usage[np.arange(usage.size) % 60 < 2] *= 8.0  # ten minutes of each fifth hour
    return usage


def _step_up() -> Series:
    usage = 100.0 * _noise(6 * DAY, 6)
    usage[-2:] *= 9.0
    return usage


def _step_down() -> Series:
    usage = 1000.0 * _noise(8 * DAY, 7)
    usage[-2 * DAY :] *= 0.25
    return usage


def _small_fall() -> Series:
    return 500.0 * _noise(5 * DAY + 9 * DAY // 24, 12, 0.05)


def _another_image() -> Series:
    usage = 400.0 * _noise(5 * DAY, 13, 0.05)
    usage[-NEW_IMAGE:] *= 0.25
    return usage


def _first_hour() -> Series:
    return np.array([900.0, 300.0, 120.0, 110.0, 100.0, 100.0, 105.0, 100.0, 100.0, 100.0])


def _gaps() -> Series:
    usage = 300.0 * _noise(6 * DAY, 8)
    usage[np.random.default_rng(9).random(usage.size) < 0.4] = np.nan
    usage[3 * DAY : 4 * DAY] = np.nan
    return usage


SHAPES: Final[Mapping[str, Callable[[], Series]]] = {
    "flat": _flat,
    "small-rise": _small_rise,
    "nightly-job": _nightly,
    "working-days": _working_days,
    "bursts": _bursts,
    "step-up": _step_up,
    "step-down": _step_down,
    "small-fall": _small_fall,
    "another-image": _another_image,
    "first-hour": _first_hour,
    "gaps": _gaps,
    "bursts-with-credit": _regular_bursts,
    "bursts-without-credit": _regular_bursts,
}
CREDITS: Final[Mapping[str, Credit]] = {
    "bursts-with-credit": Credit.GRANTED,
    "bursts-without-credit": Credit.HPA,
}
"""What a plan has said of these; of the others none has."""


def page(shape: str) -> str:
    """Return the page of a shape."""
    usage, credit = np.floor(SHAPES[shape]()), CREDITS.get(shape)
    policy = PlimsollPolicy(SizingOptions(), 1)
    largest = 0.0
    for index, value in enumerate(usage.tolist()):
        known = None if np.isnan(value) else value
        largest = max(largest, known or 0.0)
        # Memory follows the largest demand so far, and leaks a MiB an hour.
        memory = None if known is None else (100.0 + np.floor(largest / 10.0) + index * STRIDE // 60) * MIB
        policy.fold(make_minutes(START_UNIX_MINUTE + index * STRIDE, [known], [memory]))
    now = (START_UNIX_MINUTE + usage.size * STRIDE) * 60.0
    if shape == "another-image":
        policy.record_image(0, now - NEW_IMAGE * STRIDE * 60.0)
    reasoned = explain(
        subject(0) if credit is None else subject(0, credit=credit, cpu=cpu_window(100.0)),
        policy,
        now_unix_seconds=now,
        conditions=Conditions(min_span_seconds=600.0, max_age_seconds=60.0),
        options=BoundsOptions(),
    )
    lines = [*map(_line, reasoned.steps), "", *reasoned.changes]
    return "\n".join(lines) + "\n"


def _line(step: Step) -> str:
    value = "-" if step.value is None else amount_text(step.value, step.unit)
    return f"{step.resource}: {step.what}: {value}" + (f" ({step.note})" if step.note else "")


def main() -> None:
    """Write all pages."""
    DIRECTORY.mkdir(exist_ok=True)
    for shape in SHAPES:
        (DIRECTORY / f"{shape}.txt").write_text(page(shape), encoding="utf-8")


if __name__ == "__main__":
    main()
