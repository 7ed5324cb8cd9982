"""JSON and YAML from outside as plain values: bounded in depth, and without what lets a small text grow. Core, pure.

A value nested deeper than any document of Kubernetes or of ours ends programs (libyaml's composer by a signal), an
alias of YAML stands for a value of any size, a number of a million digits takes minutes: all three are refused before
any value is made of them. What the values mean is others' business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from yaml import Event

MOST_DEPTH: Final = 64
"""Objects and lists within each other; a pod has 15."""
LONGEST_NUMBER: Final = 300
"""Characters, in YAML; what is written so can still be compared with any other number."""
LONGEST_YAML: Final = 16 << 20
"""Characters; some 20 s to read. JSON is read fifty times as fast."""
MOST_YAML_VALUES: Final = 1 << 20
"""Half a kilobyte each while they are read; 16 MiB of pods have half as many."""
_LONGEST_SHOWN: Final = 160
_NUMBER: Final = re.compile(r"[-+]?(0x[0-9a-fA-F_]*|[0-9_:.]*)")
"""What YAML 1.1 may take for a number of any length: also in base 2, 8, 16 and 60."""
_TAGS: Final = frozenset({None, "!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map"))})
"""What may be written before a value in YAML; the others make objects, or are what the value is without them."""


class DocumentTextError(ValueError):
    """A text that is not what it should be; the message is one line."""


def decoded(content: bytes) -> str:
    """Return the text of a file, without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentTextError(f"not UTF-8 at byte {error.start} (JSON or YAML is allowed)") from error


def json_value(text: str) -> object:
    """Return the value of a JSON text.

    Raises:
        DocumentTextError: It is no JSON, NaN and Infinity too; a number is larger than 64 bits hold; it is nested
            deeper than ``MOST_DEPTH``; or takes more memory than there is.
    """
    try:
        value: object = json.loads(text, parse_int=_whole, parse_float=_float, parse_constant=_refuse_constant)
        _check_depth(value)
    except RecursionError as error:
        raise DocumentTextError(f"not JSON: {_TOO_DEEP}") from error
    except MemoryError as error:
        raise DocumentTextError(f"not JSON: {_TOO_LARGE}") from error
    except ValueError as error:
        raise DocumentTextError(f"not JSON: {_shown(str(error))}") from error
    return value


def yaml_values(text: str) -> list[object]:
    """Return the value of each document of a YAML text, in order; an empty document is None.

    Raises:
        DocumentTextError: It is no YAML, or longer than ``LONGEST_YAML``; has more values than ``MOST_YAML_VALUES``, an
            alias, a tag that makes an object, or a number longer than ``LONGEST_NUMBER``; is nested deeper than
            ``MOST_DEPTH``; or takes more memory than there is.
    """
    import yaml  # seldom met, and 3 MB that the agent would keep

    if len(text) > LONGEST_YAML:
        raise DocumentTextError(f"not YAML: {len(text)} characters; allowed: {LONGEST_YAML}, or JSON")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_events(yaml.parse(text, Loader=loader))
        return list(yaml.load_all(text, Loader=loader))
    except yaml.YAMLError as error:
        raise DocumentTextError(f"not YAML: {_yaml_fault(error)}") from error
    except MemoryError as error:
        raise DocumentTextError(f"not YAML: {_TOO_LARGE}") from error
    # What its constructors let through of a day 99, a sum in base 60 and the like.
    except (ValueError, ArithmeticError) as error:
        raise DocumentTextError(f"not YAML: {_shown(str(error))}") from error


_TOO_DEEP: Final = f"nested more than {MOST_DEPTH} deep"
_LONGEST_WHOLE: Final = 20
_TOO_MUCH: Final = 1 << 64
_TOO_LARGE: Final = "takes more memory than there is"


def _whole(text: str) -> int:
    value = int(text) if len(text) <= _LONGEST_WHOLE else _TOO_MUCH
    if not -_TOO_MUCH <= 2 * value < 2 * _TOO_MUCH:
        raise ValueError(f"{text[:_LONGEST_WHOLE]} is out of range")
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:20]} is out of range")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _check_events(events: Iterable[Event]) -> None:
    """Check a YAML text before any value is made of it."""
    import yaml

    depth = values = 0
    for event in events:
        values += isinstance(event, yaml.NodeEvent)
        if values > MOST_YAML_VALUES:
            _refuse(event, f"more than {MOST_YAML_VALUES} values; allowed: so many, or JSON")
        if isinstance(event, yaml.AliasEvent):
            _refuse(event, f"an alias (*{_shown(str(event.anchor))}) is not allowed")
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                _refuse(event, _TOO_DEEP)
            _check_tag(event, event.tag)
        elif isinstance(event, yaml.ScalarEvent):
            _check_tag(event, event.tag)
            length = len(event.value)
            if length > LONGEST_NUMBER and event.implicit[0] and _NUMBER.fullmatch(event.value):
                _refuse(event, f"a number of {length} characters; allowed: {LONGEST_NUMBER}")


def _check_tag(event: Event, tag: str | None) -> None:
    if tag not in _TAGS:
        _refuse(event, f"tag {_shown(str(tag))} is not allowed")


def _refuse(event: Event, why: str) -> NoReturn:
    mark = event.start_mark
    raise ValueError(why if mark is None else f"line {mark.line + 1}: {why}")


def _yaml_fault(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = "" if mark is None else f"line {mark.line + 1}: "
    return f"{where}{_shown(problem if isinstance(problem, str) else str(error))}"


def _shown(text: str) -> str:
    """Return a text as part of one line; it may be of any length, and quote what was read."""
    cut = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
    return " ".join("".join(char if char.isprintable() else " " for char in cut).split())
