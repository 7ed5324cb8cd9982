"""Log lines as machines and people read them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from agent.node import log_format as logs


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _root_logger_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_json_line_has_the_fields_and_the_extra() -> None:
    stream = io.StringIO()
    logs.setup("info", "json", stream)
    logging.getLogger("agent.x").warning("state set aside", extra={"path": "/a\nb", "level": "x", "pods": {1}})
    (line,) = lines(stream)
    content = json.loads(line)
    assert content.pop("ts").endswith("Z")
    assert content == {
        "level": "warning",
        "logger": "agent.x",
        "message": "state set aside",
        "path": "/a\nb",
        "extra_level": "x",
        "pods": "{1}",
    }


def test_json_exception_is_on_the_same_line() -> None:
    stream = io.StringIO()
    logs.setup("info", "json", stream)
    try:
        int("broken\nin two")
    except ValueError:
        logging.getLogger("agent.x").exception("sweep failed")
    (line,) = lines(stream)
    assert "ValueError: invalid literal" in json.loads(line)["exception"]


def test_text_line_is_one_line_whatever_a_name_holds() -> None:
    stream = Terminal()
    logs.setup("debug", "auto", stream)
    logging.getLogger("agent.x").info("watching %s", "a\x1b[31m\nb", extra={"containers": 3})
    (line,) = lines(stream)
    assert line.endswith("INFO    watching a\\x1b[31m\\nb  containers=3")


def test_auto_without_a_terminal_is_json() -> None:
    stream = io.StringIO()
    logs.setup("info", "auto", stream)
    logging.getLogger("agent.x").info("hello")
    assert json.loads(lines(stream)[0])["message"] == "hello"


def test_level_holds_back_what_is_below_and_a_second_setup_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.setup("debug", "text", first)
    logs.setup("warning", "text", second)
    logging.getLogger("agent.x").info("quiet")
    logging.getLogger("agent.x").error("loud")
    assert first.getvalue() == ""
    assert len(lines(second)) == 1


@pytest.mark.parametrize(("level", "format_"), [("loud", "json"), ("info", "xml")])
def test_setup_refuses_what_is_not_known(level: str, format_: str) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        logs.setup(level, format_)
