"""``plimsoll doctor``: is this machine fit for Plimsoll, what is missing, what that costs, and how to mend it.

Where an agent with a cluster runs here, it is asked how it stands there: API server, rights, token, versions.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from agent.cli.client.agent import SOCKET_OPTIONS
from agent.cli.options.settings_options import CGROUP_OPTIONS, add_options, fail, settings_from
from agent.core.machine.checkup import Check, FeatureState, judge, worst

EXIT_CODES: Final = {FeatureState.OK: 0, FeatureState.DEGRADED: 1, FeatureState.BROKEN: 3}
"""2 stays for bad input, as for every verb."""
_ASK_SECONDS: Final = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_options(parser, CGROUP_OPTIONS, SOCKET_OPTIONS)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.epilog = "Exit code: 0 all OK, 1 something degraded, 3 something broken, 2 bad input."


def format_checks(checks: tuple[Check, ...]) -> str:
    """Lay the checks out for a person: one line each, the consequence and the mending line below it where needed."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.verdict:<8}  {check.name:<{width}}  {check.found}")
        indent = " " * (10 + width + 2)
        if check.consequence:
            lines.append(f"{indent}so:   {check.consequence}")
        if check.mend:
            lines.append(f"{indent}mend: {check.mend}")
    counts = {verdict: sum(check.verdict is verdict for check in checks) for verdict in FeatureState}
    lines.append("")
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> int:
    """Check this machine."""
    from agent.sensing.discovery import DiscoveryError, UnitScope
    from agent.sensing.features import read_facts
    from agent.sensing.machine import MachineError

    settings = settings_from(arguments)
    try:
        facts = read_facts(
            configured_mount=settings.cgroup.mount,
            cgroup_root=settings.cgroup.root,
            wanted_units=settings.sampling.max_containers,
            state_directory=settings.state.directory,
            scope=UnitScope(settings.cgroup.scope),
        )
    except (MachineError, DiscoveryError) as error:
        fail(str(error))
    checks = (*judge(facts), *_cluster_checks(settings.serving.socket))
    if arguments.output == "json":
        print(json.dumps({"worst": worst(checks), "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        print(format_checks(checks))
    return EXIT_CODES[worst(checks)]


def _cluster_checks(socket_path: Path | None) -> tuple[Check, ...]:
    """Ask the agent how it stands in its cluster; nothing where none runs, or one that has no cluster."""
    from agent.core.machine.cluster_checkup import judge_cluster
    from agent.node.files.documents import CLUSTER, DocumentFormatError
    from agent.node.sockets.control import ControlError, NoAgent, Unable, request

    if socket_path is None:
        return ()
    try:
        answer = request(socket_path, "cluster", {}, timeout_seconds=_ASK_SECONDS)
        return judge_cluster(CLUSTER.from_json(answer))
    except (NoAgent, Unable):
        return ()
    except ControlError as error:
        found, mend = str(error), "ask again, as root or as the agent's user; its log says more"
    except DocumentFormatError as error:
        found, mend = f"{socket_path}: {error}", "let the agent and this command be of one release"
    consequence = "how it stands in its cluster is not known"
    return (Check(name="agent", verdict=FeatureState.DEGRADED, found=found, consequence=consequence, mend=mend),)
