"""Memory kept for higher classes: the kubelet's sums, and limits that never fall below what is in use."""

from __future__ import annotations

from agent.core.cluster.pod import Pod, QosClass
from agent.core.machine.qos_reserve import ROOM_BYTES, next_limits, qos_reservation
from agent.core.numbers.units import GIB, MIB
from tests.pods import container, make_pod

BURSTABLE, BEST_EFFORT = QosClass.BURSTABLE, QosClass.BEST_EFFORT
TARGET = {BURSTABLE: 8 * GIB, BEST_EFFORT: 4 * GIB}


def pod(qos: QosClass, memory: str | None, phase: str = "Running") -> Pod:
    requests = {"memory": memory} if memory else None
    return make_pod(container("app", requests), status={"phase": phase, "qosClass": qos})


def node() -> list[Pod]:
    return [
        pod(QosClass.GUARANTEED, "5Gi"),
        pod(BURSTABLE, "3Gi"),
        pod(BEST_EFFORT, None),
        pod(BURSTABLE, "9Gi", phase="Succeeded"),
        pod(QosClass.GUARANTEED, "9Gi", phase="Failed"),
    ]


def test_each_class_leaves_room_for_the_higher_ones_and_ended_pods_do_not_count() -> None:
    # 2017 design document: 16Gi, G = 5Gi, B = 3Gi at 100 %: 11Gi and 8Gi; at 50 % 13.5Gi and 12Gi
    whole = qos_reservation(node(), percent=100, allocatable_memory_bytes=16 * GIB)
    half = qos_reservation(node(), percent=50, allocatable_memory_bytes=16 * GIB)

    assert whole is not None
    assert half is not None
    assert whole.target_bytes == {BURSTABLE: 11 * GIB, BEST_EFFORT: 8 * GIB}
    assert half.target_bytes == {BURSTABLE: 27 * GIB // 2, BEST_EFFORT: 12 * GIB}
    assert half.percent == 50


def test_more_requested_than_there_is_leaves_nothing_and_nothing_negative() -> None:
    reservation = qos_reservation(node(), percent=100, allocatable_memory_bytes=4 * GIB)

    assert reservation is not None
    assert reservation.target_bytes == {BURSTABLE: 0, BEST_EFFORT: 0}


def test_without_the_nodes_allocatable_memory_there_is_no_reservation() -> None:
    assert qos_reservation(node(), percent=50, allocatable_memory_bytes=None) is None
    assert qos_reservation(node(), percent=50, allocatable_memory_bytes=0) is None


def test_a_class_that_uses_little_gets_its_target() -> None:
    usage = {BURSTABLE: GIB, BEST_EFFORT: 0}

    assert next_limits(TARGET, usage_bytes=usage, standing_bytes={}) == TARGET
    # A target that has risen is followed.
    assert next_limits(TARGET, usage_bytes=usage, standing_bytes={BURSTABLE: GIB, BEST_EFFORT: GIB}) == TARGET


def test_a_class_that_uses_more_than_its_target_gets_its_usage_and_room() -> None:
    usage = {BURSTABLE: 9 * GIB, BEST_EFFORT: 4 * GIB - MIB}

    assert next_limits(TARGET, usage_bytes=usage, standing_bytes={}) == {
        BURSTABLE: 9 * GIB + ROOM_BYTES,
        BEST_EFFORT: 4 * GIB - MIB + ROOM_BYTES,
    }


def test_such_a_limit_falls_with_the_use_and_never_rises_with_it() -> None:
    standing = {BURSTABLE: 9 * GIB}

    rising = next_limits(TARGET, usage_bytes={BURSTABLE: 9 * GIB - MIB}, standing_bytes=standing)
    falling = next_limits(TARGET, usage_bytes={BURSTABLE: 8 * GIB}, standing_bytes=standing)

    assert rising == {BURSTABLE: 9 * GIB}
    assert falling == {BURSTABLE: 8 * GIB + ROOM_BYTES}


def test_a_class_whose_use_is_not_known_is_left_out() -> None:
    assert next_limits(TARGET, usage_bytes={BEST_EFFORT: 0}, standing_bytes={}) == {BEST_EFFORT: 4 * GIB}
