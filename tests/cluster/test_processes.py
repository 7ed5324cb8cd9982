"""Two workers of the tests on one machine: neither is given a port that the other has."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cluster import processes
from tests.kernel.agents import REPOSITORY

ADDRESS = "127.0.0.1"
ANOTHER = """
import sys
from tests.cluster import processes
processes._PORTS = range(int(sys.argv[1]), int(sys.argv[2]))
print(*processes.free_ports(1, "127.0.0.1"))
"""


def test_ports_of_one_call_and_of_the_next_differ() -> None:
    first, second = processes.free_ports(20, ADDRESS), processes.free_ports(20, ADDRESS)
    assert len({*first, *second}) == 40


def test_another_process_is_not_given_a_port_that_is_taken_but_not_listened_on_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (begin,) = processes.free_ports(1, ADDRESS)
    places = range(begin, begin + 6)
    monkeypatch.setattr(processes, "_PORTS", places)
    mine = {begin, *processes.free_ports(2, ADDRESS)}
    words = [sys.executable, "-c", ANOTHER, str(places.start), str(places.stop)]
    theirs = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert int(theirs) in set(places) - mine
