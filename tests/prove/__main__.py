"""``python -m tests.prove`` (``make prove``): the same hour on a real kubelet in a guest, requested by four rules.

Writes what was measured to build/prove (JSON Lines and a page) block by block; what is there counts, wherever it ends.
Exit code 0: measured; 1: something was not as it must be; 2: the node could not be had, or nothing was measured.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.cluster import fence
from tests.cluster.binaries import BinaryError
from tests.cluster.control_plane import control_plane
from tests.cluster.identities import create_namespace
from tests.cluster.processes import ClusterError
from tests.e2e import namespace, parts
from tests.e2e.node import HOST_ADDRESS, MEMORY_MIB, NodeError, node
from tests.e2e.program import copy_program
from tests.e2e.workloads import NAMESPACE
from tests.experiment.intervals import quantile
from tests.experiment.page import put as put_between
from tests.guest.kernel import GuestError
from tests.guest.machine import REPOSITORY
from tests.prove import page, records
from tests.prove.arms import Arm
from tests.prove.block import NODE_CPUS, Player, Schedule

OUT: Final = REPOSITORY / "build" / "prove"
README: Final = REPOSITORY / "agent" / "README.md"
RECORDS, HOW, PAGE = "records.jsonl", "how.txt", "page.md"
ROUND: Final = (Arm.WRITTEN, Arm.VPA, Arm.CRUISE, Arm.PLIMSOLL)
ORDER: Final = (*ROUND, *reversed(ROUND))
PAYLOAD: Final = Path(__file__).with_name("payload")


def main() -> int:
    """Run it, or only write the page of what was run before."""
    arguments = parse()
    try:
        return prove(arguments)
    except records.ForeignRecordError as error:
        print(f"prove: {error}", file=sys.stderr)
        return 2


def prove(arguments: argparse.Namespace) -> int:
    """Play the blocks that are asked for, or none, and write the page."""
    if arguments.page_of:
        return write_page(arguments.page_of, arguments.put)
    if (arguments.out / RECORDS).exists():
        records.read(arguments.out / RECORDS)  # before hours are spent
    try:
        if namespace.is_outside():  # inside nothing can be fetched
            parts.ensure(lambda line: print(f"prove: {line}", flush=True))
        namespace.enter("tests.prove")
        run(parts.ensure(), arguments)
    except (GuestError, BinaryError, ClusterError, NodeError) as error:
        print(error, file=sys.stderr)
        return 2
    except AssertionError as error:
        print(f"prove: not as it must be: {error}", file=sys.stderr)
        return 1
    return write_page(arguments.out, arguments.put)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("--order", type=order, default=ORDER, help="arms (default: each, and back again)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="the order is gone through once for each")
    parser.add_argument("--window", type=seconds, default=480.0, help="seconds measured in each block")
    parser.add_argument("--drop", type=seconds, default=960.0, help="seconds before them, in which the rules settle")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for what is measured; it is added to")
    parser.add_argument("--put", action="store_true", help=f"put the page into {README.relative_to(REPOSITORY)}")
    parser.add_argument("--page-of", type=Path, metavar="DIR", help="measure nothing: write the page of that folder")
    return parser.parse_args()


def seconds(text: str) -> float:
    """Read how long something takes: a second at least."""
    try:
        duration_seconds = float(text)
    except ValueError:
        duration_seconds = math.nan
    if not 1.0 <= duration_seconds <= 86_400.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 1 to 86400")
    return duration_seconds


def order(text: str) -> tuple[Arm, ...]:
    """Read a list of arms."""
    try:
        return tuple(Arm(word) for word in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; one of {', '.join(Arm)}") from error


def run(guest_parts: parts.Parts, arguments: argparse.Namespace) -> None:
    """Bring up control plane and node, and play the blocks."""
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-prove-"))
    payload = directory / "payload"
    copy_program(directory)  # that the agent can be imported is seen before minutes are spent
    shutil.copytree(PAYLOAD, payload, ignore=shutil.ignore_patterns("__pycache__"))
    schedule = Schedule(drop_seconds=arguments.drop, window_seconds=arguments.window)
    try:
        with control_plane(
            directory=directory / "plane", with_scheduler=True, controllers="*", extra_names=(HOST_ADDRESS,)
        ) as plane:
            create_namespace(plane, NAMESPACE)
            fence.install(plane)
            with node(guest_parts, plane, directory / "node") as guest:
                info = guest.object()["status"]["nodeInfo"]
                (out / HOW).write_text(
                    f"Kubernetes {info['kubeletVersion']}, kernel {info['kernelVersion']}, {NODE_CPUS} emulated CPUs "
                    f"(TCG), {MEMORY_MIB} MiB; each block {arguments.window:.0f} s after {arguments.drop:.0f} s in "
                    f"which the rules settle; every arm remembers the same seven days of such hours, as its own "
                    f"agent would have measured them.\n"
                )
                player = Player(node=guest, payload=payload, schedule=schedule, out=out, say=say)
                number = len(records.read(out / RECORDS)) if (out / RECORDS).exists() else 0
                for seed in arguments.seeds:
                    for arm in arguments.order:
                        number += 1
                        block = player.play(arm, number, seed)
                        records.append(out / RECORDS, block)
                        say(words(block))
    finally:
        shutil.copytree(
            directory,
            out / "logs",
            ignore=shutil.ignore_patterns("etcd", "program", "payload", "disk.img"),
            dirs_exist_ok=True,
        )
        shutil.rmtree(directory, ignore_errors=True)


def words(block: records.Block) -> str:
    """Return what a block brought, in one line."""
    kills = sum(use.oom_kills for use in block.uses.values())
    return (
        f"block {block.number}, {block.arm}: {page.requested_cores(block):.2f} cores and "
        f"{page.requested_gib(block):.2f} GiB requested, {len(block.answers)} answers, p99 "
        f"{page.text_of(quantile(page.answers([block], Arm(block.arm)), page.P99), 1)} ms, {kills} kills, "
        f"{block.resizes} resizes; node CPU {block.node_cpu_ratio:.0%}"
    )


def write_page(folder: Path, put: bool) -> int:
    """Write the page of what was measured."""
    if not (folder / RECORDS).is_file():
        print(f"prove: nothing measured in {folder}", file=sys.stderr)
        return 2
    text = page.page(records.read(folder / RECORDS), [(folder / HOW).read_text().strip()])
    (folder / PAGE).write_text(text + "\n")
    print(text)
    if put:
        put_between(README, text, page.BEGIN, page.END)
    return 0


def say(line: str) -> None:
    """Tell how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
