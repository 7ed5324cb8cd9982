"""One resize of one pod: one call, one answer. No retries and no waiting: who calls decides what an answer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent.core.cluster.pod import Pod
from agent.core.plan.plan import PlanStep
from agent.core.resize.answer import AnswerKind, ResizeAnswer, classify
from agent.core.resize.patch import patch_of
from agent.kube.client.api import STRATEGIC_MERGE_PATCH, Api
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from agent.kube.client.paths import namespaced_path

FIELD_MANAGER: Final = "plimsoll-agent"
"""The name that ``metadata.managedFields`` shows beside the numbers that were written."""


def resize(
    api: Api,
    step: PlanStep,
    resource_version: str | None,
    *,
    pod: Pod | None = None,
    timeout_seconds: float | None = None,
) -> tuple[ResizeAnswer, object | None]:
    """Send one step of a plan as a patch of ``pods/resize``.

    Args:
        resource_version: Of the pod on which the step was decided: with it, a pod that has changed since is a CONFLICT
            and nothing is written, also when the server comes to the request long after this call has given up. None =
            whatever the pod has become, as long as its uid is the same.
        pod: As it was then: gives the order of its containers, in which the server wants them, and by its generation
            tells NO_CHANGE from ACCEPTED where no resourceVersion is sent. None = the step's changes are in that order.
        timeout_seconds: For connecting, and again for the answer; None = the client's own. After it the answer is
            UNKNOWN: it may have been done.

    Returns:
        The answer, and the pod's JSON as it is now; None with every answer that is not done.

    Raises:
        ValueError: The step is no patch; see ``patch_of``.
    """
    path = namespaced_path(step.ref.namespace, "pods", step.ref.name, "resize")
    body = patch_of(step, resource_version, pod=pod)
    try:
        document = api.call(
            "PATCH",
            path,
            query={"fieldManager": FIELD_MANAGER},
            body=body,
            content_type=STRATEGIC_MERGE_PATCH,
            timeout_seconds=timeout_seconds,
        )
    except ApiError as error:
        return classify(error), None
    except Unreachable as error:
        kind = AnswerKind.UNKNOWN if error.may_have_been_done else AnswerKind.UNAVAILABLE
        return ResizeAnswer(kind=kind, message=str(error)), None
    except KubeError as error:  # credentials that cannot be read: nothing was sent
        return ResizeAnswer(kind=AnswerKind.UNAVAILABLE, message=str(error)), None
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    if not isinstance(metadata, Mapping) or metadata.get("uid") != step.ref.uid:
        message = f"PATCH {path}: the answer is not the pod of uid {step.ref.uid}"
        return ResizeAnswer(kind=AnswerKind.UNKNOWN, message=message), None
    is_unchanged = (resource_version is not None and metadata.get("resourceVersion") == resource_version) or (
        pod is not None and pod.generation is not None and metadata.get("generation") == pod.generation
    )
    return ResizeAnswer(kind=AnswerKind.NO_CHANGE if is_unchanged else AnswerKind.ACCEPTED), document
