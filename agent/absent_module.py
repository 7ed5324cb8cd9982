"""A module that others import only where it is there, kept away from them while they are imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def absent(name: str) -> Iterator[None]:
    """Have no such module while the body imports others, unless it is loaded already; afterwards it can be imported."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment] # how Python itself marks what is not there
    try:
        yield
    finally:
        del sys.modules[name]
