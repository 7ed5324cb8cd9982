"""What a buffer's reference comes to, by as few questions as will do. Webhook; for the controller's thread.

What was found out is kept until its source changes or the namespace is looked through anew (``not_before``): a change
of quotas asks nothing, a change of a scalable object asks for its scale and, now and then, for its newest pod.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agent.core.buffers.buffer import Buffer, Content, LivePod, ScalableRef, Shape, Unresolved
from agent.core.buffers.resolution import is_known_kind, needs_dry_run, scalable_shape, template_shape, unknown_kind
from agent.kube.calls.scale import (
    KindPlace,
    PodMark,
    ReadScale,
    ScalableKinds,
    newest_pod,
    read_live_pod,
    read_scalable,
    read_scale,
)
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.buffer_json import pod_template_from_json
from agent.kube.objects.json_reader import ConvertError
from agent.webhook.buffers.chunk_size import ALLOWED, AS_TEMPLATE, RECOMMENDED, SIZING
from agent.webhook.buffers.dry_run import DryRun, NotTriedError, ShapedBuffer
from agent.webhook.buffers.seams import Sizer
from agent.webhook.buffers.tables import SeenTemplate
from agent.webhook.buffers.watches import Reference, is_newer

CALL_SECONDS: Final = 10.0
LIVE: Final = "live"
"""The first word of a source that is the newest live pod, whichever that is."""
REFUSED_SECONDS: Final = 5.0
"""For so long a reference that came to nothing is not asked about again, unless its source changes."""
_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND, _GONE, _INVALID = 400, 403, 404, 410, 422
_LASTING: Final = frozenset({_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND, _GONE, _INVALID})
"""Answers that asking again at once would not change: they are told in the status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a reference came to, and by what that would be told from another."""

    shape: Shape | Unresolved
    source: tuple[object, ...] = ()
    """Where the shape is from: another one of these is a change that somebody made, and is followed at once."""
    sizing: str | None = None
    """What became of ``plimsoll.dev/buffer-sizing``, in words; None = not asked for."""
    is_final: bool = True
    """False = the size is not known yet: a template that stands is left as it is."""
    is_whole: bool = True
    """False = what the server would add to the shape is not known: a template that has all of it is left as it is."""
    trouble: str | None = None
    """The server did not answer, and this is what was known before; None = it is of now."""
    is_held: bool = False
    """Nothing was known before: what the status says stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    """A PodTemplate as it was when it was shaped."""

    mark: tuple[str, int]
    shape: Shape | Unresolved
    at_seconds: float
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScaledObject:
    """A scalable object as it was when it was looked at."""

    shape: Shape | Unresolved
    at_seconds: float
    pod: PodMark | None = None
    selector: str = ""
    is_whole: bool = True
    digest: str = ""
    """Of a shape from the object's spec: tells the content before the dry run from another."""


class Resolver:
    """Resolves references; see the module's docstring."""

    def __init__(
        self,
        api: Api,
        *,
        kinds: ScalableKinds,
        dry_run: DryRun,
        sizer: Sizer | None,
        template_seen: Callable[[str, str], SeenTemplate | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin; ``template_seen`` returns a PodTemplate that is there by namespace and name, as the watch shows it."""
        self._api, self._kinds, self._dry_run, self._sizer = api, kinds, dry_run, sizer
        self._template_seen, self._clock = template_seen, clock
        self._templates: dict[tuple[str, str], _Template] = {}
        self._scaled: dict[Reference, _ScaledObject] = {}
        self._versions: dict[Reference, str | None] = {}
        """Of each scalable object, the resourceVersion that was read last."""
        self._dirty: set[Reference] = set()
        self._read: set[Reference] = set()
        """Objects that were read, or are being read: their changes matter."""
        self._places: dict[Reference, KindPlace] = {}

    # -- what changes ----------------------------------------------------------------------------------------------

    def changed(self, reference: Reference, version: str | None) -> bool:
        """Record that a scalable object changed, from any thread; False = it is nobody's, or that is known."""
        if reference not in self._read:
            return False
        if version is not None and not is_newer(version, self._versions.get(reference)):
            return False
        self._dirty.add(reference)
        return True

    def keep_only(self, buffers: Iterable[Buffer]) -> Mapping[Reference, KindPlace]:
        """Forget what no buffer refers to any more, and give the scalable objects that buffers do refer to."""
        everyone = list(buffers)
        references = {reference for reference in map(reference_of, everyone) if reference is not None}
        templates = {(buffer.namespace, buffer.template_ref) for buffer in everyone if buffer.template_ref is not None}
        self._scaled = {key: known for key, known in self._scaled.items() if key in references}
        self._versions = {key: version for key, version in self._versions.items() if key in references}
        self._places = {key: place for key, place in self._places.items() if key in references}
        self._templates = {key: known for key, known in self._templates.items() if key in templates}
        self._dirty &= references
        self._read &= references
        return self._places

    def clear(self) -> None:
        """Forget all: somebody else led meanwhile."""
        self._templates.clear()
        self._scaled.clear()
        self._versions.clear()
        self._dirty.clear()
        self._read.clear()

    # -- resolving -------------------------------------------------------------------------------------------------

    def resolve(self, buffer: Buffer, *, not_before: float, is_pod_held: bool) -> Resolution:
        """Find out what the reference of a buffer comes to, whose strategy is ours.

        Args:
            buffer: With a reference.
            not_before: What was found out earlier than this, on the clock, is found out anew.
            is_pod_held: The shape is of a live pod and may not become another's yet: no pods are looked for.

        Raises:
            KubeError: The server did not answer, and nothing is known from before.
        """
        sizing = buffer.annotations.get(SIZING, AS_TEMPLATE)
        if sizing not in (AS_TEMPLATE, RECOMMENDED):
            return Resolution(
                shape=Unresolved(reason=f"annotation {SIZING}: {sizing[:60]!r} is not allowed; allowed: {ALLOWED}")
            )
        if buffer.scalable_ref is not None:
            resolution = self._scalable(buffer, buffer.scalable_ref, not_before=not_before, is_pod_held=is_pod_held)
        elif buffer.template_ref is not None:
            resolution = self._template(buffer.namespace, buffer.template_ref, not_before=not_before)
        else:
            return Resolution(shape=Unresolved(reason="there is no reference"))
        if sizing == RECOMMENDED and isinstance(resolution.shape, Shape):
            return self._sized(buffer, resolution, resolution.shape)
        return resolution

    def _sized(self, buffer: Buffer, resolution: Resolution, shape: Shape) -> Resolution:
        if self._sizer is None:
            return replace(resolution, sizing="not sized: this webhook has no history")
        sized = self._sizer(shape.content, buffer.namespace, buffer.scalable_ref)
        return replace(
            resolution,
            shape=replace(shape, content=sized.content),
            source=(*resolution.source, RECOMMENDED),
            sizing=sized.words,
            is_final=sized.is_final,
        )

    # PodTemplates

    def _template(self, namespace: str, name: str, *, not_before: float) -> Resolution:
        seen, key = self._template_seen(namespace, name), (namespace, name)
        if seen is None:
            self._templates.pop(key, None)
            return Resolution(shape=template_shape(name, None))
        known = self._templates.get(key)
        mark = (seen.uid, seen.generation)
        if known is None or not self._is_usable(known, not_before) or not _is_current(known.mark, mark):
            try:
                known = self._read_template(namespace, name)
            except KubeError as error:
                if _is_lasting(error):
                    return Resolution(shape=Unresolved(reason=words_of(error)))
                if known is None or isinstance(known.shape, Unresolved):
                    raise
                return Resolution(shape=known.shape, source=("template", *known.mark), trouble=str(error))
            if known is None:
                self._templates.pop(key, None)
                return Resolution(shape=template_shape(name, None))
            self._templates[key] = known
        return Resolution(shape=known.shape, source=("template", *known.mark), is_whole=known.is_whole)

    def _read_template(self, namespace: str, name: str) -> _Template | None:
        path = namespaced_path(namespace, "podtemplates", name)
        began = self._clock()
        try:
            document = self._api.call("GET", path, timeout_seconds=CALL_SECONDS)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        metadata = document.get("metadata") if isinstance(document, Mapping) else None
        metadata = metadata if isinstance(metadata, Mapping) else {}
        uid, generation = metadata.get("uid"), metadata.get("generation")
        mark = (uid if isinstance(uid, str) else "", generation if isinstance(generation, int) else 0)
        try:
            _, content = pod_template_from_json(document)
        except ConvertError as error:
            shaped = ShapedBuffer(shape=Unresolved(reason=f"PodTemplate {name} is not understood: {error}"))
        else:
            shaped = self._shaped(template_shape(name, content), namespace)
        return _Template(mark=mark, shape=shaped.shape, at_seconds=began, is_whole=shaped.is_whole)

    # Scalable objects

    def _scalable(self, buffer: Buffer, ref: ScalableRef, *, not_before: float, is_pod_held: bool) -> Resolution:
        reference = (ref.api_group, ref.kind, f"{buffer.namespace}/{ref.name}")
        known = self._scaled.get(reference)
        usable = known if known is not None and self._is_usable(known, not_before) else None
        if usable is not None and reference not in self._dirty:
            return _of_scaled(reference, usable)
        # Before the question: what changes while it is answered counts as a change.
        self._read.add(reference)
        self._dirty.discard(reference)
        try:
            snapshot = self._read_scalable(buffer.namespace, ref, reference, usable, is_pod_held=is_pod_held)
        except KubeError as error:
            if _is_lasting(error):
                return Resolution(shape=Unresolved(reason=words_of(error)))
            self._dirty.add(reference)
            if known is None or isinstance(known.shape, Unresolved):
                raise
            return replace(_of_scaled(reference, known), trouble=str(error))
        except ConvertError as error:
            snapshot = _ScaledObject(
                shape=Unresolved(reason=f"{ref} is not understood: {error}"), at_seconds=self._clock()
            )
        self._scaled[reference] = snapshot
        return _of_scaled(reference, snapshot)

    def _read_scalable(
        self, namespace: str, ref: ScalableRef, reference: Reference, known: _ScaledObject | None, *, is_pod_held: bool
    ) -> _ScaledObject:
        began = self._clock() if known is None else known.at_seconds
        place = self._kinds.place(ref.api_group, ref.kind)
        self._places.pop(reference, None)
        if place is None:
            return _ScaledObject(shape=Unresolved(reason=unknown_kind(ref)), at_seconds=began)
        if place.has_scale or is_known_kind(ref.api_group, ref.kind):
            self._places[reference] = place
        scale: ReadScale | None = None
        if place.has_scale:
            scale = read_scale(self._api, place, namespace, ref.name)
            self._versions[reference] = None if scale is None else scale.version
            if scale is None:
                return _ScaledObject(
                    shape=Unresolved(reason=f"{ref} does not exist in this namespace"), at_seconds=began
                )
        if scale is not None:
            live = self._live(namespace, ref, scale, known, is_pod_held=is_pod_held)
            if live is not None:
                return replace(live, at_seconds=began)
        return self._of_spec(namespace, ref, reference, place, scale, known, began)

    def _live(
        self, namespace: str, ref: ScalableRef, scale: ReadScale, known: _ScaledObject | None, *, is_pod_held: bool
    ) -> _ScaledObject | None:
        selector = scale.facts.selector
        is_same = known is not None and known.pod is not None and known.selector == selector
        if known is not None and is_same and is_pod_held and scale.facts.replicas > 0:
            return _counted(known, scale)
        mark = newest_pod(self._api, namespace, selector)
        if known is not None and is_same and known.pod == mark:
            return _counted(known, scale)
        pod: LivePod | None = None if mark is None else read_live_pod(self._api, namespace, mark.name)
        if mark is None or pod is None:
            return None
        shape = scalable_shape(ref, scale=scale.facts, pods=(pod,), known=None)
        return _ScaledObject(shape=shape, at_seconds=0.0, pod=mark, selector=selector)

    def _of_spec(
        self,
        namespace: str,
        ref: ScalableRef,
        reference: Reference,
        place: KindPlace,
        scale: ReadScale | None,
        known: _ScaledObject | None,
        began: float,
    ) -> _ScaledObject:
        facts = None
        if is_known_kind(ref.api_group, ref.kind):
            read = read_scalable(self._api, place, namespace, ref.name, api_group=ref.api_group, kind=ref.kind)
            facts = None if read is None else read.facts
            self._versions[reference] = None if read is None else read.version
        shape = scalable_shape(ref, scale=None if scale is None else scale.facts, pods=(), known=facts)
        if isinstance(shape, Unresolved):
            return _ScaledObject(shape=shape, at_seconds=began)
        digest = _digest(shape.content)
        if known is not None and known.digest == digest and known.is_whole and isinstance(known.shape, Shape):
            return replace(known, shape=replace(known.shape, scalable_replicas=shape.scalable_replicas))
        shaped = self._shaped(shape, namespace)
        return _ScaledObject(shape=shaped.shape, at_seconds=began, digest=digest, is_whole=shaped.is_whole)

    def _is_usable(self, known: _Template | _ScaledObject, not_before: float) -> bool:
        """Return whether what was found out still holds if its source did not change."""
        if isinstance(known.shape, Unresolved) and known.at_seconds < self._clock() - REFUSED_SECONDS:
            return False  # what refused it may not be watched: a LimitRange, a PriorityClass, another webhook
        return known.at_seconds >= not_before

    def _shaped(self, shape: Shape | Unresolved, namespace: str) -> ShapedBuffer:
        if isinstance(shape, Unresolved) or not needs_dry_run(shape):
            return ShapedBuffer(shape=shape)
        return self._dry_run.shaped(shape, namespace)


def reference_of(buffer: Buffer) -> Reference | None:
    """Return the scalable object that a buffer refers to; None = it refers to none."""
    ref = buffer.scalable_ref
    return None if ref is None else (ref.api_group, ref.kind, f"{buffer.namespace}/{ref.name}")


def _of_scaled(reference: Reference, known: _ScaledObject) -> Resolution:
    # Any newest pod is one source: that another one became it is nobody's order. Another spec is somebody's.
    source = ("spec", *reference, known.digest) if known.digest else (LIVE, *reference)
    return Resolution(shape=known.shape, source=source, is_whole=known.is_whole)


def _digest(content: Content) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def _counted(known: _ScaledObject, scale: ReadScale) -> _ScaledObject:
    shape = known.shape
    if isinstance(shape, Shape):
        shape = replace(shape, scalable_replicas=max(0, scale.facts.replicas))
    return replace(known, shape=shape)


def _is_current(known: tuple[str, int], seen: tuple[str, int]) -> bool:
    """Return whether what was read is not behind the watch; a watch that is behind what was read does not matter."""
    return known[0] == seen[0] and 0 < seen[1] <= known[1]


def _is_lasting(error: KubeError) -> bool:
    return isinstance(error, ApiError) and error.status in _LASTING


def words_of(error: KubeError) -> str:
    """Return why a reference could not be followed."""
    return str(error) if isinstance(error, NotTriedError) else f"it cannot be read: {error}"
