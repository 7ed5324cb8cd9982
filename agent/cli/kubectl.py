"""The command ``kubectl plimsoll``: verbs of plimsoll from anywhere, through the API server and nothing beside it.

Verbs about a node run beside its agent, as by ``kubectl exec``; those about the cluster ask the webhook through a
forward of their own. Arguments are checked here first, in the words of the verb itself.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.client.kubeconfig import ClusterAccess, add_context, add_installed_in, connected, refusal
from agent.cli.main import VerbModule, VerbParser, exit_code
from agent.cli.text.program_name import PLUGIN_NAME
from agent.cli.verb_table import VERBS

if TYPE_CHECKING:
    from agent.cli.client.node_agent import Target
    from agent.kube.client.credentials import Credentials

_OWN_NAMES: Final = frozenset({"target", "context", "kubeconfig", "namespace", "installed_in"})
"""Arguments that are understood here; others go to the agent as they are."""
_LOCAL_METAVARS: Final = frozenset({"FILE", "DIR", "PATH"})
"""Options that name a file mean one beside the agent there, which nobody who types them has in mind."""
_LOCAL_NAMES: Final = frozenset({"samples_itself"})
_LEAST_WIDTH: Final = 60
"""Of ``why``, which has the most."""


class About(Enum):
    """Whom a verb asks, and about what."""

    NODE = auto()
    NODE_OR_POD = auto()
    POD = auto()
    CLUSTER = auto()


KUBECTL_VERBS: Final[dict[str, About]] = {
    "top": About.NODE_OR_POD,
    "recommend": About.NODE_OR_POD,
    "why": About.POD,
    "plan": About.NODE_OR_POD,
    "events": About.NODE_OR_POD,
    "pause": About.NODE,
    "resume": About.NODE,
    "doctor": About.NODE,
    "workloads": About.CLUSTER,
    "policy": About.CLUSTER,
    "buffers": About.CLUSTER,
    "cost": About.CLUSTER,
    "report": About.CLUSTER,
    "gitops": About.CLUSTER,
    "ui": About.CLUSTER,
    "mcp": About.CLUSTER,
}


class _TargetError(Exception):
    """What was asked for cannot be had; one line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return its exit code as ``plimsoll`` has them."""
    words = list(sys.argv[1:] if argv is None else argv)
    at = next((index for index, word in enumerate(words) if not word.startswith("-")), len(words))
    verb = words[at] if at < len(words) else None
    # What all nodes decided the webhook knows; what one did, its agent.
    is_cluster = "--cluster" in words if verb == "events" else KUBECTL_VERBS.get(verb or "") is About.CLUSTER
    parser, verb_parser = _parsers(verb, is_cluster=is_cluster)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        (verb_parser or parser).refuse_unknown(unknown)
    if arguments.version:
        from agent.version import installed_version

        print(f"{PLUGIN_NAME} {installed_version()}")
        return 0
    if verb_parser is None:
        parser.print_help()
        return 2
    if is_cluster:
        return exit_code(_ask_webhook, arguments)
    passed = passed_words(verb_parser, words[at + 1 :])
    return exit_code(lambda known: _ask_agent(known, passed), arguments)


def _parsers(verb: str | None, *, is_cluster: bool) -> tuple[VerbParser, VerbParser | None]:
    """Return the command's parser, and that of the verb where it is known; only its module is loaded."""
    parser = VerbParser(
        prog=PLUGIN_NAME,
        description="Plimsoll sizes Kubernetes pods from the node: its verbs, through the API server.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    chosen: VerbParser | None = None
    for name, about in KUBECTL_VERBS.items():
        summary = VERBS[name].summary
        verb_parser = verbs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        if name == verb:
            _add_arguments(verb_parser, name, About.CLUSTER if is_cluster else about)
            chosen = verb_parser
    return parser, chosen


def _add_arguments(parser: VerbParser, verb: str, about: About) -> None:
    """Declare the verb's own arguments, and those of kubectl."""
    if about in (About.NODE, About.NODE_OR_POD):
        words = (
            "the node" if about is About.NODE else "a node, or a pod: then its node; node/NAME or pod/NAME says which"
        )
        parser.add_argument("target", metavar="NODE" if about is About.NODE else "NODE|POD", help=words)
    module: VerbModule = importlib.import_module(VERBS[verb].module)
    module.add_arguments(parser)
    flags = {flag: action for action in parser._actions for flag in action.option_strings}
    for action in flags.values() if about is not About.CLUSTER else ():
        if _is_local(action):
            action.help = argparse.SUPPRESS
    group = parser.add_argument_group("kubectl", "as kubectl has them, after the verb")
    if "--context" not in flags:
        add_context(group)
    if "--kubeconfig" not in flags:
        group.add_argument("--kubeconfig", metavar="FILE", type=Path, help="default: $KUBECONFIG, else ~/.kube/config")
    if "--namespace" not in flags and about is not About.CLUSTER:
        group.add_argument("-n", "--namespace", metavar="NAME", help="namespace of the pod (default: the context's)")
    if "--plimsoll-namespace" not in flags:
        add_installed_in(group)


def _is_local(action: argparse.Action) -> bool:
    is_file = action.metavar in _LOCAL_METAVARS and bool(action.option_strings)
    return (is_file or action.dest in _LOCAL_NAMES) and action.dest not in _OWN_NAMES


def passed_words(parser: VerbParser, words: Sequence[str]) -> list[str]:
    """Return the options among a verb's words that are for the agent; words that the parser has understood.

    Raises:
        SystemExit: An option is about files, of which the agent has others; one line, code 2.
    """
    by_flag = {flag: action for action in parser._actions for flag in action.option_strings}
    passed: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--" or not word.startswith("-"):
            continue  # nothing but what the verb is about stands alone
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        action = by_flag[name]
        if _is_local(action):
            parser.error(f"{name}: is for files and processes of one machine; allowed: plimsoll there")
        taken = [word]
        if action.nargs is None and word == name:
            taken.append(next(left))
        if action.dest not in _OWN_NAMES:
            passed += taken
    return passed


def _ask_agent(arguments: argparse.Namespace, passed: Sequence[str]) -> int:
    """Run the verb beside the agent that answers for the target."""
    from agent.cli.client.node_agent import NoAgentError, UnknownTargetError
    from agent.cli.options.settings_options import fail
    from agent.cli.text.spans import harmless
    from agent.kube.client.errors import KubeError
    from agent.kube.objects.json_reader import ConvertError

    cluster = connected(arguments)
    try:
        target = _target(arguments, cluster)
        return _run_there(arguments, cluster.credentials, target, passed)
    except UnknownTargetError as error:
        fail(f"{arguments.verb}: {error}")
    except (NoAgentError, _TargetError, KubeError, ConvertError) as error:
        print(harmless(f"{PLUGIN_NAME} {arguments.verb}: {error}"), file=sys.stderr)
        return 1


def _target(arguments: argparse.Namespace, cluster: ClusterAccess) -> Target:
    from agent.cli.client.node_agent import AgentFinder
    from agent.kube.client.api import HttpApi
    from agent.kube.client.errors import ApiError

    finder = AgentFinder(HttpApi(cluster.credentials), arguments.installed_in)
    about = KUBECTL_VERBS[arguments.verb]
    try:
        if about is About.NODE:
            return finder.of_node(arguments.target)
        find = finder.of_pod if about is About.POD else finder.of_either
        name: str = arguments.name if about is About.POD else arguments.target
        return find(name, cluster.namespace, is_namespace_given=cluster.is_namespace_given)
    except ApiError as error:
        raise _TargetError(refusal(error)) from error


def _run_there(arguments: argparse.Namespace, credentials: Credentials, target: Target, passed: Sequence[str]) -> int:
    from agent.cli.client.raw_terminal import raw_terminal
    from agent.cli.client.retire import CONTAINER
    from agent.cli.top.terminal import find_terminal, terminal_width
    from agent.kube.client.errors import ApiError
    from agent.kube.client.pod_exec import CommandEnd, Console, converse

    terminal = find_terminal(sys.stdout, os.environ, use_colour=True)
    is_live = (
        arguments.verb == "top"
        and terminal.is_interactive
        and not (arguments.once or arguments.output is not None or arguments.at > 0)
    )
    words = ["plimsoll", arguments.verb, *passed, *_scope(arguments, target)]
    if not is_live and sys.stdout.isatty() and getattr(arguments, "width", 0) is None:
        words += ["--width", str(max(terminal_width(), _LEAST_WIDTH))]

    def run(console: Console | None = None) -> CommandEnd:
        return converse(
            credentials,
            namespace=arguments.installed_in,
            pod=target.agent.name,
            container=CONTAINER,
            command=words,
            show=_show,
            console=console,
        )

    try:
        if is_live:
            with raw_terminal() as console:
                done = run(console)
        else:
            done = run()
    except ApiError as error:
        raise _TargetError(refusal(error)) from error
    if done.code is not None:
        return done.code
    raise _TargetError(f"agent {target.agent.name} on node {target.agent.node}: {done.fault}")


def _scope(arguments: argparse.Namespace, target: Target) -> list[str]:
    """Return what tells the verb there which rows are meant."""
    if target.pod is None:
        return ["--namespace", arguments.namespace] if _has_rows(arguments) and arguments.namespace else []
    if KUBECTL_VERBS[arguments.verb] is About.POD:
        return [str(target.pod)]
    return ["--namespace", target.pod.namespace, "--pod", target.pod.pod]


def _has_rows(arguments: argparse.Namespace) -> bool:
    return KUBECTL_VERBS[arguments.verb] is About.NODE_OR_POD


def _show(channel: int, content: bytes) -> None:
    """Write what a command wrote, where it wrote it."""
    stream = sys.stdout if channel == 1 else sys.stderr
    stream.buffer.write(content)
    stream.flush()


def _ask_webhook(arguments: argparse.Namespace) -> int:
    """Run the verb here, through a forward to the webhook that ends with it."""
    from agent.cli.client.kubeconfig import forwarded
    from agent.cli.client.webhook import DEFAULT_URL, NoWebhookAnswerError
    from agent.cli.text.spans import harmless

    module: VerbModule = importlib.import_module(VERBS[arguments.verb].module)
    if arguments.webhook != DEFAULT_URL or getattr(arguments, "history", None) is not None:
        return module.run(arguments)
    try:
        with forwarded(arguments):
            return module.run(arguments)
    except NoWebhookAnswerError as error:
        print(harmless(f"{PLUGIN_NAME} {arguments.verb}: {error}"), file=sys.stderr)
        return 1
