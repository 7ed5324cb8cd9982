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
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.cluster import fence
from tests.cluster.binaries import OLD_KUBELET, BinaryError
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
from tests.e2e.node import HOST_ADDRESS, Driver, NodeError, node
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
        made = parts.ensure(with_old=with_old)
        tables = []
        if arguments.only in {None, "plain", "agent"}:
            tables += [table for driver in arguments.driver for table in run_driver(made, driver, arguments)]
        if arguments.only in {None, "budgets"}:
            tables += [run_budgets(made, driver, arguments) for driver in arguments.driver]
        if arguments.only in {None, "chart"}:
            tables += run_chart(made, arguments.driver[0], arguments)
        if arguments.only in {None, "jobs"}:
            tables += run_jobs(made, arguments.driver[0], arguments)
        if arguments.only in {None, "boost"}:
            tables += run_boost(made, arguments.driver[0], arguments)
        if arguments.only in {None, "protect"}:
            tables += run_protect(made, arguments.driver[0], arguments)
        if arguments.only in {None, "memory"}:
            tables += run_memory(made, arguments.driver[0], arguments)
        if arguments.only in {None, "soak"}:
            tables += run_soak(made, arguments.driver[0], arguments)
        if arguments.only in {None, "experiment"}:
            tables += run_experiment(made, arguments.driver[0], arguments)
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


def run_driver(made: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> list[Steps]:
    """Bring up control plane and node, take the steps, and take all down."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    tree = copy_program(directory)
    started = time.monotonic()
    tables = []
    try:
        with control_plane(
            directory=directory / "plane",
            with_scheduler=True,
            controllers="*",
            extra_names=(HOST_ADDRESS,),
        ) as plane:
            plane_seconds = time.monotonic() - started
            create_namespace(plane, NAMESPACE)
            fence.install(plane)
            with node(made, plane, directory / "node", driver=driver) as guest:
                boot = Steps(f"node, cgroup driver {driver}")
                boot.mark("control plane with scheduler is ready", plane_seconds)
                for mark, seconds in guest.marks.items():
                    boot.mark(f"guest: {mark}", seconds, "since qemu's start")
                tables.append(boot)
                if arguments.only != "agent":
                    tables.append(Steps(f"resizes by hand, cgroup driver {driver}"))
                    PlainScenario(guest, tree).run(tables[-1])
                if arguments.only != "plain":
                    tables.append(Steps(f"the agent acts, cgroup driver {driver}"))
                    ActingScenario(guest, tree, dict(arguments.settings)).run(tables[-1])
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            shutil.copytree(directory, arguments.logs / driver, ignore=shutil.ignore_patterns("etcd", "program"))
        shutil.rmtree(directory, ignore_errors=True)
    return tables


def run_budgets(made: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> Steps:
    """Bring up an older control plane and a node with a kubelet that knows no resources of whole pods."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    tree = copy_program(directory)
    steps = Steps(f"limits of whole pods, kubelet {OLD_KUBELET}, cgroup driver {driver}")
    if made.old_kubelet is None:
        raise NodeError("e2e: no older kubelet was built")
    old = replace(made, programs={**made.programs, "kubelet": made.old_kubelet})
    try:
        with control_plane(
            version=parts.OLD_SERVER,
            directory=directory / "plane",
            with_scheduler=True,
            controllers="*",
            extra_names=(HOST_ADDRESS,),
        ) as plane:
            create_namespace(plane, NAMESPACE)
            fence.install(plane)
            with node(old, plane, directory / "node", driver=driver) as guest:
                BudgetScenario(guest, tree).run(steps)
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            ignored = shutil.ignore_patterns("etcd", "program")
            shutil.copytree(directory, arguments.logs / f"budgets-{driver}", ignore=ignored)
        shutil.rmtree(directory, ignore_errors=True)
    return steps


def run_chart(made: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> list[Steps]:
    """Bring up a control plane that knows nothing of Plimsoll, and a node; install the chart there."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    steps = Steps(f"the chart, cgroup driver {driver}")
    try:
        with (
            control_plane(
                directory=directory / "plane", with_scheduler=True, controllers="*", extra_names=(HOST_ADDRESS,)
            ) as plane,
            ExitStack() as addresses,
        ):
            create_namespace(plane, NAMESPACE)
            with node(made, plane, directory / "node", driver=driver) as guest:
                ChartScenario(guest, Release(guest, directory), addresses).run(steps)
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            shutil.copytree(directory, arguments.logs / "chart", ignore=shutil.ignore_patterns("etcd"))
        shutil.rmtree(directory, ignore_errors=True)
    return [steps]


def run_jobs(made: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> list[Steps]:
    """Bring up a control plane with Plimsoll's chart, and a node; run Jobs there."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    steps = Steps(f"runs of jobs, cgroup driver {driver}")
    try:
        with (
            control_plane(
                directory=directory / "plane", with_scheduler=True, controllers="*", extra_names=(HOST_ADDRESS,)
            ) as plane,
            ExitStack() as addresses,
        ):
            create_namespace(plane, NAMESPACE)
            with node(made, plane, directory / "node", driver=driver) as guest:
                JobScenario(guest, Release(guest, directory), addresses, arguments.runs).run(steps)
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            shutil.copytree(directory, arguments.logs / "jobs", ignore=shutil.ignore_patterns("etcd"))
        shutil.rmtree(directory, ignore_errors=True)
    return [steps]


def run_boost(made: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> list[Steps]:
    """Bring up a control plane and a node, install the chart there, and start pods that are boosted."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    steps = Steps(f"CPU of starting pods, cgroup driver {driver}")
    try:
        with (
            control_plane(
                directory=directory / "plane", with_scheduler=True, controllers="*", extra_names=(HOST_ADDRESS,)
            ) as plane,
            ExitStack() as addresses,
        ):
            create_namespace(plane, NAMESPACE)
            with node(made, plane, directory / "node", driver=driver) as guest:
                BoostScenario(guest, Release(guest, directory), addresses).run(steps)
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            shutil.copytree(directory, arguments.logs / "boost", ignore=shutil.ignore_patterns("etcd"))
        shutil.rmtree(directory, ignore_errors=True)
    return [steps]


def run_protect(made: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> list[Steps]:
    """Bring up a control plane and a node, and have the agent protect pods there."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    copy_program(directory)
    steps = Steps(f"mode protect, cgroup driver {driver}")
    try:
        with control_plane(
            directory=directory / "plane", with_scheduler=True, controllers="*", extra_names=(HOST_ADDRESS,)
        ) as plane:
            create_namespace(plane, NAMESPACE)
            fence.install(plane)
            with node(made, plane, directory / "node", driver=driver) as guest:
                ProtectScenario(guest, dict(arguments.settings)).run(steps)
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            shutil.copytree(directory, arguments.logs / "protect", ignore=shutil.ignore_patterns("etcd", "program"))
        shutil.rmtree(directory, ignore_errors=True)
    return [steps]


def run_memory(made: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> list[Steps]:
    """Bring up a control plane, and a node whose kubelet sets memory.high; take the steps there."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    copy_program(directory)
    steps = Steps(f"MemoryQoS, cgroup driver {driver}")
    try:
        with control_plane(
            directory=directory / "plane", with_scheduler=True, controllers="*", extra_names=(HOST_ADDRESS,)
        ) as plane:
            create_namespace(plane, NAMESPACE)
            fence.install(plane)
            with node(made, plane, directory / "node", driver=driver, kubelet=KUBELET) as guest:
                MemoryQosScenario(guest, dict(arguments.settings)).run(steps)
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            shutil.copytree(directory, arguments.logs / "memory", ignore=shutil.ignore_patterns("etcd", "program"))
        shutil.rmtree(directory, ignore_errors=True)
    return [steps]


def run_soak(made: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> list[Steps]:
    """Bring up a control plane and a node, and let the agent live through minutes of a bad day there."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    steps = Steps(f"a bad day's minutes, cgroup driver {driver}")
    try:
        with control_plane(
            directory=directory / "plane", with_scheduler=True, controllers="*", extra_names=(HOST_ADDRESS,)
        ) as plane:
            create_namespace(plane, NAMESPACE)
            fence.install(plane)
            with node(made, plane, directory / "node", driver=driver) as guest:
                SoakScenario(guest, dict(arguments.settings)).run(steps)
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            shutil.copytree(directory, arguments.logs / "soak", ignore=shutil.ignore_patterns("etcd"))
        shutil.rmtree(directory, ignore_errors=True)
    return [steps]


def run_experiment(made: parts.Parts, driver: Driver, arguments: argparse.Namespace) -> list[Steps]:
    """Bring up a control plane and a node, and measure split against shared limits for a moment."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-e2e-"))
    tree, payload = copy_program(directory), sources.write(directory)
    steps = Steps(f"the experiment for a moment, cgroup driver {driver}")
    try:
        with control_plane(
            directory=directory / "plane", with_scheduler=True, controllers="*", extra_names=(HOST_ADDRESS,)
        ) as plane:
            create_namespace(plane, NAMESPACE)
            with node(made, plane, directory / "node", driver=driver) as guest:
                smoke.run(guest, tree, payload, steps)
                if arguments.stay:
                    stay(directory, plane.kubectl)
    finally:
        if arguments.logs is not None:
            left_out = shutil.ignore_patterns("etcd", "program", "payload")
            shutil.copytree(directory, arguments.logs / "experiment", ignore=left_out)
        shutil.rmtree(directory, ignore_errors=True)
    return [steps]


def stay(directory: Path, kubectl: Path) -> None:
    """Tell how to look around, and wait."""
    print(f"e2e: nsenter -t {os.getpid()} -n {kubectl} --kubeconfig {directory}/plane/admin.kubeconfig get pods -A")
    input("e2e: Enter ends it ")


if __name__ == "__main__":
    sys.exit(main())
