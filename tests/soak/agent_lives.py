"""The agent of the day, life by life: started, killed, ended, upgraded; and what each life left behind."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agent.core.resize.decision import Decision
from agent.node.orders.journal import FILE_NAME as DECISIONS
from agent.node.orders.journal import read_journal
from agent.node.resize.ledger_file import FILE_NAME as LEDGER
from agent.node.sockets.control import ControlError, request
from tests.cluster.processes import Process
from tests.e2e.agent_pod import SETTINGS
from tests.soak import shifted_clock
from tests.soak.flatness import Sample
from tests.soak.matching import Decided, under_way_of

IN_A_HURRY: Final[Mapping[str, str]] = {
    **SETTINGS,
    "act.mode": "enforce",
    "plan.replanSeconds": "2",
    "evaluateIntervalSeconds": "5",
    "report.intervalSeconds": "60",
    "logging.format": "json",
    "sampling.maxContainers": "256",
}
"""As on the node of ``make e2e``, minutes are seconds; rules stay."""
RESTART_SECONDS: Final = 1.0
"""From an end to the next start, as a kubelet waits at first."""
CGROUPS: Final = "/sys/fs/cgroup/"
GONE: Final = " (deleted)"
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class AgentLives:
    """See the module's docstring. One thread, which must outlive the agent: it dies with its starter.

    Args:
        folder: For socket and logs.
        state: Its state directory.
        clock: The file that sets its clock, see ``shifted_clock``.
        words: Arguments that it is given beside its settings.
        settings: Over ``IN_A_HURRY``.
        began: The moment from which seconds are counted, ``time.monotonic``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        state: Path,
        clock: Path,
        words: Sequence[str],
        settings: Mapping[str, str],
        began: float,
    ) -> None:
        self.folder, self.state, self.socket = folder, state, folder / "agent.sock"
        self._clock, self._began = clock, began
        given = {**IN_A_HURRY, **settings}
        self._words: tuple[str, ...] = (
            *("agent", *words, "--state-dir", str(state), "--socket", str(self.socket), "--port", "0"),
            *(word for key, value in given.items() for word in ("--set", f"{key}={value}")),
        )
        self._process: Process | None = None
        self._started = self._ended = 0.0
        self.logs: list[Path] = []
        self.began_unix: list[float] = []
        """When each life began, by the clock that nobody sets."""
        self.lives: list[list[Sample]] = []
        self.away: list[tuple[float, float]] = []
        """From when to when there was none, seconds of the run."""
        self.decisions: dict[int, Decision] = {}
        """All that the decision log ever held, by number, in the newest wording."""
        self.under_way: list[Decided] = []
        self.ended_by_itself: list[str] = []

    def configure(self, **settings: str) -> None:
        """Give it further settings from the next start on, dots as two underscores."""
        self._words += tuple(
            word for key, value in settings.items() for word in ("--set", f"{key.replace('__', '.')}={value}")
        )

    def start(self, tree: Path) -> None:
        """Start it from a tree of sources; it is not waited for."""
        log = self.folder / f"agent-{len(self.logs) + 1:03d}.log"
        self.logs.append(log)
        self.began_unix.append(time.time())
        self.lives.append([])
        program = (sys.executable, shifted_clock.__file__, str(self._clock), str(tree))
        self._process = Process("agent", ["env", "PYTHONFAULTHANDLER=1", *program, *self._words], log)
        self._started = time.monotonic()
        if self._ended:
            self.away.append((self._ended - self._began, self._started - self._began))

    def end(self, *, kill: bool) -> None:
        """End it, with or without a chance to tidy up, and read what it left."""
        if self._process is None:
            return
        self._process.stop(kill=kill)
        self._process, self._ended = None, time.monotonic()
        self.read_decisions()
        ledger: Any = {}
        with contextlib.suppress(FileNotFoundError):
            ledger = json.loads((self.state / LEDGER).read_text())
        self.under_way += under_way_of(ledger)

    def revive(self, tree: Path) -> None:
        """Start it again if it has ended and the time for that has come."""
        if self._process is not None and not self._process.is_running():
            self.ended_by_itself.append(f"{self.logs[-1].name}: {self._process.tail().splitlines()[-1][:300]}")
            self.end(kill=True)
        if self._process is None and time.monotonic() >= self._ended + RESTART_SECONDS:
            self.start(tree)

    def is_told(self) -> bool:
        """Return whether it answers at its socket, and the API server has told it of its pods."""
        try:
            request(self.socket, "restore", {"all": True, "dry_run": True})
        except ControlError:
            return False
        return True

    def read_decisions(self) -> None:
        """Take over what its decision log holds by now; the files are bounded, so this is done often."""
        for decision in reversed(read_journal(self.state / DECISIONS)):
            self.decisions[decision.sequence] = decision

    def sample(self) -> None:
        """Take down its memory and descriptors."""
        if self._process is not None:
            now = time.monotonic()
            taken = sample_of(self._process.pid, now - self._began, now - self._started)
            if taken is not None:
                self.lives[-1].append(taken)


def sample_of(pid: int, second: float, age_seconds: float) -> Sample | None:
    """Read what a process has; None = it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    names = (_opened(f"/proc/{pid}/fd/{number}") for number in numbers)
    # Files of cgroups come and go with their containers; what is open of one that is gone reads "(deleted)".
    descriptors = sum(not name.startswith(CGROUPS) or name.endswith(GONE) for name in names)
    return Sample(second=second, age_seconds=age_seconds, rss_bytes=pages * PAGE_BYTES, descriptors=descriptors)


def _opened(link: str) -> str:
    """Return what a descriptor is of; empty = it has just been closed."""
    try:
        return os.readlink(link)
    except OSError:
        return ""
