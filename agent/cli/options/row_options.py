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
        help="all words must hold: a part of a name, or ns= pod= container= kind= qos= runtime= path= with * allowed",
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="this namespace only; * allowed")
    parser.add_argument("--pod", metavar="NAME", help="this pod only, by name or uid; * allowed")


def filter_text(arguments: argparse.Namespace) -> str:
    """Return one filter for all three, as ``unit_filter.parse_filter`` reads it."""
    words = [str(arguments.filter)]
    words += [f"ns={arguments.namespace}"] if arguments.namespace else []
    words += [f"pod={arguments.pod}"] if arguments.pod else []
    return " ".join(word for word in words if word)


def add_look_options(parser: argparse.ArgumentParser) -> None:
    """Declare ``--width`` and ``--no-color``."""
    parser.add_argument("--width", metavar="COLUMNS", type=_width, help="default: as the terminal has; 160 in a pipe")
    parser.add_argument("--no-color", action="store_true", help="no colour; neither with NO_COLOR set nor in a pipe")


def _width(text: str) -> int:
    try:
        width = int(text)
    except ValueError:
        width = 0
    if not _LEAST_WIDTH <= width <= _MOST_WIDTH:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: a whole number from {_LEAST_WIDTH} on")
    return width
