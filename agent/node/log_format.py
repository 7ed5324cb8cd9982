"""How log lines look: one JSON object a line in the cluster, text on a terminal; ``extra`` holds the facts."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final, TextIO

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every record has; the rest of a record is its ``extra`` fields."""
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def _extra_of(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def _timestamp(record: logging.LogRecord) -> str:
    """RFC 3339 in UTC with milliseconds: wall clock, for people."""
    milliseconds = int(record.created * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000)) + f".{milliseconds % 1000:03d}Z"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, message, then the extra fields under their names."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; an extra field that JSON cannot hold is written as its text."""
        fields: dict[str, object] = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in _extra_of(record).items():
            fields[f"extra_{key}" if key in fields else key] = value
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """A line for people: time, level, message, then key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; a traceback follows on lines of its own."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        extra = "".join(f"  {key}={_one_line(value)}" for key, value in _extra_of(record).items())
        text = f"{clock} {record.levelname:<7} {_one_line(record.getMessage())}{extra}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _one_line(value: object) -> str:
    """Keep names from outside from forging a line or moving the cursor."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def setup(level: str, format: str, stream: TextIO | None = None) -> None:
    """Send all log lines to one stream; a second call replaces the first.

    Args:
        level: debug, info, warning or error.
        format: json, text, or auto: text for a terminal, else JSON.
        stream: Standard error unless told otherwise.
    """
    if level not in _LEVELS:
        raise ValueError(f"logging.level: {level!r} is not allowed; allowed: {', '.join(_LEVELS)}")
    if format not in ("auto", "json", "text"):
        raise ValueError(f"logging.format: {format!r} is not allowed; allowed: auto, json, text")
    target = stream if stream is not None else sys.stderr
    as_text = format == "text" or (format == "auto" and target.isatty())
    handler = logging.StreamHandler(target)
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
