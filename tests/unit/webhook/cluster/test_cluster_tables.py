"""The tables behind the cluster's facts, held against plain dictionaries."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent.core.cluster.facts import PodPlace, WorkloadRequests, WrittenContainer
from agent.core.cluster.placement import PodPlacement
from agent.core.cluster.workload import Workload
from agent.kube.objects.cluster_json import limit_range_from_json, pod_place_from_json
from agent.kube.objects.json_reader import Reader
from agent.kube.watch.watched_objects import ReflectedObjects, WatchedEntry
from agent.webhook.cluster import pods as cluster_pods
from agent.webhook.cluster.index import CombinedIndex, ReflectedIndex
from agent.webhook.cluster.pods import GONE_SECONDS, InternTable, PodTable
from tests.examples import examples

UIDS = [str(uuid.UUID(int=number)) for number in (0, 1, 2**127, 2**128 - 1)] + [
    "not-a-uuid",
    str(uuid.UUID(int=5)).replace("-", ""),  # as static pods spell theirs: another text than the number's
    "ABCDEF00-0000-0000-0000-000000000001",
]
NODES = [None, "node-a", "node-b"]
WORKLOADS = [Workload(namespace=f"ns-{index % 2}", kind="Deployment", name=f"web-{index}") for index in range(3)]


def entry(place: PodPlace) -> WatchedEntry[PodPlace]:
    key = f"{place.namespace}/{place.name}"
    return WatchedEntry(key=key, uid=place.uid, version="1", generation=None, value=place)


PLACES = st.builds(
    lambda uid, node, workload, is_running, is_terminating, resize_pending, requests: PodPlace(
        uid=UIDS[uid],
        namespace=workload.namespace,
        name=f"pod-\N{SNOWMAN}-{uid}",
        node=node,
        workload=workload,
        is_running=is_running,
        is_terminating=is_terminating,
        resize_pending=resize_pending,
        cpu_request_millicores=requests[0],
        memory_request_bytes=requests[1],
    ),
    st.integers(0, len(UIDS) - 1),
    st.sampled_from(NODES),
    st.sampled_from(WORKLOADS),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, "Deferred: full"]),
    st.tuples(st.integers(-1, 1 << 33), st.integers(-1, 1 << 65)),  # more than is kept, and less
)


class PodTableMachine(RuleBasedStateMachine):
    """Lists and events in any order: the table says what a dictionary would."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.table = PodTable(lambda: self.now)
        self.expected: dict[str, PodPlace] = {}
        self.gone: dict[str, tuple[float, PodPlace]] = {}

    @rule(place=PLACES)
    def put(self, place: PodPlace) -> None:
        self.table.put(entry(place), now_seconds=0.0)
        self.expected[place.uid] = place

    @rule(place=PLACES)
    def remove(self, place: PodPlace) -> None:
        assert self.table.remove(entry(place)) == (place.uid in self.expected)
        self._goes(place.uid)

    @rule(places=st.lists(PLACES, max_size=5), breaks_off=st.booleans())
    def take_list(self, places: list[PodPlace], breaks_off: bool) -> None:
        gathering = self.table.gather()
        for place in places:
            self.table.put(entry(place), now_seconds=0.0)
            self.expected[place.uid] = place
        if breaks_off:
            return  # nothing goes for that it was not in the part that came
        gathering.finish(now_seconds=0.0, is_newest=True)
        for uid in set(self.expected) - {place.uid for place in places}:
            self._goes(uid)

    @rule(seconds=st.sampled_from([1.0, GONE_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    def _goes(self, uid: str) -> None:
        if uid in self.expected:
            self.gone[uid] = self.now, self.expected.pop(uid)

    @invariant()
    def says_what_a_dictionary_would(self) -> None:
        assert len(self.table) == len(self.expected)
        assert sorted(self.table.values(), key=repr) == sorted(self.expected.values(), key=repr)
        for uid in UIDS:
            assert self.table.pod(uid) == self.expected.get(uid)
            since, place = self.gone.get(uid, (-1e9, None))
            assert self.table.gone_pod(uid) == (place if self.now - since <= GONE_SECONDS else None)
        for node in NODES[1:]:
            assert node is not None
            on = [place for place in self.expected.values() if place.node == node]
            assert self.table.pods_on(node) == tuple(sorted(on, key=lambda pod: (pod.namespace, pod.name)))
        for workload in WORKLOADS:
            running = [
                place
                for place in self.expected.values()
                if place.workload == workload and place.is_running and not place.is_terminating
            ]
            assert self.table.running(workload) == len(running)
            every = [place for place in self.expected.values() if place.workload == workload]
            every.sort(key=lambda pod: (pod.resize_pending is None, pod.name))
            assert self.table.pods_of(workload, 2) == (len(every), tuple(every[:2]))
            assert self.table.requested(workload) == WorkloadRequests(
                pods=len(running),
                cpu_millicores=sum(min(max(place.cpu_request_millicores, 0), 2**32 - 1) for place in running),
                memory_bytes=sum(min(max(place.memory_request_bytes, 0), 2**64 - 1) for place in running),
            )
        # Nothing is kept of those that are gone.
        assert len(self.table._workloads) == len({place.workload for place in self.expected.values()})
        assert len(self.table._nodes) == len({place.node for place in self.expected.values()} - {None})
        assert len(self.table._pending) == sum(place.resize_pending is not None for place in self.expected.values())


PodTableMachine.TestCase.settings = examples(60, stateful_step_count=25)
TestPodTable = PodTableMachine.TestCase


def test_a_pod_that_is_not_understood_is_told_and_no_longer_placed() -> None:
    table = PodTable(lambda: 0.0)
    document = {"metadata": {"uid": UIDS[1], "namespace": "shop", "name": "web"}, "status": {"phase": "Running"}}
    gathering = table.gather()
    gathering.take(document)
    gathering.take({"metadata": {"uid": UIDS[2], "namespace": "shop", "name": "odd", "labels": 7}})
    gathering.finish(now_seconds=0.0, is_newest=True)
    assert table.faults() == ("shop/odd: metadata.labels: 7 is not an object",)
    assert table.pod(UIDS[1]) is not None
    table.put(table.entry({**document, "status": {"phase": 7}}), now_seconds=0.0)
    assert table.pod(UIDS[1]) is None
    assert len(table.faults()) == 2
    table.put(table.entry(document), now_seconds=0.0)
    assert table.remove(table.entry({"metadata": {"uid": UIDS[2], "namespace": "shop", "name": "odd"}}))
    assert table.faults() == ()
    table.gather()
    assert table.faults() == ()


def test_of_pods_that_are_gone_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_pods, "MOST_GONE", 2)
    table = PodTable(lambda: 0.0)
    for uid in UIDS[:3]:
        place = PodPlace(
            uid=uid, namespace="n", name="p", node=None, workload=WORKLOADS[0], is_running=True, is_terminating=False
        )
        table.put(entry(place), now_seconds=0.0)
        table.remove(entry(place))
    assert [table.gone_pod(uid) is not None for uid in UIDS[:3]] == [False, True, True]


def test_where_a_pod_may_run_is_not_remembered_of_one_that_is_gone() -> None:
    table = PodTable(lambda: 0.0)
    place = PodPlace(
        uid=UIDS[0],
        namespace="n",
        name="p",
        node=None,
        workload=WORKLOADS[0],
        is_running=True,
        is_terminating=False,
        placement=PodPlacement(labels=(("app", "web"),)),
    )
    table.put(entry(place), now_seconds=0.0)
    kept = table.pod(UIDS[0])
    assert kept is not None
    assert kept.placement == place.placement
    table.remove(entry(place))
    gone = table.gone_pod(UIDS[0])
    assert gone is not None
    assert gone.placement is None


def test_labels_and_rules_of_a_pod_are_kept_up_to_a_bound() -> None:
    table = PodTable(lambda: 0.0)
    metadata = {"uid": UIDS[0], "namespace": "shop", "name": "web"}
    for count in (250, 251):
        labels = {f"label-{number}": "x" for number in range(count)}
        table.put(table.entry({"metadata": {**metadata, "labels": labels}, "spec": {}}), now_seconds=0.0)
        place = table.pod(UIDS[0])
        assert place is not None
        assert place.placement is not None
        is_kept = count == 250
        assert len(place.placement.labels) == (250 if is_kept else 0)
        assert ("more than 250 labels" in place.placement.held_for) is not is_kept


# -- the index -------------------------------------------------------------------------------------------------------


def read(document: object) -> str:
    return Reader(document, "").required_text("group")


def document(name: str, group: object, version: int = 1) -> dict[str, Any]:
    metadata = {"name": name, "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "group": group}


GROUPS = st.sampled_from(["x", "y", 7])


class IndexMachine(RuleBasedStateMachine):
    """Values move between keys, come, go and turn bad."""

    def __init__(self) -> None:
        super().__init__()
        self.index: ReflectedIndex[str, str] = ReflectedIndex(read, lambda value: value)
        self.expected: dict[str, object] = {}

    @rule(name=st.sampled_from("abc"), group=GROUPS)
    def put(self, name: str, group: object) -> None:
        self.index.put(self.index.entry(document(name, group)), now_seconds=0.0)
        self.expected[name] = group

    @rule(name=st.sampled_from("abc"))
    def remove(self, name: str) -> None:
        self.index.remove(self.index.entry(document(name, "x")))
        self.expected.pop(name, None)

    @rule(groups=st.dictionaries(st.sampled_from("abc"), GROUPS))
    def take_list(self, groups: dict[str, object]) -> None:
        gathering = self.index.gather()
        for name, group in groups.items():
            gathering.take(document(name, group))
        gathering.finish(now_seconds=0.0, is_newest=True)
        self.expected = dict(groups)

    @invariant()
    def finds_what_is_there(self) -> None:
        for group in ("x", "y", "z"):
            assert self.index.find(group) == tuple(group for value in self.expected.values() if value == group)
        assert len(self.index.faults()) == list(self.expected.values()).count(7)
        assert len(self.index) == len(self.expected)


IndexMachine.TestCase.settings = examples(50)
TestIndex = IndexMachine.TestCase


def seen(index: ReflectedIndex[str, str]) -> tuple[tuple[str, ...], ...]:
    return index.values(), index.find("x"), index.find("y"), index.find("z")


def test_a_list_older_than_a_writes_answer_is_found_nowhere() -> None:
    index: ReflectedIndex[str, str] = ReflectedIndex(read, lambda value: value)
    index.put(index.entry(document("a", "x", 10)), now_seconds=0.0)
    assert index.put_answer(index.entry(document("a", "y", 12)), now_seconds=0.0)
    gathering = index.gather()
    gathering.take(document("a", "x", 10))
    assert not gathering.finish(now_seconds=1.0, is_newest=False)
    assert seen(index) == (("y",), (), ("y",), ())
    assert not index.put(index.entry(document("a", "y", 12)), now_seconds=2.0)
    assert seen(index) == (("y",), (), ("y",), ())


def test_a_watch_that_overtakes_a_writes_answer_is_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    index: ReflectedIndex[str, str] = ReflectedIndex(read, lambda value: value)
    index.put(index.entry(document("a", "x", 10)), now_seconds=0.0)
    store_answer = ReflectedObjects.put_answer

    def overtaken(self: ReflectedObjects[str], answer: WatchedEntry[str], *, now_seconds: float) -> bool:
        has_news = store_answer(self, answer, now_seconds=now_seconds)
        index.put(index.entry(document("a", "z", 13)), now_seconds=now_seconds)  # by the watch's thread
        return has_news

    monkeypatch.setattr(ReflectedObjects, "put_answer", overtaken)
    assert index.put_answer(index.entry(document("a", "y", 12)), now_seconds=0.0)
    assert seen(index) == (("z",), (), (), ("z",))


def test_who_reads_while_the_only_object_of_a_key_is_placed_anew_finds_it() -> None:
    reads: list[tuple[str, ...]] = []

    def key_of(value: str) -> str:
        reads.append(index.find(value))  # as another thread may
        return value

    index: ReflectedIndex[str, str] = ReflectedIndex(read, key_of)
    index.put(index.entry(document("a", "x", 10)), now_seconds=0.0)
    reads.clear()
    index._place("a")
    assert reads == [("x",)]


def test_what_all_with_a_key_come_to_is_worked_out_once_for_each_change() -> None:
    index = CombinedIndex(limit_range_from_json, lambda limit_range: limit_range.namespace, list)
    entries = [index.entry({"metadata": {"namespace": "shop", "name": name}}) for name in "ab"]
    assert index.combined("shop") == []
    index.put(entries[0], now_seconds=0.0)
    first = index.combined("shop")
    assert index.combined("shop") is first
    index.put(entries[1], now_seconds=0.0)
    assert (len(first), len(index.combined("shop"))) == (1, 2)
    index.remove(entries[0])
    assert len(index.combined("shop")) == 1
    index.gather().finish(now_seconds=0.0, is_newest=True)
    assert (index.combined("shop"), index._combined) == ([], {})  # of what is gone nothing is kept
    index.put(entries[0], now_seconds=0.0)
    assert len(index.combined("shop")) == 1
    index.remove(entries[0])
    assert index._combined == {}


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_a_number_is_free_again_when_its_last_user_is_gone() -> None:
    numbers: InternTable[str] = InternTable()
    assert [numbers.take(text) for text in ("a", "b", "a")] == [0, 1, 0]
    numbers.give_back(0)
    assert numbers.value(0) == "a"
    numbers.give_back(0)
    assert (numbers.number("a"), len(numbers)) == (None, 1)
    with pytest.raises(KeyError, match="number 0 is not in use"):
        numbers.value(0)
    assert (numbers.take("c"), numbers.value(0), numbers.number("c")) == (0, "c", 0)


def written(**requests: str) -> PodPlace:
    spec = {"containers": [{"name": "app", "resources": {"requests": requests}}], "initContainers": [{"name": "setup"}]}
    return pod_place_from_json({"metadata": {"name": "web-1", "namespace": "shop", "uid": "u"}, "spec": spec})


def test_of_a_workload_one_that_runs_and_stays_is_given_always_the_same() -> None:
    table, first = PodTable(lambda: 0.0), written(cpu="100m")
    waiting = replace(first, uid="a", is_running=False)
    for place in (
        waiting,
        replace(first, uid="c", is_running=True),
        replace(first, uid="b", is_running=True),
        replace(first, uid="0", is_running=True, is_terminating=True),
        replace(first, uid="d", is_running=True, workload=WORKLOADS[0]),
    ):
        table.put(entry(place), now_seconds=0.0)
    unknown = WORKLOADS[1]
    places = table.one_of([first.workload, WORKLOADS[0], unknown])
    assert {workload: place.uid for workload, place in places.items()} == {first.workload: "b", WORKLOADS[0]: "d"}
    assert table.one_of([unknown]) == table.one_of([]) == {}
    for uid in ("b", "c"):
        table.remove(entry(replace(first, uid=uid)))
    assert table.one_of([first.workload])[first.workload].uid == "a"


def test_others_go_first_between_pieces_of_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_pods, "_PIECE", 2)
    table, first = PodTable(lambda: 0.0), written(cpu="100m")
    for number in range(5):
        table.put(entry(replace(first, uid=f"u-{number}", name=f"web-{number}")), now_seconds=0.0)
    gone: list[str] = []

    def pause() -> None:  # a pod goes each time
        gone.append(f"u-{4 - len(gone)}")
        table.remove(entry(replace(first, uid=gone[-1])))

    total, places = table.pods_of(first.workload, 10, pause)
    assert gone == ["u-4", "u-3", "u-2"]
    assert (total, [place.name for place in places]) == (3, ["web-0", "web-1"])


def test_requests_are_those_as_written_whatever_is_resized_since() -> None:
    table = PodTable(lambda: 0.0)
    for number in range(3):
        table.put(entry(replace(written(cpu="100m", memory="64Mi"), uid=f"u-{number}")), now_seconds=0.0)
    resized = replace(written(cpu="60", memory="64Gi"), uid="u-0")
    table.put(entry(resized), now_seconds=0.0)
    place = table.pod("u-0")
    assert place is not None
    containers = table.written(place.workload)
    assert list(containers) == ["app", "setup"]
    assert (containers["app"].cpu_request_millicores, containers["app"].memory_request_bytes) == (100, 64 << 20)
    # One that was resized before it was first seen is outnumbered; of as many the smaller counts.
    table.put(entry(replace(resized, uid="u-9")), now_seconds=0.0)
    assert table.written(place.workload)["app"].cpu_request_millicores == 100
    for uid in ("u-1", "u-2"):
        table.remove(entry(replace(resized, uid=uid)))
    assert table.written(place.workload)["app"].cpu_request_millicores == 100
    for uid in ("u-0", "u-9"):
        table.remove(entry(replace(resized, uid=uid)))
    assert table.written(place.workload) == {}


def test_the_annotation_says_what_was_written() -> None:
    original = '{"containers":{"app":{"requests":{"cpu":"50m"}}}}'
    place = pod_place_from_json(
        {
            "metadata": {"name": "web-1", "uid": "u", "annotations": {"plimsoll.dev/original-resources": original}},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]},
        }
    )
    assert place.containers == (WrittenContainer(name="app", cpu_request_millicores=50),)
    odd = {"metadata": {"name": "x", "uid": "u", "annotations": {"plimsoll.dev/original-resources": "{"}}}
    assert pod_place_from_json(odd).containers is None
