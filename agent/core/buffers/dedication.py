"""Buffers for the pods of a selector: those that run fill the room, and what is left of it is kept free. Core, pure.

It is a count and no fence. The scheduler knows no room that is reserved for somebody: whoever else finds it free, or is
of a higher priority than its placeholders, may take it, and then it is made anew. Taints keep others out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from agent.core.buffers.buffer import BufferSizing, ChunkRule
from agent.core.orders.annotations import PREFIX

DEDICATED_TO: Final = f"{PREFIX}for"
"""Annotation of a CapacityBuffer: a label selector as text."""
ALLOWED: Final = "a label selector such as app=web or tier in (a, b), of at most 1000 characters"
LONGEST: Final = 1000
# Whoever may create a buffer writes it: time must grow with length only. Words become letters first, and of letters no
# way through is tried twice. (Possessive quantifiers would say the same, and are wrong in Python before 3.11.4.)
_WORD: Final = re.compile(r"[!=]=|[\w./-]+|\S", re.ASCII)
_SIGNS: Final = {**dict.fromkeys(("=", "==", "!="), "="), **dict.fromkeys(("in", "notin"), "i")}
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[\w./-]*[A-Za-z0-9])?", re.ASCII)
_KEY: Final = "[kvi]"
_VALUE: Final = "[vi]?"
_TERM: Final = rf"(?:!{_KEY}|{_KEY}(?:={_VALUE}|i\({_VALUE}(?:,{_VALUE})*\))?)"
_SELECTOR: Final = re.compile(rf"{_TERM}(?:,{_TERM})*")


def _letter(word: str) -> str:
    """Return what a word is: a sign, ``i`` for in and notin, ``v`` for a value or key, ``k`` for a key alone."""
    if word in _SIGNS or word in "!(),":
        return _SIGNS.get(word, word)
    if _NAME.fullmatch(word) is None:
        return "?"
    return "k" if "/" in word else "v"


def selector_fault(text: str) -> str | None:
    """Return what of a selector is not understood; None = all is. An empty one, for every pod, is a mistake here."""
    if len(text) <= LONGEST and _SELECTOR.fullmatch("".join(map(_letter, _WORD.findall(text)))) is not None:
        return None
    shown = text if len(text) <= LONGEST else f"{text[:40]}..."
    return f"annotation {DEDICATED_TO}: {shown!r} is not allowed; allowed: {ALLOWED}"


def unfilled(sizing: BufferSizing, filled: int | None) -> BufferSizing:
    """Return how many chunks are left to keep free where so many pods fill the buffer; None = it is for nobody."""
    if filled is None:
        return sizing
    left = max(sizing.replicas - filled, 0)
    decided_by = ChunkRule.FILLED if left < sizing.replicas else sizing.decided_by
    return replace(sizing, replicas=left, decided_by=decided_by, filled=filled)
