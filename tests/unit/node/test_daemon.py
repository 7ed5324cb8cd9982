"""The agent put together, on a tree that is a directory: what it says of itself once it serves."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.node.daemon import Agent
from agent.node.sockets.control import request
from agent.settings import Settings


@pytest.fixture(autouse=True)
def _collected_as_before() -> Iterator[None]:
    yield
    gc.unfreeze()  # an agent freezes what is loaded when it serves


def settings(tmp_path: Path, socket: Path | None) -> Settings:
    mount = tmp_path / "cgroup"
    (mount / "kubepods").mkdir(parents=True)
    (mount / "cgroup.controllers").write_text("cpu memory\n")
    known = Settings()
    return replace(
        known,
        cgroup=replace(known.cgroup, mount=mount),
        state=replace(known.state, directory=None),
        serving=replace(known.serving, port=0, socket=socket),
    )


def serving_record(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    (record,) = (log_record for log_record in caplog.records if log_record.message == "serving")
    return record


@pytest.mark.slow
def test_an_agent_without_a_socket_logs_null_and_no_path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), Agent(settings(tmp_path, None), source="agent"):
        pass
    assert vars(serving_record(caplog))["socket"] is None


@pytest.mark.slow
def test_an_agent_with_a_socket_logs_its_path_and_answers_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "agent.sock"
    with caplog.at_level(logging.INFO), Agent(settings(tmp_path, path), source="agent") as agent:
        assert request(path, "ping", timeout_seconds=60.0)["metrics"] == agent.metrics_url
    assert vars(serving_record(caplog))["socket"] == str(path)
    assert not path.exists()
