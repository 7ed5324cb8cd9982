"""The result as a page: a table beside the proposal's own figures, and a picture in text. Pure but for the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.experiment.arms import MEANING, Arm
from tests.experiment.intervals import Estimate, Groups, median, ratio_of_medians
from tests.experiment.records import LOADS, OPERATIONS, Block, Operation

BEGIN, END = "<!-- experiment: written by make experiment -->", "<!-- end of experiment -->"
PROPOSAL: Final[Mapping[str, tuple[str, str]]] = {
    "build": ("90 s, 29 s", "3.1"),
    "install": ("85 s, 42 s", "2.0"),
    "run": ("50 s, 13.5 s", "3.7"),
    "watch": ("5 s, 2 s", "2.5"),
    "deploy": ("2 s, 0.8 s", "2.5"),
    LOADS[0]: ("60 s, 10 s", "6.0"),
}
"""The proposal's seconds with split and with shared limits, and the ratio of the two."""
PROPOSAL_CPU: Final = "50 %, 70 %"
PICTURE_WIDTH: Final = 50


def seconds(operation: Operation) -> float:
    """Return how long an operation took, seconds of the guest."""
    return operation.seconds


def stretch(operation: Operation) -> float:
    """Return the seconds it took for each CPU-second of its work: no slower machine changes that, but a limit does."""
    return operation.seconds / operation.cpu_seconds


def groups_of(
    done: Iterable[Operation], arm: str, name: str, measure: Callable[[Operation], float] = seconds
) -> Groups:
    """Return a measure of an operation in an arm, by pod and block; what went wrong is left out."""
    groups: dict[tuple[int, str], list[float]] = {}
    for operation in done:
        if (operation.arm, operation.name, operation.is_good) == (arm, name, True) and operation.cpu_seconds > 0.0:
            groups.setdefault((operation.block, operation.pod), []).append(measure(operation))
    return list(groups.values())


def arms_of(blocks: Iterable[Block]) -> list[Arm]:
    """Return the arms that were measured, in the order of their names."""
    present = {block.arm for block in blocks}
    return [arm for arm in Arm if arm.value in present]


def shared_arm(arms: Sequence[Arm]) -> Arm:
    """Return which arm A is compared with: pods with a shared budget, however they got it."""
    return Arm.WRITTEN if Arm.WRITTEN in arms else Arm.POD


def table(done: Sequence[Operation], blocks: Sequence[Block]) -> str:
    """Return the operations' seconds in each arm, and how many times as fast a shared budget is as A."""
    arms = arms_of(blocks)
    shared = shared_arm(arms)
    heads = ["operation", "proposal: split, shared", "ratio", *(f"{arm}, s" for arm in arms), f"A / {shared}"]
    rows = []
    for name in (*OPERATIONS, *LOADS):
        proposal, ratio = PROPOSAL.get(name, ("-", "-"))
        cells = [text_of(median(groups_of(done, arm.value, name))) for arm in arms]
        gain = ratio_of_medians(groups_of(done, Arm.SPLIT.value, name), groups_of(done, shared.value, name))
        rows.append([name, proposal, ratio, *cells, text_of(gain)])
    return markdown([heads, *rows])


def stretch_table(done: Sequence[Operation], blocks: Sequence[Block]) -> str:
    """Return the seconds for each CPU-second in each arm, and how many times as many A takes as a shared budget."""
    arms = arms_of(blocks)
    shared = shared_arm(arms)
    rows = [["operation", *(f"{arm}, s per CPU-s" for arm in arms), f"A / {shared}"]]
    for name in (*OPERATIONS, *LOADS):
        by_arm = {arm: groups_of(done, arm.value, name, stretch) for arm in Arm}
        gain = ratio_of_medians(by_arm[Arm.SPLIT], by_arm[shared])
        rows.append([name, *(text_of(median(by_arm[arm])) for arm in arms), text_of(gain)])
    return markdown(rows)


def node_table(done: Sequence[Operation], blocks: Sequence[Block]) -> str:
    """Return what the kernel counted in each arm, the mean of its blocks."""
    heads = [
        *("arm", "blocks", "pods", "builds", "node CPU", "pods use", "throttled periods", "waiting", "peak of a pod"),
        *("kills", "CPU-s a build"),
    ]
    rows = []
    for arm in arms_of(blocks):
        some = [block for block in blocks if block.arm == arm.value]
        builds = [operation for operation in done if (operation.arm, operation.name) == (arm.value, "build")]
        cost = median([[build.cpu_seconds for build in builds if build.is_good]])
        rows.append(
            [
                f"{arm}: {MEANING[arm]}",
                str(len(some)),
                str(max(block.pods for block in some)),
                str(len(builds)),
                f"{mean(block.cpu_ratio for block in some):.0%}".replace("%", " %"),
                f"{mean(block.pods_millicores for block in some):.0f}m",
                f"{mean(block.throttled_ratio for block in some):.0%}".replace("%", " %"),
                f"{mean(block.waiting_ratio for block in some):.0%}".replace("%", " %"),
                f"{max(block.memory_peak_bytes for block in some) >> 20} MiB",
                str(sum(block.oom_kills for block in some)),
                text_of(cost),
            ]
        )
    return markdown([heads, *rows])


def picture(done: Sequence[Operation], blocks: Sequence[Block], names: Sequence[str] = ("build", *LOADS)) -> str:
    """Return bars of the medians, the longest of an operation as wide as the picture; ``|`` are the interval's ends."""
    lines = []
    for name in names:
        estimates = {arm: median(groups_of(done, arm.value, name)) for arm in arms_of(blocks)}
        present = {arm: estimate for arm, estimate in estimates.items() if estimate is not None}
        longest = max((estimate.high for estimate in present.values()), default=0.0)
        lines += [name, *(f"  {arm:2} {bar(estimate, longest)}" for arm, estimate in present.items())]
    return "\n".join(lines)


def bar(estimate: Estimate, longest: float) -> str:
    """Return one bar and its figure."""
    scale = PICTURE_WIDTH / longest if longest else 0.0
    cells = ["█"] * round(estimate.value * scale)
    cells += [" "] * (PICTURE_WIDTH + 1 - len(cells))
    for end in (estimate.low, estimate.high):
        cells[min(PICTURE_WIDTH, round(end * scale))] = "|"
    return f"{''.join(cells).rstrip():{PICTURE_WIDTH + 1}} {estimate.value:.1f} s"


def text_of(estimate: Estimate | None) -> str:
    """Return a cell."""
    return "-" if estimate is None else estimate.text(1 if estimate.value >= 1.0 else 2)


def mean(values: Iterable[float]) -> float:
    """Return the mean of at least one value."""
    listed = list(values)
    return sum(listed) / len(listed)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first row is its heading."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def page(done: Sequence[Operation], blocks: Sequence[Block], how: Sequence[str]) -> str:
    """Return what stands between the two marks: how it was run, the tables, the picture."""
    return "\n\n".join(
        [
            "\n".join(how),
            table(done, blocks),
            "The same for each second of CPU that the work took, which a machine that others use as well changes less:",
            stretch_table(done, blocks),
            node_table(done, blocks),
            f"```\n{picture(done, blocks)}\n```",
        ]
    )


def put(file: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Replace what stands between two marks of a file.

    Raises:
        ValueError: The marks are not there.
    """
    whole = file.read_text()
    head, is_begun, rest = whole.partition(begin)
    _, is_ended, tail = rest.partition(end)
    if not is_begun or not is_ended:
        raise ValueError(f"{file}: no {begin} ... {end}")
    file.write_text(f"{head}{begin}\n{text}\n{end}{tail}")
