"""The hand-written types of the extension name what the extension has."""

from __future__ import annotations

import ast

import pytest

from tests.native.compiling import ROOT

module = pytest.importorskip("agent.sensing._sampler", reason="the C sampler is not built", exc_type=ImportError)
STUB = ast.parse((ROOT / "agent" / "sensing" / "_sampler.pyi").read_text(encoding="utf-8"))


def members(class_name: str) -> dict[str, ast.stmt]:
    """What a class of the stub declares, by name."""
    declarations: dict[str, ast.stmt] = {}
    for node in ast.walk(STUB):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for member in node.body:
                if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                    declarations[member.target.id] = member
                elif isinstance(member, ast.FunctionDef):
                    declarations[member.name] = member
    return declarations


def test_stub_lib_names_what_the_compiled_lib_has() -> None:
    assert set(members("_Lib")) == set(dir(module.lib))


def test_stub_functions_take_as_many_arguments_as_the_compiled_ones() -> None:
    functions = {name: node for name, node in members("_Lib").items() if isinstance(node, ast.FunctionDef)}
    assert len(functions) == 19
    for name, node in functions.items():
        declared = len(node.args.posonlyargs) - 1  # self
        assert declared == len(module.ffi.typeof(getattr(module.lib, name)).args), name


def test_stub_ffi_names_only_what_ffi_has() -> None:
    assert set(members("_FFI")) <= set(dir(module.ffi))


@pytest.mark.parametrize(
    ("class_name", "c_name"),
    [
        ("Geometry", "pl_geometry"),
        ("SweepResult", "pl_sweep_result"),
        ("Stats", "pl_stats"),
        ("LaneReading", "pl_lane_reading"),
        ("QuietLane", "pl_quiet_lane"),
        ("Limits", "pl_limits"),
    ],
)
def test_stub_structs_have_the_fields_of_the_c_structs(class_name: str, c_name: str) -> None:
    assert list(members(class_name)) == [name for name, _ in module.ffi.typeof(c_name).fields]
