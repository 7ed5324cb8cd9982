"""What the webhook told this node, kept over restarts: one JSON file in the state directory, replaced whole. Node.

The thread that reports hands each answer over; whoever plans, decides or acts asks for what holds now. Where a webhook
is configured and has never told anything (or what it told is damaged), nothing is known of HPAs and VPAs: acting waits
for the first answer (``barriers``). What was told holds over any outage, as ``core.directed`` says for how long.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import DIRECTIVES_VERSION, Directives, WorkloadDirective
from agent.core.history.reports.directive_json import (
    DirectiveTextError,
    directives_from_json,
    directives_to_json,
    etag_from,
    is_restraint,
)
from agent.core.numbers.document_text import decoded, json_value
from agent.core.plan.needs.directives import NOTHING_TOLD, NodeDirectives, by_workload
from agent.named_file import DOCUMENT_MOST_BYTES, read_named
from agent.node.files.atomic_write import replace_file

log = logging.getLogger(__name__)

FILE_NAME: Final = "directives"
CONFIRMED_KEPT_SECONDS: Final = 900.0
"""That the webhook still says the same is written at most so often: it tells an age after a restart, no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DirectiveSet:
    """One set of directives; replaced whole, never changed."""

    directives: Directives
    by_workload: Mapping[Workload, WorkloadDirective]
    told_unix_seconds: float
    confirmed_unix_seconds: float


class Directions:
    """Takes answers and tells what holds; see the module's docstring. Any thread; asking never waits."""

    def __init__(
        self,
        path: Path | None,  # The file; None = memory only
        *,
        is_expected: bool,  # A webhook is configured. Without one a file that is left over is not looked at.
        now: Callable[[], float],  # Unix seconds of a clock that believes no jump
        changed: Callable[[], None] = lambda: None,  # Called after other directives than before have come
    ) -> None:
        self._path, self._now = path, now
        self.is_expected: Final = is_expected
        self.changed = changed
        self.fault: str | None = None
        """Why the newest answer was not taken, or is in memory only; None = all is well."""
        self._lock = threading.Lock()
        self._kept_unix_seconds: float | None = None
        """When the file was last written; None = it does not hold what is in memory."""
        self._told = self._read(path) if is_expected and path is not None else None

    # -- asked by other parts --------------------------------------------------------------------------------------

    @property
    def etag(self) -> str | None:
        """Return what to ask with (If-None-Match); None = nothing is held."""
        directive_set = self._told
        return None if directive_set is None else directive_set.directives.etag

    @property
    def is_awaited(self) -> bool:
        """Return whether a webhook is configured that has told nothing yet: who may be touched is not known."""
        return self.is_expected and self._told is None

    def now(self) -> NodeDirectives:
        """Return what holds, with its age at this moment."""
        directive_set = self._told
        if directive_set is None:
            return NOTHING_TOLD
        now = self._now()
        return NodeDirectives(
            directives=directive_set.directives,
            age_seconds=max(0.0, now - directive_set.confirmed_unix_seconds),
            told_seconds=max(0.0, now - directive_set.told_unix_seconds),
            by_workload=directive_set.by_workload,
        )

    def workloads(self) -> Collection[Workload]:
        """Return the workloads that the newest answer spoke of."""
        directive_set = self._told
        return () if directive_set is None else directive_set.by_workload.keys()

    def pause_reason(self) -> str | None:
        """Return why the cluster is paused, as far as this node was told; None = it is not."""
        directive_set = self._told
        return None if directive_set is None else directive_set.directives.pause_reason

    def notes(self) -> tuple[str, ...]:
        """Return what is degraded or held, one sentence each."""
        if not self.is_expected:
            return ()
        directed, notes = self.now(), []
        if directed.directives is None:
            notes.append("the webhook has told nothing yet: who is scaled by an HPA or sized by a VPA is not known")
        elif directed.is_stale:
            age = f"{directed.age_seconds / 3600:.0f} h"
            notes.append(f"the webhook has told nothing for {age}: what it said of HPAs, VPAs and pauses still holds")
        if directed.directives is not None and directed.directives.left_out:
            left_out = directed.directives.left_out
            notes.append(f"directives: {left_out} values were too many or not understood and are left out")
        if self.fault is not None:
            notes.append(f"directives: {self.fault}")
        return tuple(notes)

    # -- told by the thread that reports ---------------------------------------------------------------------------

    def take(self, answer: object) -> None:
        """Record the answer to a report; never raises. What is not understood changes nothing, and is said once.

        Args:
            answer: What ``json.loads`` made of the body: ``etag`` and ``directives``, where null means that what this
                node holds under that ETag is still right. Text says why there is none.
        """
        try:
            etag, value = _parts(answer)
            directives = None if value is None else directives_from_json(value, etag=etag)
        except DirectiveTextError as error:
            self._complain(f"not understood, what was told before holds: {error}")
            self._pause(error.pause_reason)
            return
        with self._lock:
            before, now = self._told, self._now()
            if directives is not None:
                after = _directive_set(_with_restraints_kept(directives, before), now, now)
            elif before is not None and etag == before.directives.etag:
                after = _DirectiveSet(
                    directives=before.directives,
                    by_workload=before.by_workload,
                    told_unix_seconds=before.told_unix_seconds,
                    confirmed_unix_seconds=now,
                )
            else:
                return  # the webhook does not know yet what to tell
            self._told = after
            saved_seconds = self._kept_unix_seconds
            is_due = directives is not None or saved_seconds is None or now - saved_seconds >= CONFIRMED_KEPT_SECONDS
            if not is_due or self._keep(after, now):
                self.fault = None
        if before is None or directives is not None:
            self.changed()

    def _pause(self, reason: str | None) -> None:
        """Take the pause of an answer of which nothing else is understood; its end is told by one that is."""
        with self._lock:
            directive_set = self._told
            if reason is None or directive_set is None:  # before the first answer nothing is written at all
                return
            self._told = replace(directive_set, directives=replace(directive_set.directives, pause_reason=reason))
        self.changed()

    def _complain(self, fault: str) -> None:
        if self.fault != fault:
            log.warning("directives", extra={"cause": fault})
        self.fault = fault

    # -- the file --------------------------------------------------------------------------------------------------

    def _keep(self, directive_set: _DirectiveSet, now: float) -> bool:
        """Write the file; False = the disk does not take it."""
        if self._path is None:
            return True
        document = {
            "format": "plimsoll-directives",
            "version": DIRECTIVES_VERSION,
            "etag": directive_set.directives.etag,
            "toldUnixSeconds": directive_set.told_unix_seconds,
            "confirmedUnixSeconds": directive_set.confirmed_unix_seconds,
            "directives": directives_to_json(directive_set.directives),
        }
        try:
            replace_file(self._path, json.dumps(document, separators=(",", ":"), allow_nan=False).encode())
        except OSError as error:
            self._kept_unix_seconds = None
            self._complain(f"{self._path} cannot be written ({error.strerror or error}): a restart forgets them")
            return False
        self._kept_unix_seconds = now
        return True

    def _read(self, path: Path) -> _DirectiveSet | None:
        """Read the file back; None = there is none, or none that can be believed."""
        try:
            directive_set = _from_file(json_value(decoded(read_named(path, most_bytes=DOCUMENT_MOST_BYTES))))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:  # DirectiveTextError is a ValueError
            self._complain(f"{path} is not read ({' '.join(str(error).split())[:200]}): waiting for the webhook")
            return None
        self._kept_unix_seconds = directive_set.confirmed_unix_seconds
        return directive_set


def _with_restraints_kept(directives: Directives, before: _DirectiveSet | None) -> Directives:
    """Keep the restraints told before of workloads that are not told of, where not all could be read."""
    if not directives.left_out or before is None:
        return directives
    named = {entry.workload for entry in directives.workloads}
    restraints = (entry for entry in before.directives.workloads if is_restraint(entry) and entry.workload not in named)
    return replace(directives, workloads=(*directives.workloads, *restraints))


def _directive_set(directives: Directives, told_unix_seconds: float, confirmed_unix_seconds: float) -> _DirectiveSet:
    return _DirectiveSet(
        directives=directives,
        by_workload=by_workload(directives),
        told_unix_seconds=told_unix_seconds,
        confirmed_unix_seconds=confirmed_unix_seconds,
    )


def _parts(answer: object) -> tuple[str, object]:
    if isinstance(answer, str):
        raise DirectiveTextError(answer)
    if not isinstance(answer, Mapping):
        raise DirectiveTextError(f"the answer is {type(answer).__name__}, not an object")
    value = answer.get("directives")
    etag = answer.get("etag")
    return etag_from("" if etag is None and value is None else etag, "etag"), value


def _from_file(document: object) -> _DirectiveSet:
    if not isinstance(document, Mapping):
        raise DirectiveTextError("not an object")
    if document.get("format") != "plimsoll-directives" or document.get("version") != DIRECTIVES_VERSION:
        raise DirectiveTextError(f"version: {document.get('version')!r} is not {DIRECTIVES_VERSION}")
    seconds = []
    for key in ("toldUnixSeconds", "confirmedUnixSeconds"):
        value = document.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
            raise DirectiveTextError(f"{key}: {value!r} is not Unix seconds")
        seconds.append(float(value))
    directives = directives_from_json(document.get("directives"), etag=etag_from(document.get("etag"), "etag"))
    return _directive_set(directives, *seconds)
