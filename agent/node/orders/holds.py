"""What people have ordered at this node, and what must be known to undo what the agent did: pause, pins, originals.

Node. One JSON file, replaced whole, read strictly. A pause that is lost would start writing again, so a file that is
damaged, or cannot be read, means paused: it is kept under another name, and a person looks at it and resumes. For the
same reason an order that has an end lasts until both the wall clock and the time since boot are past it: a wall clock
that jumps ends none. After the machine was started anew the wall clock is all there is.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agent.core.cluster.pod import Pod, PodRef
from agent.core.numbers.document_text import decoded, json_value
from agent.core.resize.originals import Original, original_of
from agent.named_file import DOCUMENT_MOST_BYTES, read_named
from agent.node.files.atomic_write import replace_file
from agent.node.files.documents import Document, DocumentFormatError
from agent.node.files.steady_clock import BootClock, BootMoment

log = logging.getLogger(__name__)

FILE_NAME: Final = "holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Nothing is written on this node."""

    since_unix_seconds: float
    until_unix_seconds: float | None
    """None = until somebody resumes."""
    until_boot: BootMoment | None = None
    """The same end in the time since boot; None = the wall clock alone counts."""
    reason: str = ""
    """Why, where it was no person's wish; one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One pod is left alone."""

    ref: PodRef
    since_unix_seconds: float
    until_unix_seconds: float | None
    """None = until somebody unpins it."""
    until_boot: BootMoment | None = None
    """As of a pause."""
    promised_steps: int = 0
    """Of a restore that was asked for while a resize was under way: so many steps at most are still sent after it."""
    promised_unix_seconds: float | None = None
    """When that was asked for last; None = never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOrders:
    """All of it; the content of the file."""

    pause: Pause | None = None
    pins: tuple[Pin, ...] = ()
    originals: tuple[Original, ...] = ()


_HELD: Final = Document(HeldOrders, "holds", 1)


class Holds:
    """Pause, pins and originals of one node. Every method may be called from any thread; reading never waits."""

    def __init__(
        self,
        path: Path | None,  # The file. None = memory only.
        *,
        now_unix_seconds: float,  # Wall clock, for the pause that a damaged file means
        boot: BootClock | None = None,  # The time since boot; None = orders end by the wall clock alone
        # Gives why the whole cluster is paused; None = it is not. Nobody here can end such a pause.
        of_cluster: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._of_cluster = of_cluster
        self._path = path
        self._boot = boot
        self._lock = threading.Lock()
        self._fault: str | None = None
        self._is_unread = False
        """The file may be whole, and could not be read: the first order must not take its place."""
        self._held = HeldOrders() if path is None else self._read(path, now_unix_seconds)
        """Replaced whole, never changed: whoever reads it needs no lock."""

    @property
    def fault(self) -> str | None:
        """Return why the newest orders are kept in memory only; None = they are kept as they should be."""
        return self._fault

    # -- pause -----------------------------------------------------------------------------------------------------

    def is_paused(self, now_unix_seconds: float) -> bool:
        """Return whether nothing may be written."""
        return self.paused(now_unix_seconds) is not None

    def paused(self, now_unix_seconds: float) -> Pause | None:
        """Return the pause that is in force, the node's own before the cluster's; None = there is none."""
        reason = self._of_cluster()
        own = self._own_pause(now_unix_seconds)
        if own is not None or reason is None:
            return own
        explanation = f"the whole cluster is, by its ConfigMap: {reason}"
        return Pause(since_unix_seconds=now_unix_seconds, until_unix_seconds=None, reason=explanation)

    def cluster_pause(self) -> str | None:
        """Return why the whole cluster is paused; None = it is not. ``resume`` does not end it."""
        return self._of_cluster()

    def _own_pause(self, now_unix_seconds: float) -> Pause | None:
        pause = self._held.pause
        return pause if pause is not None and self._lasts(pause, now_unix_seconds) else None

    def pause(self, until_unix_seconds: float | None, *, now_unix_seconds: float) -> Pause | None:
        """Pause, at once, until a moment or until somebody resumes; give the pause that it takes the place of."""
        before = self._own_pause(now_unix_seconds)
        since = now_unix_seconds if before is None else before.since_unix_seconds
        pause = Pause(
            since_unix_seconds=since,
            until_unix_seconds=until_unix_seconds,
            until_boot=self._boot_end(until_unix_seconds, now_unix_seconds),
        )
        self._change(lambda held: replace(held, pause=pause))
        return before

    def resume(self, *, now_unix_seconds: float) -> Pause | None:
        """End the node's own pause; give it, None = there was none."""
        before = self._own_pause(now_unix_seconds)
        self._change(lambda held: replace(held, pause=None))
        return before

    # -- pins ------------------------------------------------------------------------------------------------------

    def pin(self, ref: PodRef, until_unix_seconds: float | None, *, now_unix_seconds: float) -> Pin | None:
        """Leave a pod alone until a moment or until it is unpinned; give the pin that it takes the place of."""
        before = next((pin for pin in self.pins(now_unix_seconds) if pin.ref.uid == ref.uid), None)
        new = Pin(
            ref=ref,
            since_unix_seconds=now_unix_seconds if before is None else before.since_unix_seconds,
            until_unix_seconds=until_unix_seconds,
            until_boot=self._boot_end(until_unix_seconds, now_unix_seconds),
        )

        def pinned(held: HeldOrders) -> HeldOrders:
            old = next((pin for pin in held.pins if pin.ref.uid == ref.uid), new)
            pin = replace(new, promised_steps=old.promised_steps, promised_unix_seconds=old.promised_unix_seconds)
            return replace(held, pins=(*_without(held.pins, ref.uid), pin))

        self._change(pinned)
        return before

    def unpin(self, uid: str, *, now_unix_seconds: float) -> Pin | None:
        """Let a pod be sized again; give its pin, None = it had none."""
        before = next((pin for pin in self.pins(now_unix_seconds) if pin.ref.uid == uid), None)
        self._change(lambda held: replace(held, pins=_without(held.pins, uid)))
        return before

    def pins(self, now_unix_seconds: float) -> tuple[Pin, ...]:
        """Return the pins in force, the oldest first."""
        return tuple(pin for pin in self._held.pins if self._lasts(pin, now_unix_seconds))

    def pinned(self, now_unix_seconds: float) -> frozenset[str]:
        """Return the uids of the pods that are left alone."""
        return frozenset(pin.ref.uid for pin in self.pins(now_unix_seconds))

    def promise(self, uid: str, steps: int, *, now_unix_seconds: float) -> None:
        """Request so many steps of a restore for a pinned pod as soon as they can be; it goes with the pin."""

        def promised(pin: Pin) -> Pin:
            return replace(pin, promised_steps=steps, promised_unix_seconds=now_unix_seconds)

        self._change_pin(uid, promised)

    def keep_promise(self, uid: str, *, steps_left: int) -> None:
        """Record how many steps of what was promised are left; 0 = it is done, or cannot be."""
        self._change_pin(uid, lambda pin: replace(pin, promised_steps=min(steps_left, pin.promised_steps)))

    def promised(self, now_unix_seconds: float) -> dict[str, int]:
        """Return the uids of the pods of which steps of a restore may be sent, and how many at most.

        A pause of the node that was ordered after a promise holds it up; one that it was asked for in does not.
        """
        pause = self._own_pause(now_unix_seconds)
        return {
            pin.ref.uid: pin.promised_steps
            for pin in self.pins(now_unix_seconds)
            if pin.promised_steps and (pause is None or pause.since_unix_seconds <= (pin.promised_unix_seconds or 0.0))
        }

    def _change_pin(self, uid: str, change: Callable[[Pin], Pin]) -> None:
        self._change(
            lambda held: replace(held, pins=tuple(change(pin) if pin.ref.uid == uid else pin for pin in held.pins))
        )

    # -- originals -------------------------------------------------------------------------------------------------

    def keep_original(self, pod: Pod, *, now_unix_seconds: float) -> bool:
        """Keep the requests and limits of a pod that is about to be resized for the first time.

        What was kept before stays. Without a state directory memory is all there is, and that counts as kept.

        Returns:
            Whether they are kept; False = the disk does not take them, and a restart of the agent would lose them.
        """
        return self.keep_originals((pod,), now_unix_seconds=now_unix_seconds)

    def keep_originals(self, pods: Iterable[Pod], *, now_unix_seconds: float) -> bool:
        """Keep those of several pods with one write (of 12 ms, most of it waiting for the disk)."""
        originals = [original_of(pod, kept_unix_seconds=now_unix_seconds) for pod in pods]

        def keep(held: HeldOrders) -> HeldOrders:
            known = {original.ref.uid for original in held.originals}
            new = tuple(original for original in originals if original.ref.uid not in known)
            return replace(held, originals=(*held.originals, *new)) if new else held

        self._change(keep)
        return self._fault is None

    def original(self, uid: str) -> Original | None:
        """Return what a pod had before its first resize; None = it was never resized by this agent."""
        return next((original for original in self._held.originals if original.ref.uid == uid), None)

    # -- tidying ---------------------------------------------------------------------------------------------------

    def expire(self, *, now_unix_seconds: float) -> tuple[Pause | None, tuple[Pin, ...]]:
        """Take away what has come to its end; give it, so that it can be told."""
        held = self._held
        pause = held.pause if self._own_pause(now_unix_seconds) is None else None
        pins = tuple(pin for pin in held.pins if not self._lasts(pin, now_unix_seconds))
        if pause is not None or pins:
            self._change(
                lambda held: replace(
                    held,
                    pause=None if held.pause == pause else held.pause,
                    pins=tuple(pin for pin in held.pins if pin not in pins),
                )
            )
        return pause, pins

    def forget_gone(self, present_uids: Collection[str]) -> None:
        """Forget pins and originals of pods that are gone.

        Args:
            present_uids: Of all pods bound to the node; from a list that is complete.
        """

        def stay(held: HeldOrders) -> HeldOrders:
            return replace(
                held,
                pins=tuple(pin for pin in held.pins if pin.ref.uid in present_uids),
                originals=tuple(original for original in held.originals if original.ref.uid in present_uids),
            )

        self._change(stay)

    def notes(self, now_unix_seconds: float) -> tuple[str, ...]:
        """Return what is held and what is wrong; one sentence each."""
        pause, fault, pins = self.paused(now_unix_seconds), self._fault, len(self.pins(now_unix_seconds))
        notes = []
        if pause is not None:
            notes.append("paused, nothing is written: " + (pause.reason or "plimsoll resume ends it"))
        if pins:
            notes.append(f"{pins} pod{'s are' if pins > 1 else ' is'} pinned: left alone until plimsoll unpin")
        return (*notes, *(() if fault is None else (fault,)))

    # -- ends ------------------------------------------------------------------------------------------------------

    def _boot_end(self, until_unix_seconds: float | None, now_unix_seconds: float) -> BootMoment | None:
        if until_unix_seconds is None or self._boot is None:
            return None
        return self._boot.ahead(until_unix_seconds - now_unix_seconds)

    def _lasts(self, order: Pause | Pin, now_unix_seconds: float) -> bool:
        if order.until_unix_seconds is None or now_unix_seconds < order.until_unix_seconds:
            return True
        return self._boot is not None and order.until_boot is not None and self._boot.is_ahead(order.until_boot)

    # -- the file --------------------------------------------------------------------------------------------------

    def _change(self, change: Callable[[HeldOrders], HeldOrders]) -> None:
        """Apply a change first and write it to disk second: an order holds even where the disk refuses it.

        What the disk refused before is tried again with the next order, whatever it is.
        """
        with self._lock:
            before = self._held
            self._held = change(before)
            if self._path is None or (self._held == before and self._fault is None):
                return
            try:
                self._write(self._path)
            except OSError as error:
                reason = error.strerror or str(error)
                if self._fault is None:
                    log.warning("holds cannot be kept", extra={"path": str(self._path), "reason": reason})
                self._fault = f"{self._path} cannot be written ({reason}): a restart of the agent forgets new orders"
            else:
                self._fault = None

    def _write(self, path: Path) -> None:
        if not self._is_unread:
            replace_file(path, _text(self._held))
            return
        _set_aside(path)
        try:
            replace_file(path, _text(self._held))
        except OSError:
            with contextlib.suppress(OSError):
                _aside(path).replace(path)  # without any file a restart would not be a pause
            raise
        self._is_unread = False

    def _read(self, path: Path, now_unix_seconds: float) -> HeldOrders:
        try:
            content = read_named(path, most_bytes=DOCUMENT_MOST_BYTES)
        except FileNotFoundError:
            return HeldOrders()
        except OSError as error:
            self._is_unread = True
            reason = f"cannot be read: {error.strerror or error} (the next order keeps it as {_aside(path).name})"
            return self._distrust(path, reason, now_unix_seconds)
        try:
            return _HELD.from_json(_with_promises(json_value(decoded(content))))
        except (ValueError, RecursionError, DocumentFormatError) as error:
            # The file itself stays as it is until the next order: a restart before that is to pause again.
            aside = _aside(path)
            reason = f"was not understood ({' '.join(str(error).split())[:200]}), kept as {aside.name}"
            try:
                replace_file(aside, content)
            except OSError as failure:
                reason = f"was not understood, and no copy can be made: {failure.strerror or failure}"
            return self._distrust(path, reason, now_unix_seconds)

    def _distrust(self, path: Path, reason: str, now_unix_seconds: float) -> HeldOrders:
        log.error("holds are damaged: this node is paused", extra={"path": str(path), "reason": reason})
        explanation = f"{path} {reason}; pins and kept originals are lost; plimsoll resume when that is settled"
        return HeldOrders(pause=Pause(since_unix_seconds=now_unix_seconds, until_unix_seconds=None, reason=explanation))


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.damaged")


def _set_aside(path: Path) -> None:
    """Give what stands there a second name and leave it the first, if it can have two: without any it is no pause."""
    if not path.exists():
        return
    try:
        _aside(path).unlink(missing_ok=True)
        os.link(path, _aside(path))
    except OSError:  # a directory, or a file of somebody else's
        path.replace(_aside(path))


def _without(pins: tuple[Pin, ...], uid: str) -> tuple[Pin, ...]:
    return tuple(pin for pin in pins if pin.ref.uid != uid)


def _with_promises(document: object) -> object:
    """Add what the file of an agent from before there were promises lacks; nothing else is mended."""
    pins = document.get("pins") if isinstance(document, dict) else None
    for pin in pins if isinstance(pins, list) else ():
        if isinstance(pin, dict) and "promised_steps" not in pin:
            pin.update(promised_steps=0, promised_unix_seconds=None)
    return document


def _text(held: HeldOrders) -> bytes:
    return json.dumps(_HELD.to_json(held), indent=1, allow_nan=False).encode() + b"\n"
