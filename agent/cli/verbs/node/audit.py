"""``plimsoll audit``: the cgroup values that the kubelet should have set against what the kernel has. Reports only."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.cli.audit.kubelet_options import add_kubelet_options, rules_from
from agent.cli.options.settings_options import CGROUP_OPTIONS, add_options, fail, file_or_stdin, settings_from

if TYPE_CHECKING:
    from agent.core.cluster.pod import Pod

_SETTINGS = ("cgroup.mount", "cgroup.root", "podsFile")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    options = {option.key: option for option in CGROUP_OPTIONS if option.key in _SETTINGS}
    options["podsFile"] = replace(options["podsFile"], text=f"{options['podsFile'].text}; - reads standard input")
    add_options(parser, tuple(options.values()))
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.add_argument("--all", action="store_true", help="list the values that are equal, too")
    parser.add_argument(
        "--node",
        metavar="NAME",
        help="only pods of this node (default: this machine's, or all if the file has none of them)",
    )
    parser.add_argument(
        "--driver",
        choices=("auto", "systemd", "cgroupfs"),
        default="auto",
        help="whose kubepods is read, and whether quotas are rounded (default: auto, by its name)",
    )
    add_kubelet_options(parser)
    parser.epilog = "Exit code: 0 all equal (or unknown), 1 a value has drifted or is missing, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Audit this machine."""
    from agent.cli.audit.reserve import reserve_json, reserve_lines, reserve_view
    from agent.cli.audit.text import Heading, audit_json, audit_lines
    from agent.cli.text.spans import ansi_text, line_text
    from agent.cli.top.terminal import find_terminal
    from agent.core.machine.audit import audit
    from agent.kube.objects.pods_file import PodsFileError, load_pods
    from agent.sensing.cgroup_path import Driver
    from agent.sensing.kubelet_tree import LiveTreeError, read_kubelet_tree
    from agent.sensing.machine import MachineError, find_cgroup_mount, node_name

    settings = settings_from(arguments)
    if settings.pods_file is None:
        fail("audit: --pods is missing; allowed: --pods FILE, as kubectl get pods -A -o json prints it, or --pods -")
    if arguments.qos_reserved is not None and arguments.node_allocatable_memory is None:
        fail("audit: --qos-reserved needs the node's allocatable memory (--node-allocatable-memory SIZE)")
    pods_file = file_or_stdin(str(settings.pods_file))
    driver = None if arguments.driver == "auto" else Driver(arguments.driver)
    try:
        everyone = load_pods(pods_file)
        node, pods, notes = pods_of_node(everyone, arguments.node, node_name())
        mount = find_cgroup_mount(settings.cgroup.mount)
        live = read_kubelet_tree(mount, cgroup_root=settings.cgroup.root, driver=driver)
    except (PodsFileError, NodeError, MachineError, LiveTreeError) as error:
        fail(f"audit: {error}")
    rules = rules_from(arguments, is_systemd=(driver or live.driver) is Driver.SYSTEMD)
    report = audit(pods, live.tree, rules)
    heading = Heading(
        node=node,
        pods=len(pods),
        pods_file=pods_file.name,
        mount=str(mount),
        kubepods_path=live.kubepods_path,
        driver=live.driver,
        notes=(*notes, *(f"passed over, as it has no pods: {path}" for path in live.passed_over)),
    )
    percent = settings.pod_limits.qos_reserved_memory_percent
    reserve = (
        None
        if percent is None
        else reserve_view(pods, live.tree, percent=percent, told_memory_bytes=arguments.node_allocatable_memory)
    )
    if arguments.output == "json":
        document = audit_json(report, heading)
        if reserve is not None:
            document["qos_reserved"] = reserve_json(reserve)
        print(json.dumps(document, indent=2))
    else:
        terminal = find_terminal(sys.stdout, os.environ, use_colour=True)
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        lines = audit_lines(report, heading, width=width, show_all=arguments.all)
        for line in (*lines, *(() if reserve is None else reserve_lines(reserve))):
            print(ansi_text(line) if terminal.has_colour else line_text(line))
    return 0 if report.is_clean else 1


class NodeError(ValueError):
    """The node that was named is not in the pods file; the message is one line."""


def pods_of_node(
    pods: Sequence[Pod], wanted: str | None, machine: str
) -> tuple[str | None, tuple[Pod, ...], tuple[str, ...]]:
    """Choose the pods of the node that was asked for (None = this machine's if the file has any of its pods, else all).

    Returns:
        The node (None = all pods were taken), its pods in the file's order, and what should be said about the choice.

    Raises:
        NodeError: The node asked for has no pod in the file.
    """
    nodes = sorted({pod.node_name for pod in pods if pod.node_name is not None})
    if wanted is not None and wanted not in nodes:
        allowed = ", ".join(nodes) or "none is named"
        msg = f"--node {wanted}: no pod of the file has this spec.nodeName; allowed: {allowed}"
        raise NodeError(msg)
    node = wanted if wanted is not None else machine if machine in nodes else None
    if node is not None:
        return node, tuple(pod for pod in pods if pod.node_name == node), ()
    if len(nodes) > 1:
        named = ", ".join(nodes[:5]) + (", ..." if len(nodes) > 5 else "")
        return None, tuple(pods), (f"pods of {len(nodes)} nodes ({named}), none is {machine}: --node chooses",)
    return None, tuple(pods), ()
