"""``plimsoll``, but its last write to the API server may take long: who stands still is no server that is away.

The agent's own patience is bounded by the time that its pod has to end. Run as a module, it becomes the command.
"""

from __future__ import annotations

import sys
from typing import Final

from agent.cli.main import main
from agent.node.keepers.overload_taint import OverloadKeeper
from agent.node.resize import assembly

END_SECONDS: Final = 45.0
"""Less than whoever ends the agent waits for it."""

if __name__ == "__main__":
    assembly.STOP_SECONDS = END_SECONDS  # type: ignore[misc]
    OverloadKeeper.remove_at_exit.__defaults__ = (END_SECONDS,)
    sys.exit(main())
