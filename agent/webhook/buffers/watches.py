"""The watches of the CapacityBuffer controller: buffers always, the rest only while there is a buffer.

Webhook. Of PodTemplates and scalable objects only metadata come over the wire, and of the latter nothing is kept: a
change rings a bell where a buffer refers to the object. So a change of nothing but ``status.replicas`` is noticed too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from agent.core.buffers.buffer import GROUP
from agent.kube.calls.listing import read_whole_listing
from agent.kube.calls.scale import KindPlace
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.watch.reflector import Reflector, WatchPace, WatchSource
from agent.kube.watch.watched_objects import ReflectedObjects, compare_versions
from agent.webhook.buffers.seen_buffer import SeenBuffer, seen_buffer
from agent.webhook.buffers.tables import Bell, ByNamespace, seen_quota, template_seen
from agent.webhook.clocks import REAL_CLOCKS, Clocks
from agent.webhook.cluster.optional_watch import AnyWatch, OptionalWatch

log = logging.getLogger(__name__)

T = TypeVar("T")

VERSIONS: Final = ("v1beta1", "v1alpha1")
"""Of the API, the better first; servers with an older autoscaler's CRD have the second alone."""
RESOURCE: Final = "capacitybuffers"
STOP_SECONDS: Final = 0.5
LIST_SECONDS: Final = 10.0
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_NOT_FOUND: Final = 404


class _BufferWatch(OptionalWatch[SeenBuffer]):
    """Buffers, in the best version that the server has and can list: what converts between them may be broken."""

    version: str = VERSIONS[0]
    _failing: frozenset[str] = frozenset()
    """Versions whose lists failed when last tried, which was told."""

    def _ask(self) -> bool:
        served: list[str] = []
        for version in VERSIONS:
            if self._serves(version):
                served.append(version)
                if self._is_followed(version):
                    break  # a worse one is not wanted
        if not served:
            return False
        version = served[0] if len(served) == 1 else self._best(served)
        if version != self.version:
            self.version = version
            self._renew()  # the old version's path may be gone, or go
        return True

    def _serves(self, version: str) -> bool:
        try:
            answer = self._api.call("GET", f"/apis/{GROUP}/{version}")
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return False
            raise
        resources = answer.get("resources") if isinstance(answer, Mapping) else None
        api_resources = resources if isinstance(resources, list) else []
        return any(isinstance(resource, Mapping) and resource.get("name") == RESOURCE for resource in api_resources)

    def _is_followed(self, version: str) -> bool:
        """Return whether this version is watched, and was listed or may yet be."""
        reflector = self._reflector
        if reflector is None or version != self.version:
            return False
        return reflector.is_listed or reflector.trouble is None

    def _best(self, served: Sequence[str]) -> str:
        """Return the best version that is followed or can be listed; the best of all where none is."""
        failing: dict[str, str] = {}
        for version in served:
            cause = None if self._is_followed(version) else self._why_no_list(version)
            if cause is None:
                self._tell_failing(failing)
                return version
            failing[version] = cause
        return served[0]  # its watch says why

    def _why_no_list(self, version: str) -> str | None:
        """Return why a version cannot be listed; None = it can."""
        path = f"/apis/{GROUP}/{version}/{RESOURCE}"
        try:
            read_whole_listing(self._api, path, lambda _: None, query={}, timeout_seconds=LIST_SECONDS)
        except KubeError as error:
            return str(error)
        self._failing -= {version}
        return None

    def _tell_failing(self, failing: Mapping[str, str]) -> None:
        for version, cause in failing.items():
            if version not in self._failing:
                log.warning(
                    "a version of CapacityBuffers cannot be listed: another is read; tried again later",
                    extra={"version": version, "cause": cause},
                )
        self._failing |= frozenset(failing)


Reference = tuple[str, str, str]
"""API group, kind, ``namespace/name`` of a scalable object."""


class BufferWatches:
    """What is known of buffers and of what they go by; answers for any thread, changes by the controller's alone."""

    def __init__(
        self,
        api: Api,
        *,
        on_change: Callable[[str], None],
        on_reference: Callable[[Reference, str | None], None],
        pace: WatchPace | None = None,
        ask_seconds: float = 120.0,
        clocks: Clocks = REAL_CLOCKS,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            on_change: Told of a namespace in which a buffer, a PodTemplate or a quota changed.
            on_reference: Told of an object of such a kind that changed, whoever refers to it, and of its
                resourceVersion; None = it went.
            ask_seconds: Between two questions whether there are buffers at all.
        """
        self._api, self._clocks = api, clocks
        self._pace = pace if pace is not None else WatchPace()
        # What is begun because of a buffer is wanted at once: only one replica of a few begins it.
        self._prompt = replace(self._pace, start_spread_seconds=0.0)
        self._on_reference = on_reference

        def told(namespace: str, _name: str) -> None:
            on_change(namespace)

        self.buffers: Final = ByNamespace(seen_buffer, lambda entry: entry.buffer.namespace, told)
        self.templates: Final = ByNamespace(template_seen, lambda template: template.namespace, told)
        self.quotas: Final = ByNamespace(seen_quota, lambda quota: quota.namespace, told)
        self._buffer_watch: Final = _BufferWatch(
            api,
            name="buffers",
            group_path=f"/apis/{GROUP}/{VERSIONS[0]}",
            resource=RESOURCE,
            kept=self.buffers,
            make=self._watch_buffers,
            clock=clocks.monotonic,
            ask_seconds=ask_seconds,
        )
        self._others: dict[str, AnyWatch] = {}
        """Those that run only while there is a buffer."""
        self._kinds: dict[tuple[str, str], tuple[KindPlace, AnyWatch]] = {}
        self._references: frozenset[Reference] = frozenset()

    @property
    def version(self) -> str:
        """Return the version of the API that buffers are read and written in."""
        return self._buffer_watch.version

    def start(self) -> None:
        """Begin to look for buffers."""
        self._buffer_watch.start()

    def stop(self) -> None:
        """End all watches."""
        # Of copies: a turn of the controller that hangs may go on meanwhile.
        kinds = [watch for _, watch in list(self._kinds.values())]
        running = [self._buffer_watch, *self._others.values(), *kinds]
        for watch in running:
            watch.stop()
        until = time.monotonic() + STOP_SECONDS
        for watch in running:
            watch.join(max(until - time.monotonic(), 0.0))

    @property
    def is_listed(self) -> bool:
        """Return whether all that a pass goes by has been read once."""
        return (
            self._buffer_watch.is_listed
            and bool(self._others)
            and all(watch.is_listed for watch in self._others.values())
        )

    @property
    def has_looked(self) -> bool:
        """Return whether it is known which buffers there are."""
        return self._buffer_watch.is_listed

    def troubles(self) -> tuple[str, ...]:
        """Return which watches do not hear the server, and why."""
        running = (
            ("buffers", self._buffer_watch),
            *self._others.items(),
            *((kind, watch) for (_, kind), (_, watch) in list(self._kinds.items())),
        )
        return tuple(f"{name}: {watch.trouble}" for name, watch in running if watch.trouble is not None)

    def hears(self, api_group: str, kind: str) -> bool:
        """Return whether changes of a kind's objects are noticed."""
        place_and_watch = self._kinds.get((api_group, kind))
        return place_and_watch is not None and place_and_watch[1].is_listed and place_and_watch[1].trouble is None

    # -- what only the controller's thread calls -------------------------------------------------------------------

    def follow_buffers(self) -> None:
        """Begin what goes with buffers when there is one, and end it when there is none."""
        if self.buffers.count() and not self._others:
            self._others = {
                "podtemplates": self._reflector("podtemplates", "/api/v1/podtemplates", self.templates, is_small=True),
                "buffer-quotas": self._reflector("buffer-quotas", "/api/v1/resourcequotas", self.quotas),
            }
            for watch in self._others.values():
                watch.start()
        elif not self.buffers.count() and self._others:
            for watch in self._others.values():
                watch.stop()
            self._others = {}
            self.refer({})

    def refer(self, references: Mapping[Reference, KindPlace]) -> None:
        """Watch the kinds of these objects, and no others."""
        self._references = frozenset(references)
        wanted = {reference[:2]: place for reference, place in references.items()}
        for kind in [key for key, (place, _) in self._kinds.items() if wanted.get(key) != place]:
            self._kinds.pop(kind)[1].stop()
        for kind, place in wanted.items():
            if kind not in self._kinds:
                watch = self._watch_kind(kind, place)
                self._kinds[kind] = (place, watch)
                watch.start()

    def _watch_buffers(self) -> Reflector[SeenBuffer]:
        return self._reflector("buffers", f"/apis/{GROUP}/{self.version}/{RESOURCE}", self.buffers)

    def _watch_kind(self, kind: tuple[str, str], place: KindPlace) -> AnyWatch:
        def referenced() -> list[str]:
            return [key for group, name, key in self._references if (group, name) == kind]

        def ring(key: str, version: str | None) -> None:
            # Of every object of the kind: one that a buffer has just begun to refer to is not among the references yet.
            self._on_reference((*kind, key), version)

        path = f"{place.group_path}/{place.resource}"
        return self._reflector(f"buffers-{place.resource}", path, Bell(ring, referenced), is_small=True)

    def _reflector(self, name: str, path: str, objects: ReflectedObjects[T], *, is_small: bool = False) -> Reflector[T]:
        source = WatchSource(name=name, path=path, read=objects.read, is_same=objects.is_same)
        if is_small:
            source = replace(source, accept_list=METADATA_LIST, accept_watch=METADATA)
        return Reflector(
            self._api,
            source,
            clock=self._clocks.monotonic,
            random=self._clocks.random,
            on_news=lambda: None,
            pace=self._pace if name == "buffers" else self._prompt,
            kept=objects,
        )


def is_newer(version: str | None, known: str | None) -> bool:
    """Return whether a resourceVersion tells of something that the known one does not; in doubt it does."""
    if version is None or known is None:
        return True
    order = compare_versions(version, known)
    return version != known if order is None else order > 0
