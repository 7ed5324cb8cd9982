"""Options that several verbs share, and how they become settings: the command line wins over environment and file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from agent.settings import Settings


@dataclass(frozen=True, slots=True)
class Option:
    """A flag that stands for one setting."""

    flag: str
    key: str
    metavar: str
    text: str


CGROUP_OPTIONS: Final = (
    Option("--cgroup-mount", "cgroup.mount", "DIR", "cgroup v2 mount to read (default: the one found)"),
    Option("--cgroup-root", "cgroup.root", "PATH", "the kubelet's --cgroup-root below the mount (default: /)"),
    Option("--scope", "cgroup.scope", "SCOPE", "what to watch: auto, kubernetes or machine (default: auto)"),
    Option("--state-dir", "state.directory", "DIR", "directory of history and rings; none = in memory only"),
    Option("--pods", "podsFile", "FILE", "a PodList as kubectl get pods -o json prints it: names, requests, limits"),
)
KUBERNETES_OPTIONS: Final = (
    Option("--node", "nodeName", "NAME", "this node's name in Kubernetes (default: the host name)"),
    Option(
        "--kubeconfig", "kubernetes.kubeconfig", "FILE", "kubeconfig file, to reach the API server from outside a pod"
    ),
)
SAMPLING_OPTIONS: Final = (
    Option("--interval", "sampling.intervalSeconds", "SECONDS", "time between two sweeps (default: 1)"),
    Option("--sampler", "sampling.sampler", "NAME", "which sampler: auto, native or reference (default: auto)"),
)
SERVING_OPTIONS: Final = (
    Option("--address", "serving.address", "IP", "address of /metrics (default: 127.0.0.1)"),
    Option("--port", "serving.port", "PORT", "port of /metrics; 0 = any free one (default: 9473)"),
    Option("--socket", "serving.socket", "PATH", "unix socket for the other verbs; none = no socket"),
)


def add_options(
    parser: argparse.ArgumentParser, *groups: tuple[Option, ...], lister: str = "plimsoll settings"
) -> None:
    """Add flags for settings, ``--settings`` and ``--set``; all are kept under their setting's key."""
    group = parser.add_argument_group("settings", f"{lister} lists all of them")
    group.add_argument("--settings", metavar="FILE", type=Path, dest="settings_file", help="a YAML file of settings")
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="any setting by its key, for instance recommend.policy=vpa; may be repeated",
    )
    for option in (option for options in groups for option in options):
        group.add_argument(option.flag, dest=f"setting {option.key}", metavar=option.metavar, help=option.text)


def overrides_from(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the settings named on the command line, key -> text; ``--set`` without ``=`` ends the command."""
    overrides: dict[str, object] = {}
    for assignment in arguments.assignments:
        key, separator, value = str(assignment).partition("=")
        if not separator:
            fail(f"--set {assignment}: no '=' in it; allowed: KEY=VALUE, for instance recommend.policy=vpa")
        overrides[key] = value
    for name, value in vars(arguments).items():
        if name.startswith("setting ") and value is not None:
            overrides[name.removeprefix("setting ")] = value
    return overrides


def settings_from(arguments: argparse.Namespace, **more: object) -> Settings:
    """Load the settings in force for this command; all faults are listed on stderr, code 2.

    Args:
        arguments: Parsed by a parser that ``add_options`` extended.
        more: Settings the verb insists on unless the command line says otherwise, ``section__key`` for section.key.
    """
    insisted = {name.replace("__", "."): value for name, value in more.items()}
    return _loaded(arguments, {**insisted, **overrides_from(arguments)})[0]


def sourced_settings_from(arguments: argparse.Namespace) -> tuple[Settings, Mapping[str, str]]:
    """Load the settings in force as ``settings_from``; with where each comes from that is no default, by key."""
    return _loaded(arguments, overrides_from(arguments))


def _loaded(arguments: argparse.Namespace, overrides: Mapping[str, object]) -> tuple[Settings, Mapping[str, str]]:
    from agent.settings import SettingsError, load_settings

    sources: dict[str, str] = {}
    try:
        settings = load_settings(arguments.settings_file, environment=os.environ, overrides=overrides, sources=sources)
    except SettingsError as error:
        from agent.cli.text.spans import harmless

        for line in error.errors:
            print(harmless(f"plimsoll: {line}"), file=sys.stderr)
        raise SystemExit(2) from error
    return settings, sources


def file_or_stdin(text: str) -> Path:
    """Read the name of a file to read, for ``type=`` of an argument; ``-`` is standard input."""
    return Path("/dev/stdin" if text == "-" else text)


def fail(message: str) -> NoReturn:
    """Print what is wrong on one line, ``VERB: `` in front where it is about one, and leave with code 2."""
    from agent.cli.text.program_name import program_name
    from agent.cli.text.spans import harmless
    from agent.cli.verb_table import VERBS

    verb, _, rest = message.partition(": ")
    # Names of files and what stands in them may break lines and steer terminals.
    print(
        harmless(f"{program_name()} {verb}: {rest}" if verb in VERBS else f"{program_name()}: {message}"),
        file=sys.stderr,
    )
    raise SystemExit(2)
