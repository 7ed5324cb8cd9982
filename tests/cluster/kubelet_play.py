"""A kubelet as far as the API sees one: runs the pods of a node in name only and answers their resizes.

It speaks as the node's own identity, follows its pods by a watch, and writes status in the steps of a real kubelet:
desired (spec) -> allocated -> actual, with PodResizePending and PodResizeInProgress between. A resize for which there
is no room on the node is Deferred and done when room appears. A test may have a pod answered otherwise: ``answer``.
"""

from __future__ import annotations

import copy
import queue
import threading
from enum import StrEnum
from typing import Final

from agent.core.numbers.quantity import parse_quantity
from tests.cluster import objects
from tests.cluster.api import Api, ApiError, Json, Watch
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_for

RETRY_SECONDS: Final = 0.1
"""Between attempts to reach a server that is away."""
STARTING: Final = (429, 500, 503, 504)
"""What a server answers that has just been started, or is about to end."""
TERMINAL: Final = ("Succeeded", "Failed")
Key = tuple[str, str]
"""Namespace and name of a pod."""
Resources = dict[str, Json]
"""Container's name to its ``resources``; the pod level under the empty name."""


class Answer(StrEnum):
    """What becomes of a pod's resizes."""

    ACTUATE = "actuate"
    """Done when there is room, Deferred until then: what a kubelet does."""
    DEFER = "defer"
    """PodResizePending, reason Deferred, whatever the room."""
    INFEASIBLE = "infeasible"
    """PodResizePending, reason Infeasible."""
    IN_PROGRESS = "in_progress"
    """Allocated, PodResizeInProgress, and never actual: the runtime takes its time."""
    ERROR = "error"
    """Allocated, PodResizeInProgress with reason Error, as for a memory limit below the use."""
    SILENCE = "silence"
    """No word: the kubelet hangs."""


MESSAGES: Final = {
    Answer.ACTUATE: "",
    Answer.DEFER: "Node didn't have enough resource: cpu",
    Answer.INFEASIBLE: "In-place resize of Guaranteed Pods alongside CPU Manager static policy is not supported",
    Answer.IN_PROGRESS: "",
    Answer.ERROR: "cannot decrease memory limits: attempting to set pod memory limit below current usage",
    Answer.SILENCE: "",
}


class KubeletPlay:
    """Plays the kubelet of one Node object, which must exist, inside a ``with``.

    Args:
        plane: The control plane.
        node: The node's name.
        actuation_seconds: How long a resize stays in progress.
    """

    def __init__(self, plane: ControlPlane, node: str, *, actuation_seconds: float = 0.0) -> None:
        self.api: Api = plane.api_of_node(node)
        """The API as this kubelet."""
        self._admin = plane.admin
        self._tells_generations = plane.tells_generations
        self._node = node
        self.actuation_seconds = actuation_seconds
        """May be changed at any time."""
        self._answers: dict[Key, tuple[Answer, str]] = {}
        self._pods: dict[Key, Json] = {}
        self._allocated: dict[str, Resources] = {}
        self._actual: dict[str, Resources] = {}
        self._inbox: queue.Queue[Json | None] = queue.Queue()
        self._stopped = threading.Event()
        self._watch: Watch | None = None
        self._threads = [
            threading.Thread(target=self._listen, name=f"{node} listens"),
            threading.Thread(target=self._work, name=f"{node} works"),
        ]
        self._fault: BaseException | None = None

    def __enter__(self) -> KubeletPlay:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stopped.set()
        self._inbox.put(None)
        while any(thread.is_alive() for thread in self._threads):
            if self._watch is not None:
                self._watch.close()
            for thread in self._threads:
                thread.join(0.05)
        if self._fault is not None:
            raise self._fault

    def answer(self, namespace: str, name: str, answer: Answer, message: str | None = None) -> None:
        """Have a pod's resizes answered so from now on; one that is waiting is looked at again."""
        self._answers[namespace, name] = (answer, MESSAGES[answer] if message is None else message)
        self._inbox.put(None)

    def look_again(self) -> None:
        """Have waiting resizes looked at again, for instance after the node's allocatable changed."""
        self._inbox.put(None)

    def oom_kill(self, namespace: str, name: str, container: str = "app") -> None:
        """Report that a container was killed for want of memory and runs again."""
        pod = self._admin.get(objects.pod_path(namespace, name))
        before = next(status for status in pod["status"]["containerStatuses"] if status["name"] == container)
        restarts = before["restartCount"] + 1
        killed = {"reason": "OOMKilled", "exitCode": 137, "containerID": before["containerID"]}
        times = {"startedAt": objects.now(), "finishedAt": objects.now()}
        after = {
            "name": container,
            "restartCount": restarts,
            "containerID": objects.container_id(pod["metadata"]["uid"], container, restarts),
            "lastState": {"terminated": {**killed, **times}},
            "state": {"running": {"startedAt": objects.now()}},
        }
        objects.write_pod_status(self.api, namespace, name, {"containerStatuses": [after]}, pod=pod)

    def wait_settled(self, namespace: str, name: str) -> Json:
        """Wait until a pod runs and its last resize is done, and give the pod."""
        pods: list[Json] = []

        def settled() -> bool:
            # Not as the kubelet: the Node authorizer learns of a pod's node a moment after the pod is there.
            pod = self._admin.get(objects.pod_path(namespace, name))
            pods[:] = [pod]
            return is_settled(pod, tells_generations=self._tells_generations)

        wait_for(settled, f"pod {namespace}/{name} settled")
        return pods[0]

    # What comes in

    def _listen(self) -> None:
        mine = {"fieldSelector": f"spec.nodeName={self._node}"}
        while not self._stopped.is_set():
            try:
                listed = self.api.get("/api/v1/pods", **mine)
                for pod in listed.get("items") or []:
                    self._inbox.put({"type": "ADDED", "object": pod})
                version = listed["metadata"]["resourceVersion"]
                with self.api.watch("/api/v1/pods", resourceVersion=version, **mine) as self._watch:
                    for event in self._watch:
                        self._inbox.put(event)
            except (OSError, ApiError):  # the server is away, or has forgotten the version: list again
                self._stopped.wait(RETRY_SECONDS)

    def _work(self) -> None:
        try:
            while not self._stopped.is_set():
                event = self._inbox.get()
                if event is not None:
                    self._note(event)
                if self._inbox.empty():
                    self._look_at_all()
        except BaseException as fault:  # noqa: BLE001 - handed to the test by __exit__
            self._fault = fault

    def _note(self, event: Json) -> None:
        pod = event["object"]
        if event["type"] == "ERROR":
            return
        key = key_of(pod)
        if event["type"] == "DELETED":
            self._forget(key)
            return
        known = self._pods.get(key)
        # An event may be older than the answer to a write of ours.
        if known is None or version_of(known) < version_of(pod) or uid_of(known) != uid_of(pod):
            self._pods[key] = pod

    def _forget(self, key: Key) -> None:
        pod = self._pods.pop(key, None)
        if pod is not None:
            self._allocated.pop(uid_of(pod), None)
            self._actual.pop(uid_of(pod), None)

    # What is done about it

    def _look_at_all(self) -> None:
        changed = True
        while changed and not self._stopped.is_set():  # room made by one pod may serve another
            changed = False
            for key in sorted(self._pods):
                try:
                    changed |= self._look_at(key, self._pods[key])
                except ApiError as error:
                    if error.status == 404:
                        self._forget(key)
                    elif error.status in STARTING:
                        self._try_later()
                        return
                    elif error.status != 409:  # a conflict: the newer pod is on its way
                        raise
                except OSError:
                    self._try_later()
                    return

    def _try_later(self) -> None:
        if not self._stopped.wait(RETRY_SECONDS):
            self._inbox.put(None)

    def _look_at(self, key: Key, pod: Json) -> bool:
        """Do the next thing about a pod; true when somebody else's room may have changed."""
        if pod["metadata"].get("deletionTimestamp"):
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid_of(pod)}}
            self.api.delete(objects.pod_path(*key), options)
            self._forget(key)
            return True
        if pod.get("status", {}).get("phase") in TERMINAL:
            return False
        uid = uid_of(pod)
        if uid not in self._allocated:
            self._admit(key, pod)
            return False
        desired = desired_of(pod)
        answer, message = self._answers.get(key, (Answer.ACTUATE, ""))
        if answer is Answer.SILENCE:
            return False
        if desired != self._allocated[uid]:
            refusal = self._refusal(pod, answer, message)
            if refusal is not None:
                self._write(key, pod, [refusal])
                return False
            self._allocated[uid] = desired
        if self._actual[uid] != self._allocated[uid]:
            error = message if answer is Answer.ERROR else None
            self._write(key, pod, [objects.in_progress(generation_of(pod), error=error)])
            if answer in (Answer.IN_PROGRESS, Answer.ERROR):
                return False
            self._stopped.wait(self.actuation_seconds)
            self._actual[uid] = copy.deepcopy(self._allocated[uid])
            self._write(key, self._pods[key], [])
            return True
        self._write(key, pod, [])
        return False

    def _admit(self, key: Key, pod: Json) -> None:
        """Take a pod on: start it, or believe the status of one that runs already."""
        uid = uid_of(pod)
        status = pod.get("status", {})
        if status.get("phase") == "Running" and status.get("containerStatuses"):
            reported = [*status["containerStatuses"], *status.get("initContainerStatuses", [])]
            resources = {container["name"]: container.get("resources") or {} for container in reported}
            if pod["spec"].get("resources"):
                resources[""] = status.get("resources") or pod["spec"]["resources"]
            self._allocated[uid] = self._actual[uid] = resources
            self._inbox.put(None)
            return
        self._allocated[uid] = self._actual[uid] = desired_of(pod)
        self._pods[key] = objects.write_pod_status(self.api, *key, objects.running_status(pod), pod=pod)

    def _refusal(self, pod: Json, answer: Answer, message: str) -> Json | None:
        """Return the condition that keeps a resize waiting, or None when it may go on."""
        generation = generation_of(pod)
        if answer is Answer.INFEASIBLE:
            return objects.infeasible(generation, message)
        if answer is Answer.DEFER:
            return objects.deferred(generation, message)
        lacking = self._lacking(pod)
        return None if lacking is None else objects.deferred(generation, f"Node didn't have enough resource: {lacking}")

    def _lacking(self, pod: Json) -> str | None:
        """Name the resource for which the node has no room beside what the other pods have been allocated."""
        allocatable = self.api.get(f"/api/v1/nodes/{self._node}").get("status", {}).get("allocatable", {})
        others = [neighbour for neighbour in self._pods.values() if uid_of(neighbour) != uid_of(pod)]
        for resource in ("cpu", "memory"):
            taken = sum(
                requested_nanos(neighbour, self._allocated.get(uid_of(neighbour), {}), resource)
                for neighbour in others
                if neighbour.get("status", {}).get("phase") not in TERMINAL
            )
            wanted = requested_nanos(pod, desired_of(pod), resource)
            if wanted > requested_nanos(
                pod, self._allocated[uid_of(pod)], resource
            ) and taken + wanted > parse_quantity(allocatable.get(resource, "0")):
                return resource
        return None

    def _write(self, key: Key, pod: Json, conditions: list[Json]) -> None:
        """Report generation, resources and resize conditions, unless all of it stands there already."""
        uid = uid_of(pod)
        status = self._status(pod, uid, conditions)
        stale = [
            {"type": condition["type"], "$patch": "delete"}
            for condition in pod.get("status", {}).get("conditions", [])
            if condition["type"] in (objects.RESIZE_PENDING, objects.RESIZE_IN_PROGRESS)
            and condition["type"] not in [new["type"] for new in conditions]
        ]
        if not stale and is_reported(pod, status):
            return
        status["conditions"] = [*status["conditions"], *stale]
        self._pods[key] = objects.write_pod_status(self.api, *key, status, pod=pod)

    def _status(self, pod: Json, uid: str, conditions: list[Json]) -> Json:
        allocated, actual = self._allocated[uid], self._actual[uid]
        status: Json = {"conditions": conditions}
        if self._tells_generations:
            status["observedGeneration"] = generation_of(pod)
        else:
            for condition in conditions:
                condition.pop("observedGeneration", None)
        for statuses, containers in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
            if pod["spec"].get(containers):
                status[statuses] = [
                    {
                        "name": container["name"],
                        "resources": actual.get(container["name"], {}),
                        "allocatedResources": allocated.get(container["name"], {}).get("requests", {}),
                    }
                    for container in pod["spec"][containers]
                ]
        now = objects.pod_level(with_resources(pod["spec"], actual))
        status["resources"] = now["resources"]
        status["allocatedResources"] = objects.pod_level(with_resources(pod["spec"], allocated))["allocatedResources"]
        return status


def key_of(pod: Json) -> Key:
    """Return namespace and name."""
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def uid_of(pod: Json) -> str:
    """Return the pod's uid."""
    return str(pod["metadata"]["uid"])


def version_of(pod: Json) -> int:
    """Return the resource version as a number: on one server newer is greater."""
    return int(pod["metadata"]["resourceVersion"])


def generation_of(pod: Json) -> int:
    """Return the generation; servers older than 1.33 count none."""
    return int(pod["metadata"].get("generation", 0))


def desired_of(pod: Json) -> Resources:
    """Return what the spec asks for."""
    spec = pod["spec"]
    every = [*spec["containers"], *spec.get("initContainers", [])]
    resources = {container["name"]: copy.deepcopy(container.get("resources") or {}) for container in every}
    if spec.get("resources"):
        resources[""] = copy.deepcopy(spec["resources"])
    return resources


def with_resources(spec: Json, resources: Resources) -> Json:
    """Return a spec whose resources are others."""
    changed = copy.deepcopy(spec)
    for container in [*changed["containers"], *changed.get("initContainers", [])]:
        container["resources"] = resources.get(container["name"], {})
    if "" in resources:
        changed["resources"] = resources[""]
    return changed


def requested_nanos(pod: Json, resources: Resources, resource: str) -> int:
    """Return a pod's request: of the pod level where it has one, else the sum of containers and sidecars."""
    amount = objects.pod_level(with_resources(pod["spec"], resources))["allocatedResources"].get(resource)
    return 0 if amount is None else parse_quantity(amount)


def is_reported(pod: Json, status: Json) -> bool:
    """Return whether a pod's status says all that `status` would write; times do not count."""
    there = pod.get("status", {})
    for key, wanted in status.items():
        if key in ("resources", "allocatedResources"):
            continue  # older servers drop them: they never differ alone
        if not isinstance(wanted, list):
            if there.get(key) != wanted:
                return False
            continue
        name = "type" if key == "conditions" else "name"
        have = {entry[name]: entry for entry in there.get(key, [])}
        for entry in wanted:
            known = have.get(entry[name], {})
            fields = {field: value for field, value in entry.items() if field != "lastTransitionTime"}
            if any((known.get(field) or None) != (value or None) for field, value in fields.items()):
                return False
    return True


def is_settled(pod: Json, *, tells_generations: bool = True) -> bool:
    """Return whether a pod runs and nothing of a resize is pending or in progress."""
    status = pod.get("status", {})
    if status.get("phase") != "Running":
        return False
    if tells_generations and status.get("observedGeneration", 0) != generation_of(pod):
        return False
    kinds = {condition["type"] for condition in status.get("conditions", []) if condition["status"] == "True"}
    if kinds & {objects.RESIZE_PENDING, objects.RESIZE_IN_PROGRESS}:
        return False
    desired = desired_of(pod)
    return all((row.get("resources") or {}) == desired[row["name"]] for row in status.get("containerStatuses", []))
