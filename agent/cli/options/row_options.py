"""Arguments that choose rows and their room, the same for every verb that shows containers. Face."""

from __future__ import annotations

import argparse
from typing import Final

_LEAST_WIDTH: Final = 20
_MOST_WIDTH: Final = 1_000_000


def add_filter_options(parser: argparse.ArgumentParser) -> None:
    """Declare ``--filter``, ``--namespace`` and ``--pod``."""
    parser.add_argument(
        "--filter",
        metavar="WORDS",
        default="",
        help="show what matches all words: a part of a name, or ns= pod= container= kind= qos= runtime= path=; "
        "* matches anything",
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="only this namespace; * matches anything")
    parser.add_argument("--pod", metavar="NAME", help="only this pod, by name or uid; * matches anything")


def filter_text(arguments: argparse.Namespace) -> str:
    """Return one filter for all three, as ``unit_filter.parse_filter`` reads it."""
    words = [str(arguments.filter)]
    words += [f"ns={arguments.namespace}"] if arguments.namespace else []
    words += [f"pod={arguments.pod}"] if arguments.pod else []
    return " ".join(word for word in words if word)


def add_look_options(parser: argparse.ArgumentParser) -> None:
    """Declare ``--width`` and ``--no-color``."""
    parser.add_argument("--width", metavar="COLUMNS", type=_width, help="default: the terminal's width; 160 in a pipe")
    parser.add_argument(
        "--no-color", action="store_true", help="no colour; the default in a pipe and where NO_COLOR is set"
    )


def _width(text: str) -> int:
    try:
        width = int(text)
    except ValueError:
        width = 0
    if not _LEAST_WIDTH <= width <= _MOST_WIDTH:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: a whole number from {_LEAST_WIDTH} on")
    return width
