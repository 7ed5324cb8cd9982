from __future__ import annotations

from dataclasses import fields

from agent.core.model import Missing, QosClass, UnitResources
from agent.core.subject import present_of, rows_of, stated_of
from tests.subjects import cpu_window, identity, memory_window, subject


def test_base_is_psi_adjusted_where_psi_is_there() -> None:
    with_psi = subject(cpu=cpu_window(200.0, adjusted=240.0))
    without_psi = subject(cpu=cpu_window(200.0))
    unknown = subject(cpu=cpu_window(None))

    assert [one.cpu_base_millicores for one in (with_psi, without_psi, unknown)] == [240.0, 200.0, None]
    assert [one.cpu_missing for one in (with_psi, without_psi, unknown)] == [None, None, Missing.NO_SIGNAL]
    assert subject(memory=memory_window(None)).memory_missing is Missing.NO_SIGNAL


def test_arrays_keep_order_and_mask_what_is_not_known() -> None:
    known = subject(
        7,
        identity=identity(qos=QosClass.GUARANTEED),
        resources=UnitResources(
            cpu_request_millicores=100, cpu_limit_millicores=101, memory_request_bytes=102, memory_limit_bytes=103
        ),
        cpu=cpu_window(50.5),
        memory=memory_window(60, working_set=70, current_bytes=80),
        pod_containers=3,
        wants_whole_cores=True,
    )
    unknown = subject(2, resources=UnitResources(), cpu=cpu_window(None), memory=memory_window(None))

    present, stated = present_of((known, unknown)), stated_of((known, unknown))

    assert rows_of((known, unknown)).tolist() == [7, 2]
    assert {field.name: getattr(present, field.name).tolist() for field in fields(present)} == {
        "cpu_base_millicores": [50.5, 0],
        "has_cpu": [True, False],
        "memory_base_bytes": [60, 0],
        "has_memory": [True, False],
        "pod_containers": [3, 1],
        "wants_whole_cores": [True, False],
    }
    assert {field.name: getattr(stated, field.name).tolist() for field in fields(stated)} == {
        "cpu_request_millicores": [100, 0],
        "has_cpu_request": [True, False],
        "cpu_limit_millicores": [101, 0],
        "has_cpu_limit": [True, False],
        "memory_request_bytes": [102, 0],
        "has_memory_request": [True, False],
        "memory_limit_bytes": [103, 0],
        "has_memory_limit": [True, False],
        "working_set_bytes": [70, 0],
        "has_working_set": [True, False],
        "memory_current_bytes": [80, 0],
        "has_memory_current": [True, False],
        "is_guaranteed": [True, False],
    }
