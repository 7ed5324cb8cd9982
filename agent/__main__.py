"""``python -m agent`` is the command ``plimsoll``."""

from __future__ import annotations

import sys

from agent.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
