"""What the Vertical Pod Autoscaler has learnt, read from the API server and folded to hours of workloads. Face."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.imported import ImportedHour
from agent.core.recommender.vpa.checkpoint import CheckpointError
from agent.core.recommender.vpa.checkpoint_hours import hours_of_checkpoint
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.cluster_json import vertical_autoscaler_from_json
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.vpa_checkpoint_json import checkpoint_from_json, checkpoint_name

GROUP: Final = "/apis/autoscaling.k8s.io/v1"
PAGE: Final = 500
MOST_PAGES: Final = 1000
_AUTOSCALERS: Final = "verticalpodautoscalers"
_CHECKPOINTS: Final = "verticalpodautoscalercheckpoints"
_NOT_FOUND: Final = 404


class CheckpointsError(Exception):
    """The API server gave none; one line."""


class CheckpointWalk:
    """Reads the checkpoints of a cluster, or of some namespaces; by one thread."""

    def __init__(self, api: Api, namespaces: Sequence[str], *, now_unix_seconds: float) -> None:
        self._api, self._namespaces, self._now = api, sorted(set(namespaces)), now_unix_seconds
        self.left_out: Counter[str] = Counter()
        """Why checkpoints are left out, and how many."""
        self.first_left_out: dict[str, str] = {}
        """The first checkpoint of each reason."""

    def hours(self) -> list[list[ImportedHour]]:
        """Return the hours by checkpoint.

        Raises:
            CheckpointsError: The API server does not know such objects, refuses, or does not answer.
        """
        targets = dict(self._targets())
        hours_by_checkpoint: list[list[ImportedHour]] = []
        for document in self._listed(_CHECKPOINTS):
            try:
                named = checkpoint_from_json(document)
                target = targets.get((named.namespace, named.autoscaler))
                if target is None:
                    self._leave(document, "no VerticalPodAutoscaler that names a workload has it")
                    continue
                hours = hours_of_checkpoint(named.state, target, named.container, now_unix_seconds=self._now)
            except (ConvertError, CheckpointError) as error:
                self._leave(document, str(error))
                continue
            hours_by_checkpoint.append(hours)
        return hours_by_checkpoint

    def _targets(self) -> Iterator[tuple[tuple[str, str], Workload]]:
        for document in self._listed(_AUTOSCALERS):
            try:
                target = vertical_autoscaler_from_json(document).target
            except ConvertError:
                continue  # without a name no checkpoint can be its own
            if isinstance(target, Workload):
                name = checkpoint_name(document).rpartition("/")[2]
                yield (target.namespace, name), target

    def _leave(self, document: object, reason: str) -> None:
        self.left_out[reason] += 1
        self.first_left_out.setdefault(reason, checkpoint_name(document))

    def _listed(self, resource: str) -> Iterator[object]:
        paths = [namespaced_path(name, resource, group=GROUP) for name in self._namespaces] or [f"{GROUP}/{resource}"]
        for path in paths:
            more = ""
            for _ in range(MOST_PAGES):
                page = self._page(path, more)
                items = page.get("items")
                yield from items if isinstance(items, list) else ()
                metadata = page.get("metadata")
                more = str((metadata.get("continue") if isinstance(metadata, dict) else None) or "")
                if not more:
                    break
            else:
                raise CheckpointsError(f"{path}: more than {MOST_PAGES} pages")

    def _page(self, path: str, more: str) -> dict[str, object]:
        query = {"limit": str(PAGE), **({"continue": more} if more else {})}
        try:
            answer = self._api.call("GET", path, query=query)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                raise CheckpointsError("the API server has no VerticalPodAutoscaler (autoscaling.k8s.io/v1)") from error
            raise CheckpointsError(str(error)) from error
        except KubeError as error:
            raise CheckpointsError(str(error)) from error
        if not isinstance(answer, dict) or not str(answer.get("kind", "")).endswith("List"):
            raise CheckpointsError(f"{path}: the API server's answer is no list")
        return answer
