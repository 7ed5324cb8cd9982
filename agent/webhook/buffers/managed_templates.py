"""What is known of managed templates: what stands, what was written last, which may not become another yet. Webhook.

For the controller's thread. The watch shows metadata alone; a template is read once, and again when its generation has
moved by another hand than ours.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.core.buffers.buffer import Buffer, Content, ManagedTemplate, OrderKind, Shape, TemplateOrder
from agent.core.buffers.template import managed_template_name
from agent.kube.objects.json_reader import ConvertError
from agent.webhook.buffers.resolver import LIVE, Resolution
from agent.webhook.buffers.tables import SeenTemplate

log = logging.getLogger(__name__)

WORTH_A_LIST: Final = 3
"""So many templates of one namespace are read together: after a restart all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rewrite:
    """The last rewrite of a managed template."""

    source: tuple[object, ...]
    period_seconds: float
    """Which stretch between two full looks it was in: when that began."""


class ManagedTemplates:
    """The managed templates by name: what the watch shows, and what was written last."""

    def __init__(
        self,
        seen: Callable[[str, str], SeenTemplate | None],
        read: Callable[[Buffer, str], ManagedTemplate | None],
        read_all: Callable[[str], Mapping[str, ManagedTemplate]],
    ) -> None:
        """Begin with nothing.

        Args:
            seen: Returns a PodTemplate by namespace and name, as the watch shows it.
            read: Reads what stands under the name of a buffer's managed template.
            read_all: Reads all managed templates of a namespace, by name.
        """
        self._seen, self._read, self._read_all = seen, read, read_all
        self._known: dict[str, dict[str, tuple[str, ManagedTemplate]]] = {}
        """By namespace and name: uid, and what stood when it was read or written last. Without a uid: written just
        now, and the watch has not shown it yet."""
        self._wanted: dict[tuple[str, str], tuple[str, int]] = {}
        """By namespace and buffer: what was written last, and the generation that it became. The server adds defaults,
        so what stands may differ from it for good."""
        self._rewrites: dict[tuple[str, str], _Rewrite] = {}
        self._periods: dict[str, float] = {}

    def clear(self) -> None:
        """Forget all: somebody else led meanwhile."""
        self._known.clear()
        self._wanted.clear()
        self._rewrites.clear()
        self._periods.clear()

    def keep_only(self, namespace: str, buffers: frozenset[str]) -> None:
        """Forget what is of other buffers of a namespace than these."""
        for key in [key for key in self._wanted if key[0] == namespace and key[1] not in buffers]:
            del self._wanted[key]
        for key in [rewrite for rewrite in self._rewrites if rewrite[0] == namespace and rewrite[1] not in buffers]:
            del self._rewrites[key]
        if not buffers:
            self._known.pop(namespace, None)
            self._periods.pop(namespace, None)
            return
        templates = {managed_template_name(name) for name in buffers}
        known = self._known.get(namespace, {})
        for name in [name for name in known if name not in templates]:
            del known[name]

    def begin(self, namespace: str, period_seconds: float) -> None:
        """Begin to look at a namespace, in the stretch that began then: in each a template may be rewritten once."""
        if self._periods.get(namespace) != period_seconds:
            self._periods[namespace] = period_seconds
            known = self._known.get(namespace, {})
            for name in [name for name, (uid, _) in known.items() if not uid]:
                del known[name]  # the watch should have shown it long ago

    def standing(self, namespace: str, buffers: Sequence[Buffer]) -> dict[str, ManagedTemplate]:
        """Return what stands under the names of managed templates; what is known already is not read again."""
        standing: dict[str, ManagedTemplate] = {}
        missing: dict[str, tuple[Buffer, SeenTemplate]] = {}
        cached = self._known.setdefault(namespace, {})
        for buffer in buffers:
            name = managed_template_name(buffer.name)
            if name in standing or name in missing:
                continue
            seen, known = self._seen(namespace, name), cached.get(name)
            if known is not None and known[1].owner_uid == buffer.uid and _is_right(seen, known):
                standing[name] = known[1]
                if seen is not None:
                    cached[name] = (seen.uid, known[1])
                continue
            cached.pop(name, None)
            if seen is not None:
                missing[name] = (buffer, seen)
        listed = self._read_all(namespace) if len(missing) >= WORTH_A_LIST else {}
        for name, (buffer, seen) in missing.items():
            template = listed.get(name)
            if template is None or template.owner_uid != buffer.uid or not _is_right(seen, ("", template)):
                template = self._read_one(buffer, name)
            if template is not None:
                cached[name] = (seen.uid, template)
                standing[name] = template
        return standing

    def _read_one(self, buffer: Buffer, name: str) -> ManagedTemplate | None:
        try:
            return self._read(buffer, name)
        except ConvertError as error:
            log.warning("a managed template is not understood", extra={"template": name, "cause": str(error)})
            return None

    def is_pod_held(self, buffer: Buffer) -> bool:
        """Return whether the shape became that of another live pod in this stretch already."""
        rewrite = self._rewrites.get((buffer.namespace, buffer.name))
        is_of_now = rewrite is not None and rewrite.period_seconds == self._periods.get(buffer.namespace)
        return is_of_now and rewrite is not None and rewrite.source[:1] == (LIVE,)

    def unwritable(
        self, namespace: str, resolved: Mapping[str, Resolution], templates: Mapping[str, ManagedTemplate]
    ) -> frozenset[str]:
        """Return the buffers whose template stays as it stands: nobody ordered another, or not all of it is known."""
        names = set()
        for name, resolution in resolved.items():
            standing = templates.get(managed_template_name(name))
            if standing is None:
                continue
            rewrite = self._rewrites.get((namespace, name))
            was_rewritten = (
                rewrite is not None
                and rewrite.period_seconds == self._periods.get(namespace)
                and rewrite.source == resolution.source
            )
            is_in_it = (
                not resolution.is_whole
                and isinstance(resolution.shape, Shape)
                and is_within(resolution.shape.content, standing.content)
            )
            if was_rewritten or is_in_it or not resolution.is_final:
                names.add(name)
        return frozenset(names)

    def is_as_written(self, order: TemplateOrder, standing: ManagedTemplate | None) -> bool:
        """Return whether an order is what was written last, and nobody touched it since."""
        key = (order.buffer.namespace, order.buffer.name)
        return standing is not None and self._wanted.get(key) == (_digest(order.content), standing.generation)

    def wrote(self, order: TemplateOrder, template: ManagedTemplate, resolved: Resolution | None) -> None:
        """Record that an order was carried out."""
        namespace, name = order.buffer.namespace, order.template_name
        key = (namespace, order.buffer.name)
        known = self._known.setdefault(namespace, {})
        uid = "" if order.kind is OrderKind.CREATE else known.get(name, ("", template))[0]
        known[name] = (uid, template)
        self._wanted[key] = (_digest(order.content), template.generation)
        if order.kind is OrderKind.REPLACE and resolved is not None:
            self._rewrites[key] = _Rewrite(source=resolved.source, period_seconds=self._periods.get(namespace, 0.0))


def _is_right(seen: SeenTemplate | None, known: tuple[str, ManagedTemplate]) -> bool:
    """Return whether what is known of a managed template is not behind the watch."""
    uid, template = known
    if seen is None:
        return not uid
    return uid in ("", seen.uid) and 0 < seen.generation <= template.generation


def is_within(part: object, whole: object) -> bool:
    """Return whether a JSON value has nothing that another one lacks: members by name, items of lists by place."""
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(is_within(member, whole.get(key)) for key, member in part.items())
    if isinstance(part, list):
        is_long_enough = isinstance(whole, list) and len(part) <= len(whole)
        return is_long_enough and all(map(is_within, part, whole if isinstance(whole, list) else ()))
    return part is None or part == whole


def _digest(content: Content) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
