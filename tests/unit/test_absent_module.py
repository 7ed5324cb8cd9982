"""Modules that are kept away while others are imported."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from agent.absent_module import absent

_AGENT = """
import sys
import agent.kube.objects.list_stream
assert "msgspec" in sys.modules
assert "typing_extensions" not in sys.modules
import msgspec, typing_extensions
class Row(msgspec.Struct):
    name: str
    more: list[msgspec.Raw] | None = None
print(msgspec.json.decode('{"name": "a"}', type=Row).name)
"""


def test_what_is_absent_is_not_found_and_can_be_imported_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    monkeypatch.setattr("builtins.print", lambda *_: None)  # it prints what it is known for
    with absent("this"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("this")
    assert importlib.import_module("this").__name__ == "this"
    monkeypatch.delitem(sys.modules, "this")


def test_what_is_loaded_stays() -> None:
    with absent("json"):
        assert importlib.import_module("json") is sys.modules["json"]
    assert "json" in sys.modules


def test_the_agent_reads_lists_without_the_names_that_typing_has_too() -> None:
    done = subprocess.run([sys.executable, "-c", _AGENT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "a\n"), done.stderr
