"""Flags made from the typed settings of policies and bounds."""

from __future__ import annotations

import argparse

import pytest

from agent.cli.options.policy_options import SECTIONS, add_policy_options, flag_of, policy_names
from agent.cli.options.settings_options import add_options, settings_from
from agent.core.orders.policy_options import ControlledResources, PolicyName
from agent.settings.keys import keys


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in keys().values():
        monkeypatch.delenv(spec.variable, raising=False)


def parser_of(*sections: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_options(parser)
    add_policy_options(parser, sections or tuple(SECTIONS))
    return parser


def test_every_policy_has_its_section() -> None:
    assert {f"policy {name}" for name in PolicyName} < set(SECTIONS.values())


def test_every_setting_of_the_sections_has_its_flag_and_its_help() -> None:
    parser = parser_of()
    text = parser.format_help()
    for key, spec in keys().items():
        if spec.section in SECTIONS:
            assert f"{flag_of(key)} VALUE" in text
            parsed = parser.parse_args([flag_of(key), "x"])
            assert vars(parsed)[f"setting {key}"] == "x"


def test_flag_spells_the_key_with_hyphens() -> None:
    assert flag_of("vpa.targetCpuPercentile") == "--vpa-target-cpu-percentile"


def test_flags_become_settings_with_their_types() -> None:
    words = ["--vpa-target-cpu-percentile", "0.95", "--crane-oom-protection", "false"]
    words += ["--bounds-controlled-resources", "cpu", "--bounds-max-cpu-millicores", "none"]
    settings = settings_from(parser_of().parse_args(words))
    assert settings.vpa.target_cpu_percentile == 0.95
    assert settings.crane.oom_protection is False
    assert settings.bounds.controlled_resources is ControlledResources.CPU
    assert settings.bounds.max_cpu_millicores is None


def test_value_out_of_range_is_refused_with_the_allowed_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        settings_from(parser_of().parse_args(["--vpa-target-cpu-percentile", "2"]))
    assert ended.value.code == 2
    assert "vpa.targetCpuPercentile: '2' is not allowed; allowed: a number from 0 to 1" in capsys.readouterr().err


def test_only_the_sections_asked_for_become_flags() -> None:
    text = parser_of("vpa").format_help()
    assert "--vpa-oom-bump-up-ratio" in text
    assert "--crane-" not in text


def test_policy_names_are_read_in_their_order() -> None:
    assert policy_names("vpa, cruise") == (PolicyName.VPA, PolicyName.CRUISE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("krr", "'krr' is no policy; allowed: cruise, vpa, crane, plimsoll"),
        ("", "'' is no policy"),
        ("vpa,", "'' is no policy"),
        ("vpa,vpa", "vpa is given twice"),
    ],
)
def test_wrong_policy_names_are_refused(text: str, said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        policy_names(text)
