"""What this program was called as, for usage texts and messages."""

from __future__ import annotations

import os
import sys
from typing import Final

NAME: Final = "plimsoll"
PLUGIN_FILE: Final = "kubectl-plimsoll"
"""As kubectl looks for it on PATH."""
PLUGIN_NAME: Final = "kubectl plimsoll"


def program_name() -> str:
    """Return ``plimsoll``, or ``kubectl plimsoll`` where kubectl's plug-in was started."""
    called = os.path.basename(sys.argv[0]) if sys.argv else ""
    return PLUGIN_NAME if called.startswith(PLUGIN_FILE) else NAME
