"""What a person is told of a runtime's own memory flags: what becomes of its limit, and which flags waste. Core, pure.

Sentences only: flags are the author's, and nothing of them is ever put into a pod.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from agent.core.cluster.resource import Resource
from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.numbers.amount_text import amount_text
from agent.core.numbers.units import MIB
from agent.core.recommender.recommendation import Advice, Bound

_JAVA_SHARE: Final = 0.7
"""Of a limit, for the heap: beside it more than a quarter of the heap is left."""
_GO_SHARE: Final = 0.9
"""As Go's own guide to its collector advises: 5 to 10 % are left for what the runtime does not count."""
_NODE_SHARE: Final = 0.75
_WASTEFUL_SHARE: Final = 0.5
"""Of a limit below which most of it can hardly be used."""
_TIGHT_SHARE: Final = 0.8
"""Above it less than a quarter of the heap is left beside it."""
_IDLE_SHARE: Final = 0.5
"""Of a fixed heap: less than that in use, of heap and all else, is called idle."""


def runtime_words(profile: RuntimeProfile) -> str:
    """Return what is known of a runtime: ``java, fixed heap 1GiB (-Xmx in JAVA_TOOL_OPTIONS)``."""
    source = f" ({profile.heap_source})" if profile.heap_source else ""
    if profile.fault:
        return f"{profile.runtime}, heap not known: {profile.fault}"
    if profile.hidden:
        return f"{profile.runtime}, heap not known: flags may stand in {profile.hidden}, and cannot be read from here"
    if profile.heap_bytes is not None:
        return f"{profile.runtime}, fixed heap {_text(profile.heap_bytes)}{source}"
    if profile.limit_share_ratio is not None:
        source = source or " (its default; flags of its image are not seen)"
        least = f", at least {_text(profile.initial_heap_bytes)} (-Xms)" if profile.initial_heap_bytes else ""
        return (
            f"{profile.runtime}, heap {profile.limit_share_ratio:.0%} of the limit that it read at start{source}{least}"
        )
    return f"{profile.runtime}, no heap size is stated"


def runtime_advice(profile: RuntimeProfile, limit_bytes: int | None, memory: Advice) -> tuple[str, ...]:
    """Return the sentences of one container.

    Args:
        limit_bytes: Its memory limit; None = it has none, and nothing can be said.
        memory: What is recommended of its memory.
    """
    return tuple(_sentences(profile, limit_bytes, memory)) if limit_bytes else ()


def _sentences(profile: RuntimeProfile, limit_bytes: int, memory: Advice) -> Iterator[str]:
    name = profile.runtime
    if Bound.LIMIT_UNFILLED in memory.bounds:
        yield _no_use(profile)
    if profile.reads_limit_at_start:
        if Bound.READ_AT_START in memory.bounds:
            yield f"the limit is not lowered: {name} reads its limit at start"
        if memory.limit is not None and memory.limit > limit_bytes:
            yield f"a limit of {_text(memory.limit)} is used after a restart: {name} reads its limit at start"
    heap_bytes = profile.heap_within(limit_bytes)
    if heap_bytes is None:
        if name is LanguageRuntime.GO and not (profile.fault or profile.hidden):
            size_mib = int(limit_bytes * _GO_SHARE) // MIB
            yield f"go knows no limit: GOMEMLIMIT={size_mib}MiB would have it collect before the kernel kills it"
        return
    heap, limit = _text(heap_bytes), _text(limit_bytes)
    if heap_bytes > limit_bytes * _TIGHT_SHARE and name is not LanguageRuntime.GO:
        left = _text(max(limit_bytes - heap_bytes, 0))
        yield f"a heap of {heap} leaves {left} of the limit of {limit} for all else, less than a quarter of the heap"
    elif heap_bytes > limit_bytes * _GO_SHARE:
        yield f"GOMEMLIMIT is {heap} of a limit of {limit}: nine tenths would leave room for what go does not count"
    elif profile.limit_share_ratio is not None and heap_bytes < limit_bytes * _NODE_SHARE:
        yield from _of_limit(profile, heap_bytes, limit_bytes)
    if profile.heap_bytes is not None and memory.peak is not None and memory.peak < heap_bytes * _IDLE_SHARE:
        used, floor = _text(math.ceil(memory.peak)), _text(profile.limit_floor_bytes)
        yield f"{profile.heap_source}: {heap} of heap, {used} in use in all: a smaller one needs less than {floor}"


def _no_use(profile: RuntimeProfile) -> str:
    """Return why a limit that the policy would raise is not raised."""
    why = "its heap is fixed"
    if profile.reads_limit_at_start:
        why = f"{profile.runtime} would only size a larger heap by it at its next start"
    return f"the limit is not raised: {why}, and this one was never nearly reached"


def _of_limit(profile: RuntimeProfile, heap_bytes: int, limit_bytes: int) -> Iterator[str]:
    """Return advice for those who take a small part of their limit."""
    heap, limit = _text(heap_bytes), _text(limit_bytes)
    if profile.runtime is LanguageRuntime.JAVA and heap_bytes < limit_bytes * _WASTEFUL_SHARE:
        fits_bytes = math.ceil(heap_bytes / _JAVA_SHARE / MIB) * MIB
        if 2 * profile.small_heap_bytes <= fits_bytes < limit_bytes:  # of less it would take half, whatever it is told
            fits = _text(fits_bytes)
            yield f"heap {heap} of {limit} limit: -XX:MaxRAMPercentage={_JAVA_SHARE * 100:.0f} would fit in {fits}"
    elif profile.runtime is LanguageRuntime.NODE and not profile.heap_source:
        size_mib = int(limit_bytes * _NODE_SHARE) // MIB
        yield f"node takes {heap} of {limit} by itself: --max-old-space-size={size_mib} would use three quarters of it"


def _text(amount_bytes: int) -> str:
    return amount_text(amount_bytes, Resource.MEMORY.unit)
