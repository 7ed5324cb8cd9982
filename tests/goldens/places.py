"""Where the fixed inputs and the kept surface are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parents[1] / "data" / "goldens"
INPUTS: Final = DATA / "inputs"
"""What the programs are run on; made once, by ``tests.goldens.inputs``."""
SURFACE: Final = DATA / "surface"
"""The kept names and forms that users build on."""
NOW_UNIX_SECONDS: Final = 1_795_255_200
"""The moment at which all offline answers are asked for: 2026-11-21T10:00:00Z, that of the inputs."""
