"""What the logs of agent and webhook tell: tracebacks, errors, and the agent's own lines of what it sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from agent.core.resize.decision import Outcome

TRACES: Final = (
    "Traceback (most recent call last)",
    "Fatal Python error",
    "Segmentation fault",
    "Exception ignored in",
    "was never awaited",
)
SENT: Final = "resize"
"""The agent's message about each answer to a patch."""


def traces(file: Path) -> list[str]:
    """Return the lines of a log that no program should write, cut short."""
    with file.open(errors="replace") as lines:
        return [
            f"{file.name}:{number}: {line.strip()[:400]}"
            for number, line in enumerate(lines, 1)
            if any(trace in line for trace in TRACES)
        ]


def entries(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Give what is JSON in some logs, in order; a line that a kill cut short is left out."""
    for file in files:
        with file.open(errors="replace") as lines:
            for line in lines:
                if not line.startswith("{"):
                    continue
                try:
                    yield json.loads(line)
                except ValueError:
                    continue


def sent(files: Iterable[Path]) -> Counter[tuple[str, Outcome]]:
    """Count the answers to patches that an agent's logs tell of, by pod and outcome."""
    return Counter(
        (entry["pod"], Outcome(entry["outcome"])) for entry in entries(files) if entry.get("message") == SENT
    )


def moments(files: Iterable[Path]) -> list[float]:
    """Return when lines were written, by the writer's own clock, Unix seconds."""
    return [datetime.fromisoformat(entry["ts"]).timestamp() for entry in entries(files) if "ts" in entry]


def clock_off(file: Path, began_unix: float) -> tuple[float, float] | None:
    """Return by how much a writer's clock was ahead and behind for certain, seconds below 0 for behind; None = no line.

    Ahead is what it wrote later than the file was last written, behind what it wrote before it began.
    """
    written = moments([file])
    return (max(written) - file.stat().st_mtime, min(written) - began_unix) if written else None


def errors(files: Iterable[Path]) -> Counter[str]:
    """Count the messages of level error, which ask for a person."""
    return Counter(entry["message"] for entry in entries(files) if entry.get("level") == "error")
