"""The blocks as a table: what each arm requests, what its server's clients wait, what it costs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final

from agent.core.numbers.units import GIB
from tests.experiment.intervals import Estimate, Groups, quantile, ratio_of_quantiles
from tests.experiment.page import markdown
from tests.prove.arms import MEANING, Arm
from tests.prove.records import Block
from tests.prove.script import ROLES, SERVER

BEGIN, END = "<!-- prove: written by make prove -->", "<!-- end of prove -->"
CHUNK_SECONDS: Final = 60.0
"""Answers within one minute are alike: an interval draws minutes, and answers within them."""
P99, P999 = 0.99, 0.999


def arms_of(blocks: Sequence[Block]) -> list[Arm]:
    """Return the arms that were measured, in the order in which they are declared."""
    present = {block.arm for block in blocks}
    return [arm for arm in Arm if arm.value in present]


def of(blocks: Sequence[Block], arm: Arm) -> list[Block]:
    """Return the blocks of an arm."""
    return [block for block in blocks if block.arm == arm.value]


def answers(blocks: Sequence[Block], arm: Arm) -> Groups:
    """Return how long answers took, milliseconds, by block and minute."""
    groups: dict[tuple[int, int], list[float]] = {}
    for block in of(blocks, arm):
        for sent, took in block.answers:
            groups.setdefault((block.number, int(sent // CHUNK_SECONDS)), []).append(took * 1000.0)
    return [*groups.values()]


def mean_of(blocks: Sequence[Block], value: Callable[[Block], float]) -> float:
    """Return the mean over blocks."""
    return fmean(value(block) for block in blocks)


def requested_cores(block: Block) -> float:
    """Return what was requested in the mean of the window."""
    return fmean(request.cpu_millicores for request in block.requested) / 1000.0


def requested_gib(block: Block) -> float:
    """Return what was requested in the mean of the window."""
    return fmean(request.memory_bytes for request in block.requested) / GIB


def rows(blocks: Sequence[Block]) -> list[list[str]]:
    """Return the table, an arm a column."""
    arms = arms_of(blocks)
    some = {arm: of(blocks, arm) for arm in arms}
    written = answers(blocks, Arm.WRITTEN)

    def line(name: str, cell: Callable[[list[Block]], str]) -> list[str]:
        return [name, *(cell(some[arm]) for arm in arms)]

    def figure(name: str, value: Callable[[Block], float], decimals: int) -> list[str]:
        return line(name, lambda arm_blocks: f"{mean_of(arm_blocks, value):.{decimals}f}")

    def base(name: str, value: Callable[[Block], int | None], unit: int) -> list[str]:
        known = {arm: [asked for block in some[arm] if (asked := value(block)) is not None] for arm in arms}
        return [name, *(f"{fmean(known[arm]) / unit:.2f}" if known[arm] else "-" for arm in arms)]

    def total(name: str, value: Callable[[Block], int]) -> list[str]:
        return line(name, lambda arm_blocks: str(sum(value(block) for block in arm_blocks)))

    def latency(name: str, level: float) -> list[str]:
        return [name, *(text_of(quantile(answers(blocks, arm), level)) for arm in arms)]

    against = [ratio_of_quantiles(answers(blocks, arm), written, P99) if written else None for arm in arms]
    return [
        ["", *(MEANING[arm] for arm in arms)],
        figure("requested, cores", requested_cores, 2),
        figure("requested, GiB", requested_gib, 2),
        base("of them without headroom at the end, cores", lambda block: block.base_millicores, 1000),
        base("of them without headroom at the end, GiB", lambda block: block.base_bytes, GIB),
        figure(
            "free for others, cores", lambda block: block.allocatable_millicores / 1000.0 - requested_cores(block), 2
        ),
        figure("free for others, GiB", lambda block: block.allocatable_bytes / GIB - requested_gib(block), 2),
        latency("server, p99, ms", P99),
        latency("server, p99.9, ms", P999),
        ["p99 against as written", *(text_of(ratio, 2) for ratio in against)],
        total("requests unanswered", lambda block: block.unanswered),
        figure("server waited for CPU, %", lambda block: 100.0 * block.uses[SERVER].waiting_ratio, 1),
        figure(
            "all waited for CPU, % (mean of pods)",
            lambda block: 100.0 * fmean(block.uses[role].waiting_ratio for role in ROLES),
            1,
        ),
        figure("throttled, s", lambda block: sum(block.uses[role].throttled_seconds for role in ROLES), 1),
        total("killed for memory", lambda block: sum(block.uses[role].oom_kills for role in ROLES)),
        total("restarts", lambda block: block.restarts),
        total("resizes", lambda block: block.resizes),
        total("resizes refused", lambda block: block.refused),
        total("evictions", lambda block: block.evictions),
        figure("node's CPU used, %", lambda block: 100.0 * block.node_cpu_ratio, 0),
        figure("agent, m of the node's CPU", lambda block: block.agent_millicores, 0),
        figure("agent, MiB", lambda block: block.agent_rss_mib, 0),
    ]


def text_of(estimate: Estimate | None, decimals: int = 0) -> str:
    """Return a cell."""
    return "-" if estimate is None else estimate.text(decimals)


def page(blocks: Sequence[Block], how: Sequence[str]) -> str:
    """Return how it was run, and the table."""
    played = " ".join(f"{block.arm}/{block.seed}" for block in blocks)
    return "\n\n".join(["\n".join(how), f"Blocks, arm and seed: {played}.", markdown(rows(blocks))])
