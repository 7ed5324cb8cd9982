"""``python -m tests.e2e`` (``make e2e``): a real kubelet in a guest, and the table of what was seen on it.

Exit code 0: every step was seen; 1: not every one; 2: the node could not be had.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.cluster import fence
from tests.cluster.binaries import KUBERNETES, OLDEST, BinaryError
from tests.cluster.control_plane import control_plane
from tests.cluster.identities import create_namespace
from tests.cluster.processes import ClusterError
from tests.e2e import namespace, parts
from tests.e2e.acting import ActingScenario
from tests.e2e.boosts import BoostScenario
from tests.e2e.budgets import BudgetScenario
from tests.e2e.charted import ChartScenario
from tests.e2e.jobs import JobScenario
from tests.e2e.memory_qos import KUBELET, MemoryQosScenario
from tests.e2e.node import HOST_ADDRESS, Driver, Node, NodeError, node
from tests.e2e.program import copy_program
from tests.e2e.protected import ProtectScenario
from tests.e2e.release import Release
from tests.e2e.scenario import PlainScenario
from tests.e2e.soaked import SoakScenario
from tests.e2e.steps import Steps, summary
from tests.e2e.workloads import NAMESPACE
from tests.experiment import smoke, sources
from tests.guest.kernel import GuestError

PARTS: Final = ("plain", "agent", "budgets", "chart", "jobs", "boost", "protect", "memory", "soak", "experiment")
RUNS: Final = 100
SYSTEMD: Final = "/lib/systemd/systemd"


def main() -> int:
    """Run the drivers asked for, one node after the other."""
    arguments = parse()
    try:
        with_old = arguments.only in {None, "budgets"}
        if namespace.is_outside():  # inside nothing can be fetched
            parts.ensure(lambda line: print(f"e2e: {line}", flush=True), with_old=with_old)
        namespace.enter()
        kit = parts.ensure(with_old=with_old)
        tables = []
        if arguments.only in {None, "plain", "agent"}:
            tables += [table for driver in arguments.driver for table in run_driver(kit, driver, arguments)]
        if arguments.only in {None, "budgets"}:
            tables += [run_budgets(kit, driver, arguments) for driver in arguments.driver]
        for part, run in _ON_FIRST_DRIVER.items():
            if arguments.only in {None, part}:
                tables.append(run(kit, arguments.driver[0], arguments))
        tables = [table for table in tables if table.rows]
    except (GuestError, BinaryError, ClusterError, NodeError) as error:
        print(error, file=sys.stderr)
        return 2
    print(summary(tables))
    return 1 if any(table.failures() for table in tables) else 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e", description=__doc__)
    parser.add_argument(
        "--driver",
        action="append",
        choices=list(Driver),
        type=Driver,
        help="cgroup driver; may be repeated (default: both, systemd where this machine has systemd)",
    )
    parser.add_argument(
        "--only",
        choices=PARTS,
        help="plain: resizes by hand; agent: by the agent; budgets: limits of whole pods, on an older kubelet; "
        "chart: Plimsoll as Helm installs it; jobs: runs of CronJobs, Jobs and workflows; boost: CPU of starting pods; "
        "protect: by the agent in mode protect; memory: under a kubelet with memoryThrottlingFactor; "
        "soak: minutes of `make soak`; experiment: three minutes of `make experiment` (default: all)",
    )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        type=setting,
        metavar="KEY=VALUE",
        help="a setting of the agent; may be repeated",
    )
    parser.add_argument(
        "--runs", type=int, default=RUNS, metavar="COUNT", help="of the CronJob in the part jobs (default: %(default)s)"
    )
    parser.add_argument("--logs", type=Path, help="keep certificates and logs in this folder (must not exist)")
    parser.add_argument("--stay", action="store_true", help="leave the last node running until Enter is pressed")
    arguments = parser.parse_args()
    if arguments.driver is None:
        has_systemd = Path(SYSTEMD).exists()
        arguments.driver = [Driver.CGROUPFS, Driver.SYSTEMD] if has_systemd else [Driver.CGROUPFS]
        if not has_systemd and not namespace.is_outside():
            print(f"e2e: the systemd driver is left out: no {SYSTEMD} on this machine")
    return arguments


def setting(text: str) -> tuple[str, str]:
    """Read ``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A control plane and a node that joined it."""

    directory: Path
    tree: Path
    """The program, for parts that run it by themselves."""
    plane_seconds: float
    """Until the control plane was ready."""
    node: Node
    settings: Mapping[str, str]
    """Of the agent, from the command line."""
    addresses: ExitStack
    """For what leads to the node, and outlives it."""

    @property
    def release(self) -> Release:
        """Return the chart, not installed yet."""
        return Release(self.node, self.directory)


@contextmanager
def scene(
    kit: parts.Parts,
    driver: Driver,
    arguments: argparse.Namespace,
    *,
    name: str,
    has_fence: bool = True,
    server: str = KUBERNETES,
    kubelet: Mapping[str, Any] | None = None,
    prepare: Callable[[Path], object] = lambda _: None,
) -> Iterator[Scene]:
    """Bring up a control plane and a node, and take all down at the end.

    Args:
        name: Of the folder in which ``--logs`` keeps certificates and logs.
        has_fence: The control plane knows Plimsoll's admission policies; False where the chart brings them.
        server: Version of Kubernetes.
        kubelet: Of its configuration, beside what every node has.
        prepare: Writes into the directory what the node is to find there; before it boots.
    """
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    try:
        tree = copy_program(directory)
        prepare(directory)
        started = time.monotonic()
        with (
            control_plane(
                version=server,
                directory=directory / "plane",
                with_scheduler=True,
                controllers="*",
                extra_names=(HOST_ADDRESS,),
            ) as plane,
            ExitStack() as addresses,
        ):
            plane_seconds = time.monotonic() - started
            create_namespace(plane, NAMESPACE)
            if has_fence:
                fence.install(plane)
            with node(kit, plane, directory / "node", driver=driver, kubelet=kubelet) as guest:
                yield Scene(
                    directory=directory,
                    tree=tree,
                    plane_seconds=plane_seconds,
                    node=guest,
                    settings=dict(arguments.settings),
                    addresses=addresses,
                )
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            left_out = shutil.ignore_patterns("etcd", "program", "payload")
            shutil.copytree(directory, arguments.logs / name, ignore=left_out)
        shutil.rmtree(directory, ignore_errors=True)


def run_driver(kit: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> list[Steps]:
    """Resize by hand, then have the agent act."""
    tables = []
    with scene(kit, driver, arguments, name=driver) as at:
        tables.append(Steps(f"node, cgroup driver {driver}"))
        tables[-1].mark("control plane with scheduler is ready", at.plane_seconds)
        for mark, seconds in at.node.marks.items():
            tables[-1].mark(f"guest: {mark}", seconds, "since qemu's start")
        if arguments.only != "agent":
            tables.append(Steps(f"resizes by hand, cgroup driver {driver}"))
            PlainScenario(at.node, at.tree).run(tables[-1])
        if arguments.only != "plain":
            tables.append(Steps(f"the agent acts, cgroup driver {driver}"))
            ActingScenario(at.node, at.tree, at.settings).run(tables[-1])
    return tables


def run_budgets(kit: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> Steps:
    """Have the agent keep limits of whole pods on a kubelet that knows no resources of them."""
    if kit.old_kubelet is None:
        raise NodeError("e2e: no older kubelet was built")
    old = replace(kit, programs={**kit.programs, "kubelet": kit.old_kubelet})
    steps = Steps(f"limits of whole pods, kubelet {OLDEST}, cgroup driver {driver}")
    with scene(old, driver, arguments, name=f"budgets-{driver}", server=parts.OLD_SERVER) as at:
        BudgetScenario(at.node, at.tree).run(steps)
    return steps


def run_chart(kit: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> Steps:
    """Install the chart."""
    steps = Steps(f"the chart, cgroup driver {driver}")
    with scene(kit, driver, arguments, name="chart", has_fence=False) as at:
        ChartScenario(at.node, at.release, at.addresses).run(steps)
    return steps


def run_jobs(kit: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> Steps:
    """Install the chart and run Jobs."""
    steps = Steps(f"runs of jobs, cgroup driver {driver}")
    with scene(kit, driver, arguments, name="jobs", has_fence=False) as at:
        JobScenario(at.node, at.release, at.addresses, arguments.runs).run(steps)
    return steps


def run_boost(kit: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> Steps:
    """Install the chart and start pods that are boosted."""
    steps = Steps(f"CPU of starting pods, cgroup driver {driver}")
    with scene(kit, driver, arguments, name="boost", has_fence=False) as at:
        BoostScenario(at.node, at.release, at.addresses).run(steps)
    return steps


def run_protect(kit: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> Steps:
    """Have the agent protect pods."""
    steps = Steps(f"mode protect, cgroup driver {driver}")
    with scene(kit, driver, arguments, name="protect") as at:
        ProtectScenario(at.node, at.settings).run(steps)
    return steps


def run_memory(kit: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> Steps:
    """Have the agent act under a kubelet that sets memory.high."""
    steps = Steps(f"MemoryQoS, cgroup driver {driver}")
    with scene(kit, driver, arguments, name="memory", kubelet=KUBELET) as at:
        MemoryQosScenario(at.node, at.settings).run(steps)
    return steps


def run_soak(kit: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> Steps:
    """Let the agent live through minutes of a bad day."""
    steps = Steps(f"a bad day's minutes, cgroup driver {driver}")
    with scene(kit, driver, arguments, name="soak") as at:
        SoakScenario(at.node, at.settings).run(steps)
    return steps


def run_experiment(kit: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> Steps:
    """Measure split against shared limits for a moment."""
    steps = Steps(f"the experiment for a moment, cgroup driver {driver}")
    with scene(kit, driver, arguments, name="experiment", has_fence=False, prepare=sources.write) as at:
        smoke.run(at.node, at.tree, at.directory / sources.FOLDER, steps)
    return steps


_ON_FIRST_DRIVER: Final[Mapping[str, Callable[[parts.Parts, Driver, argparse.Namespace], Steps]]] = {
    "chart": run_chart,
    "jobs": run_jobs,
    "boost": run_boost,
    "protect": run_protect,
    "memory": run_memory,
    "soak": run_soak,
    "experiment": run_experiment,
}


def stay(directory: Path, kubectl: Path) -> None:
    """Tell how to look around, and wait."""
    print(f"e2e: nsenter -t {os.getpid()} -n {kubectl} --kubeconfig {directory}/plane/admin.kubeconfig get pods -A")
    input("e2e: Enter ends it ")


if __name__ == "__main__":
    sys.exit(main())
