"""The command ``plimsoll``: parses the command line and hands over to one verb, loaded only then."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

# numpy's BLAS starts a thread per CPU and reserves memory for each; Plimsoll multiplies no matrices. Set before any
# verb imports numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class _VerbModule(Protocol):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: where it lives and its line in the help."""

    module: str
    summary: str


VERBS: Final[dict[str, Verb]] = {
    "run": Verb("agent.cli.verbs.run", "watch this machine and show a live table; serve metrics"),
    "agent": Verb(
        "agent.cli.verbs.agent", "the DaemonSet's process: watch, serve metrics and the socket, draw nothing"
    ),
    "top": Verb("agent.cli.verbs.top", "live table of pods and containers: usage, pressure, throttling, memory"),
    "recommend": Verb(
        "agent.cli.verbs.recommend", "what every container should request, and why; or why it may not be said"
    ),
    "plan": Verb(
        "agent.cli.verbs.plan", "the plan of this node: what fits, who gets what, evictions, steps, invariants"
    ),
    "events": Verb("agent.cli.verbs.events", "what was decided and done on this node, newest first"),
    "pause": Verb("agent.cli.verbs.pause", "stop every write on this node, at once; measuring goes on"),
    "resume": Verb("agent.cli.verbs.resume", "end the pause"),
    "pin": Verb("agent.cli.verbs.pin", "leave one pod alone; without a name, what is pinned and paused"),
    "unpin": Verb("agent.cli.verbs.unpin", "let a pinned pod be sized again"),
    "restore": Verb("agent.cli.verbs.restore", "give pods the requests back that they had before they were resized"),
    "doctor": Verb("agent.cli.verbs.doctor", "is this machine fit for it: what works, what does not, how to mend it"),
    "why": Verb(
        "agent.cli.verbs.why", "everything behind one recommendation: data, steps, bounds, what would change it"
    ),
    "audit": Verb("agent.cli.verbs.audit", "compare the kubelet's cgroup values with what they should be"),
    "simulate": Verb("agent.cli.verbs.simulate", "replay traces through policies: slack, shortfall, resizes, reaction"),
    "record": Verb("agent.cli.verbs.record", "write what a node measures into a compact file"),
    "replay": Verb("agent.cli.verbs.replay", "what is in a recording; any decision over it again, at any moment of it"),
    "webhook": Verb(
        "agent.cli.verbs.webhook", "the central process: reports in, sizes of new pods out, evictions judged"
    ),
    "workloads": Verb(
        "agent.cli.verbs.workloads", "what all nodes learnt of the cluster's workloads; of one, why and by hour"
    ),
    "buffers": Verb(
        "agent.cli.verbs.buffers", "the cluster's CapacityBuffers: chunks asked for and given, and what decided"
    ),
    "policy": Verb(
        "agent.cli.verbs.policy", "what applies to a workload - mode, policy, bounds, HPA, VPA - and where it is from"
    ),
    "admission": Verb(
        "agent.cli.verbs.admission", "what would be changed in a new pod, and why; from files, without a cluster"
    ),
    "retire": Verb("agent.cli.verbs.retire", "end all agents of a cluster in order, originals put back if asked for"),
    "settings": Verb("agent.cli.verbs.settings", "every setting with its default, unit and reason"),
}


_CHOICE: Final = re.compile(r"(?P<where>[^:]+): invalid choice: (?P<given>.*) \(choose from (?P<allowed>.*)\)", re.S)
"""As argparse words it."""
_SPAN: Final = re.compile(r"(?:\d+[smhd])+")
"""What stands after ``--for``."""


class _Parser(argparse.ArgumentParser):
    """Errors on one line: what, where, what is allowed; exit code 2."""

    def error(self, message: str) -> NoReturn:
        choice = _CHOICE.fullmatch(message)
        if choice is not None:  # in the words of all other lines
            allowed = choice["allowed"].replace("'", "")
            message = f"{choice['where']}: {choice['given']} is not allowed; allowed: {allowed}"
        print(f"{self.prog}: {' '.join(message.split())} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        """Say that these are not understood, and list flags of the same family (``--vpa-...``), else those alike."""
        import difflib  # for mistakes only

        flags = [flag for action in self._actions for flag in action.option_strings]
        asked = [word.partition("=")[0] for word in words if word.startswith("--")]
        families = tuple("-".join(word.split("-")[:3]) + "-" for word in asked)
        near = [flag for flag in flags if flag.startswith(families)]
        near = near or [flag for word in asked for flag in difflib.get_close_matches(word, flags, n=3)]
        if "--for" in flags:
            near += [f"--for {word}" for word in words if _SPAN.fullmatch(word)]
        allowed = f"; allowed: {', '.join(dict.fromkeys(near))}" if near else ""
        self.error(f"unrecognized arguments: {' '.join(words)}{allowed}")


def build_parser(verb: str | None) -> _Parser:
    """Build the parser; only the verb that is asked for is imported and has its arguments filled in."""
    parser = _Parser(
        prog="plimsoll",
        description="Plimsoll sizes Kubernetes pods from the node: it measures what each container really needs.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name, entry in VERBS.items():
        sub = verbs.add_parser(name, help=entry.summary, description=entry.summary, allow_abbrev=False)
        if name == verb:
            module: _VerbModule = importlib.import_module(entry.module)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run, refuse=sub.refuse_unknown)
    return parser


def _give_up_stdout() -> None:
    """Point stdout to nowhere, so that Python does not complain at exit about what it still holds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; give the exit code: 0 done, 1 the answer is no, 2 bad input, 3 failed, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    verb = next((word for word in words if not word.startswith("-")), None)
    parser = build_parser(verb)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        refuse: Callable[[Sequence[str]], NoReturn] = getattr(arguments, "refuse", parser.refuse_unknown)
        refuse(unknown)  # the verb's own help is named
    if arguments.version:
        from agent.version import installed_version

        print(f"plimsoll {installed_version()}")
        return 0
    if arguments.verb is None:
        parser.print_help()
        return 2
    if sys.stdout is None:  # started with it closed
        print("plimsoll: standard output is closed: there is nowhere to answer", file=sys.stderr)
        return 3
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        code = run(arguments)
        sys.stdout.flush()  # here, where a reader that left is no fault, and not at exit
    except KeyboardInterrupt:
        return 130
    except MemoryError:
        print(f"plimsoll {arguments.verb}: this takes more memory than there is", file=sys.stderr)
        return 3
    except BrokenPipeError:
        _give_up_stdout()  # the reader (head, less) left
        return 0
    except OSError as error:
        # Verbs answer for the files they name themselves; what comes here is mostly a full disk below stdout.
        _give_up_stdout()
        print(f"plimsoll {arguments.verb}: {error}", file=sys.stderr)
        return 3
    return code
