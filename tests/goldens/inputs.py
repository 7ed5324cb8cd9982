"""Writes the fixed inputs anew: ``python -m tests.goldens.inputs``. The only part that knows the agent's insides.

They were made at tag base16 and should stay as they are: a recording, a state and the answers of an agent and of a
webhook in the form of that release are what a later release is held to.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from agent.core.cluster.pod import PodRef
from agent.core.cluster.unit import UnitIdentity
from agent.core.cost.prices import Prices
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.why import Whys
from agent.node.files.documents import CLUSTER, DECISIONS, PLAN, RECOMMENDATIONS, SNAPSHOT, WHYS
from agent.node.history.file import HistoryFile
from agent.node.offline.recorder import RecordedMachine, Recorder
from agent.node.offline.recorder_sources import StateDirectory
from agent.node.offline.recording_writer import RecordingWriter
from agent.node.orders.journal import Journal
from agent.node.sampling.pods_file import PodsFile
from agent.sensing.cgroup_path import identify
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry, read_boot_id
from agent.settings import Settings, StateSettings
from agent.webhook.http.routes import Call
from tests import cost_sheet
from tests.explanations import explanation
from tests.goldens.places import INPUTS, NOW_UNIX_SECONDS
from tests.plans import change, decision, decisions, mixed_plan, ref
from tests.pods import container, pod_json
from tests.recommendations import mixed_node
from tests.snapshots import busy_node, tier, whole
from tests.unit.core.machine.test_cluster_checkup import facts
from tests.unit.node.history.test_learner import MIB, Clocks, learner, row
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.stack import stack
from tests.webhook.test_buffers_view import CUT, body, buffer, why
from tests.webhook.test_cost import put_sheet
from tests.webhook.test_reading_scopes import Desk
from tests.webhook.test_weekly import put_week
from tests.window_rows import NS, memory, minute, steady

Json = dict[str, Any]
MINUTES: Final = 12
NEWEST_SECONDS: Final = 30 * 86400 + 30
"""CLOCK_MONOTONIC at the newest reading: up for a month."""
ASKED_SECONDS: Final = NEWEST_SECONDS + 60
"""The same at ``NOW_UNIX_SECONDS``."""
STARTED: Final = "2026-11-20T00:00:00Z"


def write(name: str, content: object) -> None:
    """Write one input as JSON that people can read."""
    path = INPUTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


# A node: three containers of two pods, twelve minutes of readings, three days of history


def uid_of(number: int) -> str:
    return f"0f0e0d0c-0b0a-4908-8706-05040302010{number}"


def container_id(pod: int, number: int) -> str:
    return f"{pod}{number}" * 32


def a_pod(number: int, name: str, owner: tuple[str, str], *containers: Json, **annotations: str) -> Json:
    names = [spec["name"] for spec in containers]
    kind, owner_name = owner
    return pod_json(
        *containers,
        metadata={
            "name": name,
            "namespace": "shop",
            "uid": uid_of(number),
            "creationTimestamp": STARTED,
            "labels": {"pod-template-hash": "7d9c5b8f4"},
            "annotations": {f"plimsoll.dev/{key}": value for key, value in annotations.items()},
            "ownerReferences": [{"kind": kind, "name": owner_name, "uid": f"uid-{owner_name}", "controller": True}],
        },
        status={
            "phase": "Running",
            "qosClass": "Burstable",
            "startTime": STARTED,
            "containerStatuses": [
                {
                    "name": container_name,
                    "containerID": f"containerd://{container_id(number, at)}",
                    "state": {"running": {"startedAt": STARTED}},
                }
                for at, container_name in enumerate(names)
            ],
        },
        nodeName="worker-7",
    )


PODS: Final = (
    a_pod(
        1,
        "web-7d9c5b8f4-x2x9k",
        ("ReplicaSet", "web-7d9c5b8f4"),
        container("app", {"cpu": "500m", "memory": "256Mi"}, {"memory": "512Mi"}),
        container("proxy", {"cpu": "100m", "memory": "64Mi"}),
        mode="enforce",
    ),
    a_pod(2, "db-0", ("StatefulSet", "db"), container("postgres", {"cpu": "250m", "memory": "64Mi"}), mode="recommend"),
)
LOADS: Final = ((1, 0, 120.0, 96), (1, 1, 15.0, 24), (2, 0, 700.0, 48))
"""Pod, its container, millicores, MiB."""
NODE: Final = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "worker-7", "uid": "uid-node", "labels": {"node.kubernetes.io/instance-type": "m5.large"}},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi"},
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "nodeInfo": {"kubeletVersion": "v1.37.1", "operatingSystem": "linux"},
    },
}
NAMESPACES: Final = {
    "kind": "List",
    "items": [
        {"kind": "Namespace", "metadata": {"name": "shop", "annotations": {"plimsoll.dev/mode": "enforce"}}},
        {"kind": "Namespace", "metadata": {"name": "team"}},
    ],
}


def cgroup_of(pod: int, number: int) -> str:
    return f"kubepods/burstable/pod{uid_of(pod)}/{container_id(pod, number)}"


def write_state(directory: Path, pods: Path, *, boot_id: str) -> None:
    """Leave what an agent leaves that ended a minute ago."""
    newest = NEWEST_SECONDS
    first = newest - 60 * MINUTES
    clocks = Clocks()
    clocks.monotonic_seconds, clocks.boot_unix_seconds = float(ASKED_SECONDS), float(NOW_UNIX_SECONDS - ASKED_SECONDS)
    source = PodsFile(pods)
    with (
        RingFile.open(directory / "rings", RingGeometry(max_slots=4), boot_id=boot_id) as rings,
        HistoryFile.open(directory / "history", max_rows=64) as history,
    ):
        taught = learner(history, clocks)
        taught._pods = source
        for generation, (pod, number, millicores, mebibytes) in enumerate(LOADS):
            path = cgroup_of(pod, number)
            slot = rings.attach(path, 7 + generation, now_monotonic_ns=first * NS)
            waiting = 0.2 if millicores > 500 else 0.01
            for each in steady(range(first, newest + 1), millicores, waiting=waiting, throttled=waiting / 4):
                rings.append_raw(slot, each)
            for at in range(first, newest + 1, 10):
                held = mebibytes * MIB
                rings.append_memory(slot, memory(at, held, set_peak=held, inactive=4 * MIB)[0])
            for at in range(first // 60, newest // 60):
                rings.append_minute(slot, minute(at, millicores, peak=2 * millicores, set_peak_kib=mebibytes << 10))
            identity = identify("/" + path)
            assert identity is not None
            named, _ = source.name(identity)
            for at in range(newest // 60 - 300, newest // 60):
                taught.learn([(named, _learnt(at, millicores, mebibytes))])


def _learnt(at: int, millicores: float, mebibytes: int) -> Any:
    swing = 1 + (at % 60) / 60
    return row(at, cpu=millicores * swing, peak=2 * millicores * swing, memory_mib=mebibytes)


def write_recording(directory: Path, pods: Path, target: Path) -> None:
    with (
        closing(
            StateDirectory(directory, wall=lambda: float(NOW_UNIX_SECONDS), monotonic_ns=lambda: ASKED_SECONDS * NS)
        ) as measured,
        RecordingWriter(target) as writer,
    ):
        Recorder(
            writer=writer,
            measured=measured,
            settings=Settings(state=StateSettings(directory=Path("/var/lib/plimsoll")), pods_file=pods),
            pods=PodsFile(pods),
            holds=_every,
            machine=RecordedMachine(name="worker-7", cpus=4),
        ).finish()


def _every(identity: UnitIdentity) -> bool:
    return True


def write_log(directory: Path) -> None:
    """Leave a decision log with one of each action and each outcome."""
    journal = Journal(directory / "decisions")
    at = NOW_UNIX_SECONDS - 3600.0
    for number, action in enumerate(Action):
        journal.add(
            unix_seconds=at + number, action=action, outcome=Outcome.DONE, reason="asked for", pod=ref(f"pod-{number}")
        )
    for number, outcome in enumerate(Outcome):
        about = PodRef(namespace="shop", name=f"web-{number}", uid=f"uid-{number}")
        journal.add(
            unix_seconds=at + 60 + number,
            action=Action.RESIZE,
            outcome=outcome,
            reason="quota",
            detail="exceeded quota: tight",
            pod=about,
            workload="Deployment/web",
            changes=(change(500, 200 + number),),
        )
    journal.close()


# Answers


def socket_answers() -> Mapping[str, object]:
    """Answer as an agent does on a node where there is one of each thing."""
    mixed = [decision(number + 1, 10.0 * number, outcome=outcome) for number, outcome in enumerate(Outcome)]
    mixed += [
        decision(20 + number, 400.0 * (1 + number), action=action, outcome=Outcome.DONE, changes=())
        for number, action in enumerate(Action)
    ]
    settings = Settings(state=StateSettings(directory=None)).to_dict()
    return {
        "ping": {
            "version": "0.1.0",
            "metrics": "http://127.0.0.1:9473/metrics",
            "settings": settings,
            "directory": "/",
        },
        "snapshot": SNAPSHOT.to_json(replace(busy_node(), pods=(whole("cache-0"),), tiers=(tier(),))),
        "recommend": RECOMMENDATIONS.to_json(mixed_node()),
        "plan": PLAN.to_json(mixed_plan()),
        "events": DECISIONS.to_json(decisions(*mixed)),
        "cluster": CLUSTER.to_json(facts()),
        "why": WHYS.to_json(Whys(items=(explanation(),))),
    }


def webhook_answers(folder: Path) -> Json:
    """Answer as a webhook does that knows one workload and one CapacityBuffer."""
    answers: Json = {}
    with stack(folder) as webhook:
        webhook.report(packed(report_body(row_body(0), row_body(1))), content_encoding="gzip")
        webhook.follow()
        answers["/v1/workloads"] = json.loads(webhook.ask("/v1/workloads").body)
        names = {"namespace": "shop", "kind": "Deployment", "name": "web"}
        answers["/v1/workloads/shop/Deployment/web"] = json.loads(
            webhook.ask("/v1/workloads/shop/Deployment/web", names=names).body
        )
        answers["/v1/nodes"] = json.loads(webhook.ask("/v1/nodes").body)
    buffers = json.loads(msgspec.json.encode(body(buffer(why(CUT)), buffer(None, name="other", trouble="no answer"))))
    answers["/v1/buffers"] = buffers
    answers["/v1/buffers/shop/room"] = {**buffers, "buffers": buffers["buffers"][:1], "total": 1}
    return answers


def glance_answers(folder: Path) -> Json:
    """Answer the questions after the cluster as a whole, of a week in which something of everything was done."""
    with stack(folder, prices=Prices(), advice=cost_sheet.Advice()) as webhook:
        Desk(webhook)
        put_week(webhook)
        put_sheet(webhook)
        answers = {path: json.loads(webhook.ask(path).body) for path in ("/v1/summary", "/v1/events")}
        cost = webhook.services.cost(Call(path="/v1/cost", authorization="Bearer good", query={"by": "workload"}))
        return {**answers, "/v1/cost": json.loads(cost.body)}


def main() -> None:
    """Write them all."""
    shutil.rmtree(INPUTS, ignore_errors=True)
    INPUTS.mkdir(parents=True)
    write("pods.json", {"kind": "List", "items": list(PODS)})
    write("node.json", NODE)
    write("namespaces.json", NAMESPACES)
    write("socket.json", socket_answers())
    write("report.json", report_body(row_body(0), row_body(1)))
    folder = INPUTS / "made"
    folder.mkdir()
    write("webhook.json", webhook_answers(folder))
    write("glance.json", glance_answers(folder))
    pods = INPUTS / "pods.json"
    write_state(folder, pods, boot_id=read_boot_id())
    write_recording(folder, pods, INPUTS / "node.plimsoll")
    shutil.rmtree(folder)
    state = INPUTS / "state"
    state.mkdir()
    write_state(state, pods, boot_id="another boot")
    write_log(state)
    shutil.make_archive(str(INPUTS / "state"), "gztar", state)  # sparse files of megabytes
    shutil.rmtree(state)
    print(f"{INPUTS}: written")


if __name__ == "__main__":
    main()
