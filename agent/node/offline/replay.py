"""A node as a recording has it at one moment: any policy, with any options, may be asked about it again.

Node. It calls core and holds no rule. What the policy knows is the history that was taken along, up to the moment; what
the windows say is of the recorded readings.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final

import numpy as np

from agent.core.cluster.pod_index import Belonging
from agent.core.cluster.unit import UnitIdentity
from agent.core.history.minute.key import parse_history_key
from agent.core.history.minute.minute_codec import Codes
from agent.core.history.minute.minutes import Minutes, from_codes
from agent.node.history.clock import MINUTE_SECONDS, HistoryClock
from agent.node.history.file import HistoryError, HistoryFile
from agent.node.offline.recorded_rows import RecordedRows
from agent.node.offline.recording import Recording
from agent.node.offline.recording_format import Manifest, RecordingError
from agent.node.recommender.loop import MINUTE_DELAY_NS
from agent.node.recommender.still_node import StillMeasured, StillNode
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from agent.settings import Settings
from agent.settings.keys import keys
from agent.settings.sections import WindowSettings

NS: Final = 1_000_000_000
MINUTE_NS: Final = MINUTE_SECONDS * NS
FINEST_NS: Final = 10_000
BACKFILL_SECONDS: Final = 720.0
"""So much of the readings is read at least: minutes that nobody summed up are made of them."""


def recorded_settings(manifest: Manifest) -> dict[str, object]:
    """Return what the recorder had set as settings, so far as they are known here: key, ``__`` for its dot -> value.

    Raises:
        ValueError: One of them is not allowed; the message names it.
    """
    settings: dict[str, object] = {f"windows__{name}": value for name, value in manifest.windows.items()}
    # What is a gap is measured by the time between two rows.
    settings["sampling__intervalSeconds"] = manifest.interval_seconds
    settings["sampling__slowIntervalSeconds"] = manifest.slow_interval_seconds
    known = keys()
    chosen = {name.replace("__", "."): value for name, value in settings.items()}
    for key in chosen.keys() & known.keys():
        try:
            known[key].to_value(chosen[key], is_text=False)
        except ValueError as error:
            raise ValueError(f"{key}: {chosen[key]} is not allowed; allowed: {known[key].allowed()}") from error
    return {name: value for name, value in settings.items() if name.replace("__", ".") in known}


def utc(unix_seconds: float) -> str:
    """Write a moment for people."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ReplayedNode(StillNode):
    """Answers as of a moment of a recording; holds nothing open."""

    def __init__(
        self,
        recording: Recording,  # It may be closed afterwards
        settings: Settings,  # Policy, options, bounds and windows; those of the recorder are `recorded_settings`
        *,
        at_unix_seconds: float | None = None,  # The moment, by the recorded wall clock; None = the newest reading
    ) -> None:
        """Read what the moment needs and let the policy learn.

        Raises:
            RecordingError: It is damaged, or the moment lies outside it.
        """
        manifest = recording.manifest
        end_ns = _moment(recording, at_unix_seconds)
        learnt_until_ns = end_ns - MINUTE_DELAY_NS  # as the agent had: it sums a minute up a little later
        windows = settings.windows
        rows = RecordedRows(
            recording,
            until_monotonic_ns=end_ns,
            learnt_until_ns=learnt_until_ns,
            cpu_seconds=max(windows.cpu_window_seconds + windows.rate_window_seconds, BACKFILL_SECONDS),
            memory_seconds=max(windows.memory_window_seconds, BACKFILL_SECONDS),
        )
        units = UnitTable()
        pods = _Pods()
        for number, unit in enumerate(manifest.units):
            was_gone = unit.gone_monotonic_ns is not None and unit.gone_monotonic_ns < end_ns
            if was_gone or not rows.has(number):
                continue
            facts = unit.facts_at(end_ns)
            pods.put(facts.identity, facts.belonging)
            units.put(WatchedUnit(slot=number, inode=unit.inode, identity=facts.identity, resources=facts.resources))
        clock = HistoryClock(
            newest_unix_minute=None,
            offset_minutes=manifest.history_offset_minutes,
            wall=lambda: manifest.wall_offset_seconds + end_ns / NS,
            monotonic_ns=lambda: end_ns,
        )
        history = _history(recording, clock, learnt_until_ns=learnt_until_ns)
        with ExitStack() as undone:
            undone.callback(history.close)
            super().__init__(
                settings=settings,
                measured=StillMeasured(
                    rows=rows,
                    units=units,
                    history=history,
                    pods=pods,
                    clock=clock,
                    end_monotonic_ns=end_ns,
                    interval_seconds=manifest.interval_seconds,
                    slow_interval_seconds=manifest.slow_interval_seconds,
                ),
                node=manifest.node,
                capacity_millicores=manifest.cpus * 1000,
                source=recording.path.name,
                notes=(*manifest.notes, *_short_windows(manifest, windows, end_ns)),
            )
            self.learn_minutes(until_monotonic_ns=learnt_until_ns)
            undone.pop_all()
        self._history: Final = history

    def close(self) -> None:
        """Release the memory; a second call is fine."""
        self._history.close()


class _Pods:
    """What the recorder knew of pods; satisfies ``learning.PodFacts``."""

    def __init__(self) -> None:
        self._by_path: dict[str, Belonging] = {}

    def put(self, identity: UnitIdentity, belonging: Belonging) -> None:
        self._by_path[identity.cgroup_path] = belonging

    def belonging(self, identity: UnitIdentity) -> Belonging:
        return self._by_path[identity.cgroup_path]


def _moment(recording: Recording, at_unix_seconds: float | None) -> int:
    """Return the moment on CLOCK_MONOTONIC; ns."""
    manifest = recording.manifest
    if at_unix_seconds is None:
        return manifest.ended_monotonic_ns
    # UTC seconds in a float are known to a microsecond at best.
    end_ns = round((at_unix_seconds - manifest.wall_offset_seconds) * NS / FINEST_NS) * FINEST_NS
    # To the second, as people name moments: the last one of a recording is inside it.
    if not manifest.begun_monotonic_ns - NS < end_ns < manifest.ended_monotonic_ns + NS:
        inside = f"{utc(manifest.begun_unix_seconds)} to {utc(manifest.ended_unix_seconds)}"
        raise RecordingError(
            f"recording {recording.path}: {utc(at_unix_seconds)} lies outside its readings; allowed: {inside}"
        )
    return end_ns


def _short_windows(manifest: Manifest, windows: WindowSettings, end_ns: int) -> list[str]:
    """Return a warning where the CPU window of the moment reaches back to before the readings."""
    before_seconds = (end_ns - manifest.begun_monotonic_ns) / NS
    if before_seconds > windows.cpu_window_seconds - manifest.interval_seconds:
        return []
    return [
        f"the recording has {before_seconds:.0f} s of readings before this moment: "
        f"windows are shorter than the {windows.cpu_window_seconds:g} s set"
    ]


def _history(recording: Recording, clock: HistoryClock, *, learnt_until_ns: int) -> HistoryFile:
    """Return the history as it was, in memory."""
    manifest = recording.manifest
    stored = recording.history()
    history = HistoryFile.open(None, max_rows=max(len(manifest.histories) + len(manifest.units), 1))
    with ExitStack() as undone:
        undone.callback(history.close)
        try:
            rows = [history.row_of(parse_history_key(text)) for text in manifest.histories]
            for unix_minute, codes in zip(stored.unix_minutes.tolist(), stored.codes, strict=True):
                if (unix_minute - clock.unix_minute(0) + 1) * MINUTE_NS > learnt_until_ns:
                    break
                whole: Codes = np.zeros((codes.shape[0], history.rows), dtype=np.uint16)
                whole[:, rows] = codes
                history.append(_to_minutes(unix_minute, whole))
            for recorded_kill in manifest.kills:
                if recorded_kill.kill.unix_seconds <= clock.now():
                    history.record_oom(rows[recorded_kill.history], recorded_kill.kill)
        except (ValueError, IndexError, HistoryError) as error:
            raise RecordingError(f"recording {recording.path}: damaged: its history: {error}") from error
        undone.pop_all()
    return history


def _to_minutes(unix_minute: int, codes: Codes) -> Minutes:
    """Return the minute that codes of shape ``(3, n)`` stand for."""
    amounts, has = from_codes(codes)
    return Minutes(
        unix_minute=unix_minute,
        cpu_usage_millicores=amounts[0],
        cpu_peak_millicores=amounts[1],
        has_cpu=has[0],
        working_set_bytes=amounts[2],
        has_memory=has[2],
    )
