"""Whether the whole cluster is paused, from three witnesses: a watch, a mounted file, the webhook. Node.

All three tell the key ``pause`` of the ConfigMap ``plimsoll``. The watch hears a change within a second, and needs the
API server. The kubelet brings it into a file within a minute or two. The webhook's answers come with reports. Any of
them is enough to stop; that a pause has ended is believed of the watch before the other two have heard of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent.core.orders.cluster_rules import LONGEST_PAUSE, PAUSE, pause_reason_of
from agent.kube.client.api import Api
from agent.kube.objects.json_reader import Reader
from agent.kube.watch.reflector import Reflector, WatchCounts, WatchPace, WatchSource

log = logging.getLogger(__name__)

_MOST_BYTES = 8 * LONGEST_PAUSE
OUTDATED_SECONDS: Final = 600.0
"""For so long after a pause ended others may still tell of it: reports are at most ten minutes apart. A watch that was
not heard for longer is no witness where there is a file."""
LONGEST_WAIT_SECONDS: Final = 120.0
"""Between two attempts: an account without the right is refused each time, and the other witnesses do without."""


class PauseWatch:
    """Hears of the ConfigMap's pause as it changes, by a watch of that one object in a thread of its own."""

    def __init__(
        self,
        api: Api,
        place: str,  # The ConfigMap: NAMESPACE/NAME
        *,
        clock: Callable[[], float],  # Monotonic seconds
        random: Callable[[], float],
        on_news: Callable[[], None],  # Called after the pause began, changed or ended; from the watching thread
        pace: WatchPace,
    ) -> None:
        namespace, _, name = place.partition("/")
        self._clock, self._on_news = clock, on_news
        self._before: str | None = None
        self._ended: tuple[tuple[str, float], ...] = ()
        """Pauses that ended lately, each with when; replaced whole, as other threads read it."""
        self.reflector: Final = Reflector(
            api,
            WatchSource(
                name="pause",
                path=f"/api/v1/namespaces/{namespace}/configmaps",
                # Of one name, so that the right to this one object is enough.
                query={"fieldSelector": f"metadata.name={name}"},
                read=_pause_of,
                is_same=lambda reason, other: reason == other,
            ),
            clock=clock,
            random=random,
            on_news=self._changed,
            pace=replace(pace, longest_wait_seconds=max(pace.longest_wait_seconds, LONGEST_WAIT_SECONDS)),
        )

    @property
    def is_listed(self) -> bool:
        """Return whether it was ever heard."""
        return self.reflector.is_listed

    @property
    def is_heard(self) -> bool:
        """Return whether the server was heard lately enough to be believed, whatever others say."""
        age = self.reflector.age_seconds
        return age is not None and age <= OUTDATED_SECONDS

    @property
    def trouble(self) -> str | None:
        """Return why the server is not heard; None = it is."""
        return self.reflector.trouble

    @property
    def counts(self) -> WatchCounts:
        """Return what happened since the start."""
        return self.reflector.counts

    def reason(self) -> str | None:
        """Return why the cluster is paused, by what was heard last; None = it is not, or nothing was heard yet."""
        reasons, faults = self.reflector.kept.values_and_faults()
        if faults:
            return f"whether it is cannot be read: {faults[0]}"
        return next(iter(reasons), "") or None

    def has_ended(self, reason: str) -> bool:
        """Return whether a pause that another witness tells of is one whose end this watch has heard lately.

        While the server is not heard it is not believed: the same words may have been put there again.
        """
        now = self._clock()
        is_live = self.trouble is None and self.is_heard
        return is_live and any(ended == reason and now - when <= OUTDATED_SECONDS for ended, when in self._ended)

    def _changed(self) -> None:
        """Remember what ended; on the watching thread."""
        now, before, reason = self._clock(), self._before, self.reason()
        endings = [(ended, when) for ended, when in self._ended if now - when <= OUTDATED_SECONDS and ended != reason]
        if before is not None and before != reason:
            endings.append((before, now))
        self._before, self._ended = reason, tuple(endings)
        if before != reason:
            log.info("the cluster's pause has changed", extra={"reason": reason})
            self._on_news()


class ClusterPause:
    """All witnesses as one; may be asked from any thread, and reads the file each time."""

    def __init__(
        self,
        # Holds the pause, where there is one; its folder is there in any case. None = there is none such.
        file: Path | None,
        *,
        told: Callable[[], str | None],  # Gives the pause that the webhook told of; None = it told of none
        watch: PauseWatch | None = None,  # None = the ConfigMap is not watched
    ) -> None:
        self._file, self._told, self._watch = file, told, watch

    def reason(self) -> str | None:
        """Return why the whole cluster is paused; None = it is not. What cannot be read may be one, and so it is."""
        watch = self._watch
        if watch is None:
            return self._of_file() or self._told()
        seen = watch.reason()
        if seen is not None and (watch.is_heard or self._file is None):
            return seen
        for reason in (self._of_file(), self._told()):
            if reason is not None and not watch.has_ended(reason):
                return reason
        if self._file is None and not watch.is_listed:
            return f"whether it is was not heard yet: {watch.trouble or 'the ConfigMap is being read'}"
        return None

    def _of_file(self) -> str | None:
        if self._file is None:
            return None
        try:
            with self._file.open("rb") as file:
                text = file.read(_MOST_BYTES).decode(errors="replace")
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self._file.parent.is_dir():
                return None
            return f"whether it is cannot be read: {error.strerror}: {self._file}"
        return pause_reason_of(text)


def _pause_of(document: object) -> str:
    """Return the pause of a ConfigMap; empty = it says none."""
    return pause_reason_of(Reader(document, "").texts("data").get(PAUSE, "")) or ""
