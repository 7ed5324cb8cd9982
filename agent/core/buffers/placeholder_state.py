"""What one pass over placeholder pods leaves to the next, and how long is waited after setbacks. Core, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent.core.buffers.placeholder_options import PlaceholderOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderState:
    """What one pass leaves to the next."""

    living: frozenset[str] = frozenset()
    """uids of the pods that were seen alive."""
    removed: Mapping[str, float] = field(default_factory=dict)
    """By uid: when a pod was removed here that may still be seen."""
    made: Mapping[str, float] = field(default_factory=dict)
    """By name: when a pod was made that was not seen yet."""
    unresizable: frozenset[str] = frozenset()
    """uids of those whose resize the server refused."""
    setbacks: int = 0
    """How often in a row pods gave way, or were refused."""
    hold_until_unix_seconds: float | None = None
    """None are made before; also when it is past. None = they never gave way."""
    refusal: str | None = None
    """What the server said when it refused the last one; None = it took it."""


def after_setback(state: PlaceholderState, now_unix_seconds: float, options: PlaceholderOptions) -> PlaceholderState:
    """Remember that pods gave way, or were refused: none are made for a while, longer each time."""
    until = state.hold_until_unix_seconds
    if until is None or now_unix_seconds - until > options.most_back_off_seconds:
        setbacks = 1
    else:
        # What follows while it waits already belongs to the same.
        setbacks = state.setbacks + (now_unix_seconds >= until)
    wait = min(options.first_back_off_seconds * 2.0 ** min(setbacks - 1, 30), options.most_back_off_seconds)
    return replace(
        state,
        setbacks=setbacks,
        hold_until_unix_seconds=now_unix_seconds + wait,
    )


def after_refusal(
    state: PlaceholderState, names: Iterable[str], why: str, *, now_unix_seconds: float, options: PlaceholderOptions
) -> PlaceholderState:
    """Remember that the server refused to make pods: they are tried again, later each time."""
    lost = set(names)
    unseen_pods = {name: since for name, since in state.made.items() if name not in lost}
    return replace(after_setback(state, now_unix_seconds, options), made=unseen_pods, refusal=why)


def after_creation(state: PlaceholderState) -> PlaceholderState:
    """Remember that the server made a pod."""
    return state if state.refusal is None else replace(state, refusal=None)


def after_refused_resize(state: PlaceholderState, uid: str) -> PlaceholderState:
    """Remember that a pod cannot be resized: the next pass replaces it."""
    return replace(state, unresizable=state.unresizable | {uid})
