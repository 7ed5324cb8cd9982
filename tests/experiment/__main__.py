"""``python -m tests.experiment`` (``make experiment``): split against shared limits on a real kubelet in a guest.

Writes what was measured to build/experiment (JSON Lines and a page) as it goes; a file ``enough`` there ends it after
the present block, and the rest is done. ``--put`` also puts the page into the
chart's README. Exit code 0: measured; 1: a step was not seen; 2: the node could not be had, or nothing was measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.cluster import fence
from tests.cluster.binaries import KUBERNETES, BinaryError
from tests.cluster.control_plane import control_plane
from tests.cluster.identities import create_namespace
from tests.cluster.processes import ClusterError
from tests.cluster.webhook_process import registration, webhook
from tests.e2e import namespace, parts
from tests.e2e.agent_pod import AgentPod
from tests.e2e.node import HOST_ADDRESS, MEMORY_MIB, Node, NodeError, node
from tests.e2e.program import copy_program
from tests.e2e.workloads import NAMESPACE
from tests.experiment import page, sources
from tests.experiment.arms import ACTING, BUDGET_MIB, BUDGET_MILLICORES, Arm
from tests.experiment.experiment import CPU_SECONDS, NODE_CPUS, TRIAL, Experiment, Schedule
from tests.experiment.records import read_lines, write_lines
from tests.experiment.spaces import Terms
from tests.guest.kernel import GuestError
from tests.guest.machine import REPOSITORY

ORDER: Final = (Arm.SPLIT, Arm.POD, Arm.POD, Arm.SPLIT, Arm.RESIZED, Arm.SIZED)
OUT: Final = REPOSITORY / "build" / "experiment"
CHART_PAGE: Final = REPOSITORY / "charts" / "plimsoll" / "README.md"
RECORDS, NOTES, PAGE, ENOUGH = "records.jsonl", "notes.json", "page.md", "enough"
WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def main() -> int:
    """Run it, or only write the page of what was run before."""
    arguments = parse()
    if arguments.page_of:
        return write_page(arguments.page_of, arguments.put)
    try:
        if namespace.is_outside():  # inside nothing can be fetched
            parts.ensure(lambda line: print(f"experiment: {line}", flush=True))
        namespace.enter("tests.experiment")
        run(parts.ensure(), arguments)
    except (GuestError, BinaryError, ClusterError, NodeError) as error:
        print(error, file=sys.stderr)
        return 2
    except AssertionError as error:
        print(f"experiment: not as it must be: {error}", file=sys.stderr)
        return 1
    return write_page([arguments.out], arguments.put)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.experiment", description=__doc__)
    parser.add_argument("--order", type=order, default=ORDER, help="arms (default: A,B1,B1,A,C,D)")
    parser.add_argument("--pods", type=int, default=3, help="spaces of each arm (default: %(default)s)")
    parser.add_argument("--window", type=float, default=420.0, help="seconds measured in each block")
    parser.add_argument("--drop", type=float, default=60.0, help="seconds before them that do not count")
    parser.add_argument("--rest", type=float, default=15.0, help="seconds between two rounds of a pod")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for what is measured; a fresh one")
    parser.add_argument("--put", action="store_true", help=f"put the page into {CHART_PAGE.relative_to(REPOSITORY)}")
    parser.add_argument(
        "--page-of", type=Path, nargs="+", metavar="DIR", help="measure nothing: write the page of these runs' folders"
    )
    return parser.parse_args()


def order(text: str) -> tuple[Arm, ...]:
    """Read a list of arms."""
    try:
        arms = tuple(Arm(word) for word in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; one of {', '.join(Arm)}") from error
    if Arm.WRITTEN in arms and {Arm.POD, Arm.SIZED} & set(arms):
        raise argparse.ArgumentTypeError(
            "B2 is for a kubelet that knows no pod-level limits: not in a run with B1 or D"
        )
    return arms


def run(kit: parts.Parts, arguments: argparse.Namespace) -> None:
    """Bring up control plane, webhook, node and agent, and run the blocks."""
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=False)
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-experiment-"))
    try:
        version = parts.OLD_SERVER if Arm.WRITTEN in arguments.order else KUBERNETES
        with experiment_node(chosen(kit, arguments.order), directory, version) as (guest, tree, payload):
            terms = Terms(pods=arguments.pods, counts=TRIAL, rest_seconds=arguments.rest, stagger_seconds=4.0)
            schedule = Schedule(drop_seconds=arguments.drop, window_seconds=arguments.window)
            experiment = Experiment(guest, tree, payload, terms, schedule, say)
            experiment.terms = replace(terms, counts=experiment.calibrate())
            if needs_agent(arguments.order):
                writes = Arm.WRITTEN in arguments.order
                experiment.agent = AgentPod(guest, writes_cgroups=writes)
                experiment.agent.start({"podLimits.writeCgroups": "true"} if writes else {})
            facts = {
                "Kubernetes": guest.object()["status"]["nodeInfo"]["kubeletVersion"],
                "kernel": guest.object()["status"]["nodeInfo"]["kernelVersion"],
                "runc": kit.runc_origin,
                "order": ",".join(arguments.order),
                "window": f"{arguments.window:.0f}",
                "drop": f"{arguments.drop:.0f}",
                "counts": json.dumps(experiment.terms.counts),
            }
            experiment.notes.update(facts)
            experiment.prepare(dict.fromkeys(arguments.order))
            if experiment.agent is not None:
                experiment.audit()
            for arm in arguments.order:
                if (out / ENOUGH).exists():
                    say(f"{out / ENOUGH} is there: no further block")
                    break
                seen = len(experiment.operations)
                experiment.measure(arm)
                write_lines(out / RECORDS, experiment.operations[seen:])
                write_lines(out / RECORDS, experiment.blocks[-1:])
                (out / NOTES).write_text(json.dumps(experiment.notes, indent=2) + "\n")
                decisions(experiment, out / f"decisions-{len(experiment.blocks)}-{arm}.json")
            if experiment.agent is None:  # nothing was resized: what holds now held all the time
                experiment.audit()
            for arm in dict.fromkeys(arguments.order):
                experiment.edges(arm)
                (out / NOTES).write_text(json.dumps(experiment.notes, indent=2) + "\n")
    finally:
        shutil.copytree(
            directory, out / "logs", ignore=shutil.ignore_patterns("etcd", "program", "payload", "disk.img")
        )
        shutil.rmtree(directory, ignore_errors=True)


def needs_agent(arms: Sequence[Arm]) -> bool:
    """Return whether a run has an agent: in all its blocks, or in none."""
    return any(arm in ACTING for arm in arms)


def chosen(kit: parts.Parts, arms: Sequence[Arm]) -> parts.Parts:
    """Give the parts with the older kubelet for B2, and without Plimsoll's image where nothing of it runs in a pod."""
    if Arm.WRITTEN in arms and kit.old_kubelet is not None:  # it was asked for
        kit = replace(kit, programs={**kit.programs, "kubelet": kit.old_kubelet})
    if not needs_agent(arms):
        kit = replace(kit, images=tuple(image for image in kit.images if image.name in {"load.tar", "pause.tar"}))
    return kit


@contextmanager
def experiment_node(kit: parts.Parts, directory: Path, version: str) -> Iterator[tuple[Node, Path, Path]]:
    """Have a node with the webhook in front of its API server; gives it, Plimsoll's tree and the payload."""
    tree, payload = copy_program(directory), sources.write(directory)
    with control_plane(
        version, directory=directory / "plane", with_scheduler=True, controllers="*", extra_names=(HOST_ADDRESS,)
    ) as plane:
        create_namespace(plane, NAMESPACE)
        fence.install(plane)
        with node(kit, plane, directory / "node") as guest, webhook(plane, directory) as hook:
            plane.admin.create(WEBHOOKS, registration(hook.port, NAMESPACE, plane.authority))
            yield guest, tree, payload


def decisions(experiment: Experiment, file: Path) -> None:
    """Keep what the agent decided last."""
    if experiment.agent is not None:
        file.write_text(json.dumps(experiment.agent.ask("events", limit=400)["items"], indent=1) + "\n")


def write_page(folders: Sequence[Path], put: bool) -> int:
    """Write the page of what was measured: several runs one after the other, as each has calibrated its work anew."""
    parts = []
    for folder in folders:
        if not (folder / RECORDS).is_file():
            print(f"experiment: nothing measured in {folder}", file=sys.stderr)
            return 2
        parts.append(page_of(folder))
    text = "\n\n".join(parts)
    (folders[0] / PAGE).write_text(text + "\n")
    print(text)
    if put:
        page.put(CHART_PAGE, text)
    return 0


def page_of(folder: Path) -> str:
    """Return the page of one run."""
    done, blocks = read_lines(folder / RECORDS)
    notes = json.loads((folder / NOTES).read_text())
    wanted = ", ".join(f"{name} {seconds:g}" for name, seconds in CPU_SECONDS.items())
    how = [
        f"Kubernetes {notes.get('Kubernetes', KUBERNETES)}, kernel {notes.get('kernel')}, {NODE_CPUS} emulated CPUs "
        f"(TCG), {MEMORY_MIB} MiB; budget of a pod {BUDGET_MILLICORES}m and {BUDGET_MIB} MiB; blocks in the order "
        f"{' '.join(block.arm for block in blocks)} of {notes.get('window')} s each, the {notes.get('drop')} s "
        f"before them dropped. CPU-seconds wanted: {wanted}.",
        *(f"- {name}: {text}" for name, text in notes.items() if " " in name),
    ]
    return page.page(done, blocks, how)


def say(line: str) -> None:
    """Tell how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
