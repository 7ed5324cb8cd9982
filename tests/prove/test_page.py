"""Blocks become a table, and come back from their file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.numbers.units import GIB
from tests.prove import page, records
from tests.prove.arms import Arm
from tests.prove.records import Block, Requested, Use
from tests.prove.script import ROLES


def block(arm: Arm, number: int, *, took: float, cores: int, kills: int = 0) -> Block:
    use = Use(cpu_millicores=50.0, wanted_millicores=80.0, waiting_ratio=0.1, oom_kills=0)
    return Block(
        arm=arm.value,
        number=number,
        seed=1,
        window_seconds=600.0,
        node_cpu_ratio=0.5,
        allocatable_millicores=1800,
        allocatable_bytes=2 * GIB,
        requested=[Requested(second=float(at), cpu_millicores=cores, memory_bytes=GIB) for at in range(3)],
        uses=dict.fromkeys(ROLES, use) | {"leak": replace(use, oom_kills=kills)},
        agent_millicores=20.0,
        agent_rss_mib=60.0,
        resizes=4,
        refused=0,
        restarts=kills,
        answers=[(float(second), took) for second in range(600)],
        unanswered=0,
    )


def test_blocks_come_back_as_they_were(tmp_path: Path) -> None:
    blocks = [block(Arm.WRITTEN, 1, took=0.2, cores=1200), block(Arm.PLIMSOLL, 2, took=0.1, cores=600, kills=2)]
    for record in blocks:
        records.append(tmp_path / "records.jsonl", record)
    assert records.read(tmp_path / "records.jsonl") == blocks


@pytest.mark.parametrize(
    "line", ['{"arm": "vpa", "evictions": 0}', "{", "[]", '{"requested": 1, "uses": {}, "answers": []}']
)
def test_a_record_of_another_version_is_refused_by_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "records.jsonl"
    records.append(file, block(Arm.VPA, 1, took=0.1, cores=600))
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(records.ForeignRecordError, match=r"records\.jsonl: line 2 is no record of this version.*--out"):
        records.read(file)


def test_the_table_has_an_arm_a_column_in_their_order() -> None:
    blocks = [
        block(Arm.PLIMSOLL, 1, took=0.1, cores=600),
        block(Arm.WRITTEN, 2, took=0.2, cores=1200, kills=2),
        block(Arm.WRITTEN, 3, took=0.2, cores=1000, kills=1),
    ]
    table = {row[0]: row[1:] for row in page.rows(blocks)}
    assert table[""] == ["as written", "Plimsoll"]
    assert table["requested, cores"] == ["1.10", "0.60"]
    assert table["free for others, cores"] == ["0.70", "1.20"]
    # As written there are six waves; three of the other arm are too few for an interval.
    assert table["server, p50, ms"] == ["200 (200 to 200)", "100"]
    assert table["server, p99, ms"] == ["200 (200 to 200)", "100"]
    assert table["p99 against as written"] == ["1.00 (1.00 to 1.00)", "0.50"]
    assert table["answered after more than a second, %"] == ["0.00", "0.00"]
    assert table["batch got of the CPU that it wanted, %"] == ["62", "62"]
    assert table["processes killed for memory"] == ["3", "0"]
    assert "as written | Plimsoll" in page.page(blocks, ["how"])


def test_without_the_arm_as_written_nothing_is_compared_with_it() -> None:
    table = {row[0]: row[1:] for row in page.rows([block(Arm.PLIMSOLL, 1, took=0.1, cores=600)])}
    assert table["p99 against as written"] == ["-"]
