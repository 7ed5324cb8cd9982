"""What a cluster autoscaler that reads CapacityBuffers will make of one: its next loop, told beforehand. Core, pure.

Nothing here is written to the cluster: the autoscaler itself sets the condition and keeps its virtual pods to itself.

Source: kubernetes-sigs/cluster-autoscaler pkg/processors/capacitybuffer/pod_list_processor.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, overload

from agent.core.buffers.buffer import FALSE, PROVISIONING, READY_FOR_PROVISIONING, TRUE, Buffer

FAKE_PODS_INJECTED: Final = "FakePodsInjected"
NOT_READY: Final = "NotReadyForProvisioning"
BUFFER_IS_EMPTY: Final = "BufferIsEmpty"
NO_TEMPLATE: Final = "FailedToGetPodTemplate"

_POD_TYPE: Final = "podType"
_FAKE_POD: Final = "capacityBufferFakePod"
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakePod:
    """A virtual pod that an autoscaler sees as waiting for room."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class FakePods(Sequence[FakePod]):
    """The virtual pods of a buffer, each made when it is asked for: there may be two thousand million."""

    buffer: Buffer
    size: int

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int, /) -> FakePod: ...
    @overload
    def __getitem__(self, index: slice[int | None, int | None, int | None], /) -> Sequence[FakePod]: ...
    def __getitem__(self, index: int | slice[int | None, int | None, int | None], /) -> FakePod | Sequence[FakePod]:
        """Return one, or some."""
        numbers = range(1, self.size + 1)[index]
        return self._pod(numbers) if isinstance(numbers, int) else tuple(map(self._pod, numbers))

    def _pod(self, number: int) -> FakePod:
        return FakePod(name=f"capacity-buffer-{self.buffer.name}-{number}", uid=f"{self.buffer.uid}-{number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """What becomes of one buffer in the autoscaler's next loop."""

    status: str | None
    """Of its condition Provisioning; None = it is passed over, and the condition stays as it is."""
    reason: str = ""
    """Of the condition; where it is passed over, why, for people."""
    pods: Sequence[FakePod] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of each of the pods, besides the template's."""


def provision(
    buffer: Buffer, *, template_generation: int | None, strategies: Collection[str], force_safe_to_evict: bool
) -> Provision:
    """Return what an autoscaler makes of a buffer's status.

    Args:
        buffer: As it stands.
        template_generation: Of the template that its status names; None = it does not exist.
        strategies: Those that the autoscaler serves.
        force_safe_to_evict: It marks its pods so that they never keep a node.
    """
    status = buffer.status
    if status.strategy is None or status.strategy not in strategies:
        return Provision(status=None, reason=f"strategy {status.strategy or 'none'} is not served")
    readiness, before = status.condition(READY_FOR_PROVISIONING), status.condition(PROVISIONING)
    is_ready = readiness is not None and readiness.status == TRUE
    if not is_ready and (before is None or before.status != TRUE):
        return Provision(status=None, reason="it is not ready, and was not provided before")
    is_told = status.template_name is not None and status.template_generation is not None
    if is_told and template_generation is not None and template_generation != status.template_generation:
        return Provision(status=None, reason="its template has changed since the status was written")
    is_refused = readiness is not None and readiness.status == FALSE
    if status.template_name is None or status.replicas is None or is_refused:
        return Provision(status=FALSE, reason=NOT_READY)
    if status.replicas == 0:
        return Provision(status=FALSE, reason=BUFFER_IS_EMPTY)
    if template_generation is None:
        return Provision(status=FALSE, reason=NO_TEMPLATE)
    return Provision(
        status=TRUE,
        reason=FAKE_PODS_INJECTED,
        pods=FakePods(buffer, status.replicas),
        annotations={_POD_TYPE: _FAKE_POD} | ({_SAFE_TO_EVICT: "true"} if force_safe_to_evict else {}),
    )
