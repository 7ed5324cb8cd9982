from __future__ import annotations

from typing import Any

import pytest

from agent.core.history.workloads.fare import Fare, together, worse
from agent.core.orders.guard_options import GuardOptions

OPTIONS = GuardOptions()
HOUR = 3600.0


def fare(**fields: Any) -> Fare:
    """An hour of which all is known, and nothing was amiss."""
    known: dict[str, Any] = {
        "seconds": HOUR,
        "cpu_seconds": HOUR,
        "waiting_seconds": 0.0,
        "throttled_seconds": 0.0,
    }
    return Fare(**known | fields)


def why(now: Fare, other: Fare | None = None, *, least_seconds: float = 60.0) -> str | None:
    return worse(now, other or fare(), OPTIONS, least_seconds=least_seconds, than="before")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"restarts": 2}, "restarts: 2 in 1.0 container-hours, 0 in 1.0 container-hours before"),
        ({"kills": 2}, "out-of-memory kills: 2 in 1.0 container-hours, 0 in 1.0 container-hours before"),
        ({"unready_seconds": 900.0}, "not Ready 25% of the time, 0% before"),
        ({"waiting_seconds": 720.0}, "waiting for CPU 20% of the time, 0% before"),
        ({"throttled_seconds": 360.0}, "throttled 10% of the time, 0% before"),
    ],
)
def test_each_sign_is_told_from_its_margin_on(fields: dict[str, Any], words: str) -> None:
    assert why(fare(**fields)) == words
    ((name, amount),) = fields.items()
    assert why(fare(**{name: amount - 1})) is None


def test_as_much_in_the_others_is_no_reason() -> None:
    for fields in ({"unready_seconds": 900.0}, {"waiting_seconds": 720.0}, {"throttled_seconds": 360.0}):
        assert why(fare(**fields), fare(**dict.fromkeys(fields, 1.0))) is None


def test_restarts_must_be_three_times_as_frequent() -> None:
    # 2 in an hour are three times 6 in nine hours, and less than three times 7 in nine.
    assert why(fare(restarts=2), fare(seconds=9 * HOUR, restarts=6)) is not None
    assert why(fare(restarts=2), fare(seconds=9 * HOUR, restarts=7)) is None


def test_of_too_little_time_nothing_is_told() -> None:
    bad = {"restarts": 9, "unready_seconds": 30.0, "waiting_seconds": 30.0}
    assert why(fare(seconds=59.0, cpu_seconds=59.0, **bad)) is None
    assert why(fare(**bad), fare(seconds=59.0)) is None
    waits = {"waiting_seconds": 50.0}
    assert why(fare(cpu_seconds=59.0, **waits)) is None
    assert why(fare(cpu_seconds=60.0, **waits), fare(cpu_seconds=59.0)) is None
    assert why(fare(cpu_seconds=60.0, **waits)) is not None


def test_what_is_not_known_is_not_compared() -> None:
    assert why(fare(waiting_seconds=HOUR), fare(waiting_seconds=None)) is None
    assert why(fare(throttled_seconds=None)) is None
    assert (Fare(seconds=0.0).unready_ratio, Fare(seconds=1.0).waiting_ratio) == (None, None)


def test_sums_know_what_all_of_them_know() -> None:
    both = together([fare(restarts=1, waiting_seconds=6.0), fare(kills=2, unready_seconds=3.0, throttled_seconds=None)])
    assert both == Fare(
        seconds=2 * HOUR,
        restarts=1,
        kills=2,
        unready_seconds=3.0,
        cpu_seconds=2 * HOUR,
        waiting_seconds=6.0,
        throttled_seconds=None,
    )
    assert together([]) == Fare(seconds=0.0)
