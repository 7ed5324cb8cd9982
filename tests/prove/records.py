"""What was measured of one block, as values; kept as JSON Lines. Pure but for the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """What the pods of the hour request together at one moment."""

    second: float
    """From the beginning of the script on."""
    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What the kernel counted of one workload in the window."""

    cpu_millicores: float
    wanted_millicores: float
    """By the script; 0 of the client."""
    waiting_ratio: float
    """Share of the time in which something in its pod waited for CPU; kept apart from waiting by a limit it is not."""
    oom_kills: int
    """Processes, of which a container may have several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One arm for some minutes."""

    arm: str
    number: int
    seed: int
    window_seconds: float
    node_cpu_ratio: float
    allocatable_millicores: int
    """Less what the client and the node's own pods request; of Plimsoll's arm also the agent, by its chart."""
    allocatable_bytes: int
    requested: Sequence[Requested]
    uses: Mapping[str, Use]
    """By role, and ``client``."""
    agent_millicores: float
    agent_rss_mib: float
    resizes: int
    refused: int
    """Resizes that the API server refused."""
    restarts: int
    """In the window."""
    answers: Sequence[tuple[float, float]]
    """Of the window: when the request was to be sent, seconds from the script's beginning, and how long it took."""
    unanswered: int
    """Requests of the window without an answer when the block ended."""


def append(path: Path, block: Block) -> None:
    """Append a block as one line."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(block)) + "\n")


class ForeignRecordError(Exception):
    """A record has other fields than those of now: it was measured otherwise, and is not to be compared."""


def read(path: Path) -> list[Block]:
    """Read what ``append`` wrote.

    Raises:
        ForeignRecordError: A line is none of its records; the message says which.
    """
    blocks = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            blocks.append(_block(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = f"{path}: line {number} is no record of this version ({error}); name another folder with --out"
            raise ForeignRecordError(msg) from error
    return blocks


def _block(value: dict[str, Any]) -> Block:
    return Block(
        **{
            **value,
            "requested": [Requested(**fields) for fields in value["requested"]],
            "uses": {role: Use(**fields) for role, fields in value["uses"].items()},
            "answers": [(sent, took) for sent, took in value["answers"]],
        }
    )
