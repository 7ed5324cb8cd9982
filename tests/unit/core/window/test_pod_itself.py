"""What a pod uses in none of its containers: differences of rows of one tick, and what they come to over a minute."""

from __future__ import annotations

import numpy as np

from agent.core.window.pod_itself import OWN_READING, OwnReadings, PodItself, TickRows, own_readings, pods_itself
from agent.core.window.ring_rows import MEMORY_ROW, Has, Status
from agent.core.window.snapshot import Missing
from tests.window_rows import ALL, NS, Rows, sample

MIB = 1 << 20


def memory(at_seconds: float, current: int, inactive_file: int = 0, *, has: int = ALL) -> Rows:
    row = np.zeros(1, dtype=MEMORY_ROW)
    row["monotonic_ns"], row["has"] = round(at_seconds * NS), has
    row["memory_current_bytes"], row["inactive_file_bytes"] = current, inactive_file
    return row


def rows(*pairs: tuple[Rows, Rows]) -> TickRows:
    return TickRows(raw=np.concatenate([raw for raw, _ in pairs]), memory=np.concatenate([row for _, row in pairs]))


def tick(pods: TickRows, containers: TickRows, *pod_of: int) -> OwnReadings:
    return own_readings(pods, containers, np.array(pod_of, dtype=np.intp))


def own(at_seconds: float, usage: int | None, working_set: int | None = None, current: int = 0) -> OwnReadings:
    row = np.zeros(1, dtype=OWN_READING)
    row["monotonic_ns"] = round(at_seconds * NS)
    row["usage_usec"], row["has_usage"] = usage or 0, usage is not None
    row["working_set_bytes"], row["current_bytes"] = working_set or 0, current
    row["has_memory"] = working_set is not None
    return row


def test_a_pod_less_its_containers_is_what_is_left_of_it() -> None:
    pods = rows(
        (sample(10.02, 9_000), memory(10.02, 100 * MIB, 10 * MIB)), (sample(10.02, 500), memory(10.02, 8 * MIB))
    )
    containers = rows(
        (sample(10.0, 5_000), memory(10.0, 40 * MIB, 10 * MIB)), (sample(10.0, 3_000), memory(10.0, 20 * MIB))
    )

    first, second = tick(pods, containers, 0, 0)

    # 9,000 - 5,000 - 3,000 usec; 90 - 30 - 20 MiB of working set; 100 - 40 - 20 MiB with page cache.
    assert (first["usage_usec"], first["working_set_bytes"], first["current_bytes"]) == (1_000, 40 * MIB, 40 * MIB)
    assert (bool(first["has_usage"]), bool(first["has_memory"])) == (True, True)
    assert (second["usage_usec"], second["working_set_bytes"]) == (500, 8 * MIB), "a pod without containers"


def test_memory_that_containers_have_beyond_their_pod_is_none() -> None:
    reading = tick(rows((sample(1), memory(1, 10 * MIB))), rows((sample(1), memory(1, 11 * MIB))), 0)[0]
    assert (reading["working_set_bytes"], reading["current_bytes"], bool(reading["has_memory"])) == (0, 0, True)


def test_a_container_that_is_not_known_leaves_its_pod_unknown_and_no_other() -> None:
    pods = rows((sample(10), memory(10, MIB)), (sample(10), memory(10, MIB)))
    good = (sample(10), memory(10, 0))

    failed = tick(pods, rows((sample(10, status=Status.IO), memory(10, 0)), good), 0, 1)
    stale = tick(pods, rows((sample(5), memory(5, 0)), good), 0, 1)
    unsized = tick(pods, rows((sample(10), memory(10, 0, has=int(Has.MEMORY))), good), 0, 1)

    assert failed["has_usage"].tolist() == [False, True]
    assert stale["has_usage"].tolist() == stale["has_memory"].tolist() == [False, True]
    assert unsized["has_usage"].tolist() == [True, True]
    assert unsized["has_memory"].tolist() == [False, True]


def itself(*readings: OwnReadings) -> PodItself:
    (pod,) = pods_itself(np.concatenate(readings)[None])
    return pod


def test_over_a_minute_the_mean_of_cpu_and_the_least_of_memory_count() -> None:
    # 0.3 s of CPU in 20 s are 15 millicores, whatever the order; held is what was there at every reading.
    readings = [own(30, 400_000, 9 * MIB, 12 * MIB), own(10, 100_000, 5 * MIB, 6 * MIB), own(20, 90_000, 7 * MIB, MIB)]

    assert itself(own(0, None), *readings) == PodItself(
        cpu_usage_millicores=15.0,
        working_set_bytes=9 * MIB,
        held_working_set_bytes=5 * MIB,
        held_current_bytes=MIB,
    )


def test_cpu_is_never_below_nothing() -> None:
    assert itself(own(10, 100), own(20, 90)).cpu_usage_millicores == 0.0


def test_what_is_missing_has_its_reason() -> None:
    nothing = itself(own(0, None))
    without_memory = itself(own(10, 0), own(20, 0))

    assert nothing.missing == dict.fromkeys(("cpu_usage_millicores", "working_set_bytes"), Missing.TOO_FEW_SAMPLES)
    assert without_memory == PodItself(cpu_usage_millicores=0.0, missing={"working_set_bytes": Missing.NO_SIGNAL})


def test_two_readings_of_one_moment_tell_no_rate() -> None:
    assert itself(own(10, 100), own(10, 100)).missing["cpu_usage_millicores"] is Missing.TOO_FEW_SAMPLES


def test_each_pod_goes_by_its_own_readings() -> None:
    pods = [
        [own(10, 100_000, MIB, MIB), own(20, 200_000, 2 * MIB, 2 * MIB)],
        [own(0, None), own(0, None)],
        [own(20, 50_000, 4 * MIB, 5 * MIB), own(0, None)],
    ]
    together = pods_itself(np.stack([np.concatenate(readings) for readings in pods]))
    assert together == [itself(*readings) for readings in pods]
    assert together[0].cpu_usage_millicores == 10.0
    assert together[2].missing == {"cpu_usage_millicores": Missing.TOO_FEW_SAMPLES}
    assert pods_itself(np.zeros((0, 2), dtype=OWN_READING)) == []
