"""The command ``plimsoll``: parses the command line and hands over to one verb, loaded only then."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Final, NoReturn, Protocol

from agent.cli.text.program_name import program_name
from agent.cli.verb_table import VERBS

# numpy's BLAS starts a thread per CPU and reserves memory for each; Plimsoll multiplies no matrices. Set before any
# verb imports numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class VerbModule(Protocol):
    """What a verb's module has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run it; return the exit code."""


_CHOICE: Final = re.compile(r"(?P<where>[^:]+): invalid choice: (?P<given>.*) \(choose from (?P<allowed>.*)\)", re.S)
"""As argparse words it."""
_BARE: Final = re.compile(r"--[a-z-]+=--")
_SPAN: Final = re.compile(r"(?:\d+[smhd])+")
"""What stands after ``--for``."""


class VerbParser(argparse.ArgumentParser):
    """Errors on one line: what, where, what is allowed; exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print it and leave."""
        choice = _CHOICE.fullmatch(message)
        if choice is not None:  # in the words of all other lines
            allowed = choice["allowed"].replace("'", "")
            message = f"{choice['where']}: {choice['given']} is not allowed; allowed: {allowed}"
        print(f"{self.prog}: {' '.join(message.split())} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)

    def refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        """Print that these are not understood, and list flags of the same family (``--vpa-...``), else those alike."""
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


def build_parser(verb: str | None) -> VerbParser:
    """Build the parser; only the verb that is asked for is imported and has its arguments filled in."""
    parser = VerbParser(
        prog="plimsoll",
        description="Plimsoll sizes Kubernetes pods from the node: it measures what each container really needs.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name, entry in VERBS.items():
        sub = verbs.add_parser(name, help=entry.summary, description=entry.summary, allow_abbrev=False)
        if name == verb:
            module: VerbModule = importlib.import_module(entry.module)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run, refuse=sub.refuse_unknown)
    return parser


def _give_up_stdout() -> None:
    """Point stdout to nowhere, so that Python does not complain at exit about what it still holds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code: 0 done, 1 the answer is no, 2 bad input, 3 failed, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    verb = next((word for word in words if not word.startswith("-")), None)
    parser = build_parser(verb)
    bare = next((word for word in words if _BARE.fullmatch(word)), None)
    if bare is not None:  # what argparse makes of it is different by version: an empty list, or the two dashes
        parser.error(f"argument {bare.partition('=')[0]}: expected one argument")
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
    return exit_code(arguments.run, arguments)


def exit_code(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a verb; return its exit code, or that of what ends any verb."""
    told_as = f"{program_name()} {arguments.verb}"
    if sys.stdout is None:  # started with it closed
        print(f"{program_name()}: standard output is closed: there is nowhere to write the answer", file=sys.stderr)
        return 3
    try:
        code = run(arguments)
        sys.stdout.flush()  # here, where a reader that left is no fault, and not at exit
    except KeyboardInterrupt:
        return 130
    except MemoryError:
        print(f"{told_as}: not enough memory for this", file=sys.stderr)
        return 3
    except BrokenPipeError:
        _give_up_stdout()  # the reader (head, less) left
        return 0
    except OSError as error:
        # Verbs answer for the files they name themselves; what comes here is mostly a full disk below stdout.
        _give_up_stdout()
        print(f"{told_as}: {error}", file=sys.stderr)
        return 3
    return code
