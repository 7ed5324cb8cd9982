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
from tests.prove.script import BATCH, ROLES, SERVER, WAVE_SECONDS

BEGIN, END = "<!-- prove: written by make prove -->", "<!-- end of prove -->"
CHUNK_SECONDS: Final = float(WAVE_SECONDS)
"""Answers within one wave of the client are alike, as a queue reaches over minutes: an interval draws waves, and
answers within them."""
LEAST_WAVES: Final = 4
"""With fewer no interval is told."""
P50, P99 = 0.5, 0.99
SLOW_MS: Final = 1000.0


def arms_of(blocks: Sequence[Block]) -> list[Arm]:
    """Return the arms that were measured, in the order in which they are declared."""
    present = {block.arm for block in blocks}
    return [arm for arm in Arm if arm.value in present]


def of(blocks: Sequence[Block], arm: Arm) -> list[Block]:
    """Return the blocks of an arm."""
    return [block for block in blocks if block.arm == arm.value]


def answers(blocks: Sequence[Block], arm: Arm) -> Groups:
    """Return how long answers took, milliseconds, by block and wave."""
    groups: dict[tuple[int, int], list[float]] = {}
    for block in of(blocks, arm):
        begin = block.answers[0][0] if block.answers else 0.0
        for sent, took in block.answers:
            groups.setdefault((block.number, int((sent - begin) // CHUNK_SECONDS)), []).append(took * 1000.0)
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

    def total(name: str, value: Callable[[Block], int]) -> list[str]:
        return line(name, lambda arm_blocks: str(sum(value(block) for block in arm_blocks)))

    def latency(name: str, level: float) -> list[str]:
        return [name, *(text_of(quantile(answers(blocks, arm), level), len(answers(blocks, arm))) for arm in arms)]

    def slow_percent(block: Block) -> float:
        return 100.0 * fmean(took * 1000.0 > SLOW_MS for _, took in block.answers) if block.answers else 0.0

    def got_percent(block: Block) -> float:
        return 100.0 * block.uses[BATCH].cpu_millicores / block.uses[BATCH].wanted_millicores

    against = [ratio_of_quantiles(answers(blocks, arm), written, P99) if written else None for arm in arms]
    waves = [min(len(written), len(answers(blocks, arm))) for arm in arms]
    return [
        ["", *(MEANING[arm] for arm in arms)],
        figure("requested, cores", requested_cores, 2),
        figure("requested, GiB", requested_gib, 2),
        figure(
            "free for others, cores", lambda block: block.allocatable_millicores / 1000.0 - requested_cores(block), 2
        ),
        figure("free for others, GiB", lambda block: block.allocatable_bytes / GIB - requested_gib(block), 2),
        latency("server, p50, ms", P50),
        latency("server, p99, ms", P99),
        ["p99 against as written", *(text_of(ratio, count, 2) for ratio, count in zip(against, waves, strict=True))],
        figure("answered after more than a second, %", slow_percent, 2),
        total("requests unanswered", lambda block: block.unanswered),
        figure("server waited for CPU, %", lambda block: 100.0 * block.uses[SERVER].waiting_ratio, 1),
        figure(
            "all waited for CPU, % (mean of pods)",
            lambda block: 100.0 * fmean(block.uses[role].waiting_ratio for role in ROLES),
            1,
        ),
        figure("batch got of the CPU that it wanted, %", got_percent, 0),
        total("processes killed for memory", lambda block: sum(block.uses[role].oom_kills for role in ROLES)),
        total("restarts", lambda block: block.restarts),
        total("resizes", lambda block: block.resizes),
        total("resizes refused", lambda block: block.refused),
        figure("node's CPU used, %", lambda block: 100.0 * block.node_cpu_ratio, 0),
        figure("agent, m of the node's CPU", lambda block: block.agent_millicores, 0),
        figure("agent, MiB", lambda block: block.agent_rss_mib, 0),
    ]


def text_of(estimate: Estimate | None, waves: int, decimals: int = 0) -> str:
    """Return a cell; with its interval where there are waves enough."""
    if estimate is None:
        return "-"
    return estimate.text(decimals) if waves >= LEAST_WAVES else f"{estimate.value:.{decimals}f}"


def page(blocks: Sequence[Block], how: Sequence[str]) -> str:
    """Return how it was run, and the table."""
    played = " ".join(f"{block.arm}/{block.seed}" for block in blocks)
    return "\n\n".join(["\n".join(how), f"Blocks, arm and seed: {played}.", markdown(rows(blocks))])
