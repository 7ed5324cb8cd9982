from __future__ import annotations

from dataclasses import fields

from agent.core.cluster.pod import QosClass
from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.cluster.unit import UnitResources
from agent.core.cluster.workload import Workload
from agent.core.recommender.credit import Credit
from agent.core.recommender.other_nodes import OWN_MINUTES
from agent.core.recommender.subject import present_of, rows_of, stated_of
from agent.core.window.snapshot import Missing
from tests.directives import peaks
from tests.subjects import cpu_window, identity, memory_window, subject


def test_base_is_psi_adjusted_where_psi_is_there() -> None:
    with_psi = subject(cpu=cpu_window(200.0, adjusted=240.0))
    without_psi = subject(cpu=cpu_window(200.0))
    unknown = subject(cpu=cpu_window(None))

    assert [container.cpu_base_millicores for container in (with_psi, without_psi, unknown)] == [240.0, 200.0, None]
    assert [container.cpu_missing for container in (with_psi, without_psi, unknown)] == [None, None, Missing.NO_SIGNAL]
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
        credit=Credit.GRANTED,
    )
    unknown = subject(2, resources=UnitResources(), cpu=cpu_window(None), memory=memory_window(None))

    present, stated = present_of((known, unknown)), stated_of((known, unknown))

    assert rows_of((known, unknown)).tolist() == [7, 2]
    assert present.elsewhere is None
    arrays = [field.name for field in fields(present) if field.name != "elsewhere"]
    assert {name: getattr(present, name).tolist() for name in arrays} == {
        "cpu_base_millicores": [50.5, 0],
        "has_cpu": [True, False],
        "memory_base_bytes": [60, 0],
        "has_memory": [True, False],
        "pod_containers": [3, 1],
        "wants_whole_cores": [True, False],
        "has_credit": [True, False],
    }
    assert stated.heap_floor_bytes is None
    assert stated.limit_readers is None
    arrays = [field.name for field in fields(stated) if field.name not in ("heap_floor_bytes", "limit_readers")]
    assert {name: getattr(stated, name).tolist() for name in arrays} == {
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
        "keeps_memory_limit": [False, False],
    }


def test_peaks_of_others_count_until_the_node_knows_the_week_and_never_for_a_daemon_set() -> None:
    directive = peaks(hours={12: (400, 500)}, memory_peak_bytes=600, oom_memory_bytes=700)
    daemon = Workload(namespace="ops", kind="DaemonSet", name="log")
    subjects = (
        subject(elsewhere=directive, history_minutes=OWN_MINUTES - 1),
        subject(elsewhere=directive, history_minutes=OWN_MINUTES),
        subject(elsewhere=directive, history_minutes=0, workload=daemon),
        subject(elsewhere=directive, history_minutes=0, workload=None),
        subject(),
    )
    elsewhere = present_of(subjects).elsewhere
    assert elsewhere is not None
    assert elsewhere.has_cpu_hours[:, 12].tolist() == [True, False, False, True, False]
    assert elsewhere.has_memory_hours[:, 12].tolist() == [True, False, False, True, False]
    assert elsewhere.has_memory_peak.tolist() == [True, False, False, True, False]
    assert elsewhere.oom_bytes.tolist() == [700, 700, 700, 700, 0]


def test_arrays_of_runtimes_are_there_where_one_of_them_has_something() -> None:
    fixed = RuntimeProfile(runtime=LanguageRuntime.JAVA, heap_bytes=1000)
    share = RuntimeProfile(runtime=LanguageRuntime.JAVA, limit_share_ratio=0.25)

    amounts = stated_of([subject(runtime=fixed), subject()])
    assert amounts.heap_floor_bytes is not None
    assert (amounts.heap_floor_bytes.tolist(), amounts.limit_readers) == ([1250, 0], None)
    other = stated_of([subject(), subject(runtime=share)])
    assert (other.heap_floor_bytes, other.limit_readers) == (None, [None, LanguageRuntime.JAVA])
