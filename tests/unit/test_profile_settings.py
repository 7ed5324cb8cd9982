"""The profile as a setting: what it changes, what wins over it, and who says where a value comes from."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import pytest

from agent.cli.client.sizing_sources import _own_settings
from agent.cli.main import main
from agent.core.admission.options import AdmissionOptions
from agent.core.orders.plan_options import FitRule, HeadroomRule, OverloadOptions, PlanOptions
from agent.core.orders.policy_options import CruiseOptions, PolicyName
from agent.core.orders.profile import PROFILE_VALUES, Profile
from agent.settings import RecommendSettings, Settings, SettingsError, WindowSettings, describe_settings, load_settings
from agent.settings.keys import keys
from agent.webhook.settings import WebhookSettings, load_webhook_settings
from tests.admissions import MB, after, estimate, new_pod
from tests.pods import container

DOCUMENT = {"profile": "document"}
CONTAINER = container("app", {"cpu": "500m", "memory": "300M"}, {"memory": "600M"})


def test_the_document_changes_these_settings_of_the_agent_and_no_other() -> None:
    usual, settings = load_settings(None, environment={}), load_settings(None, environment={}, overrides=DOCUMENT)
    assert settings == dataclasses.replace(
        usual,
        profile=Profile.DOCUMENT,
        recommend=RecommendSettings(policy=PolicyName.CRUISE),
        plan=PlanOptions(fit_rule=FitRule.LITERAL, headroom=HeadroomRule.SPIKE),
        cruise=CruiseOptions(neighbour_hours=0),
        windows=WindowSettings(rate_window_seconds=300.0),
        overload=OverloadOptions(pressure_counts=False, release_load_per_cpu=1.0),
    )


def test_the_document_changes_these_settings_of_the_webhook_and_no_other() -> None:
    assert load_webhook_settings(None, environment={}, overrides=DOCUMENT) == WebhookSettings(
        profile=Profile.DOCUMENT,
        recommend=RecommendSettings(policy=PolicyName.CRUISE),
        plan=PlanOptions(fit_rule=FitRule.LITERAL, headroom=HeadroomRule.SPIKE),
        cruise=CruiseOptions(neighbour_hours=0),
        admission=AdmissionOptions(memory_limit_of_request=False, memory_limit_floor_bytes=0),
    )


def test_every_value_of_every_profile_is_of_a_setting_and_lies_in_its_range() -> None:
    known = keys() | keys(WebhookSettings)
    for values in PROFILE_VALUES.values():
        for key, value in values.items():
            assert known[key].to_value(value, is_text=False) == value, key


def test_the_webhook_sizes_a_pod_as_the_document_writes() -> None:
    sizing = load_webhook_settings(
        None, environment={}, overrides=DOCUMENT | {"bounds.roundMemoryBytes": 1}
    ).of_admission()
    known = estimate(memory_mb=100, memory_max_bytes=120 * MB)
    # 2 x 120 MB; by the default 512 MB, its floor.
    assert after(new_pod(CONTAINER), known, settings=sizing)["limits"]["memory"] == f"{240 * MB}"


@pytest.mark.parametrize("where", ["file", "environment", "command line"])
def test_a_setting_of_its_own_wins_over_the_profile_wherever_both_stand(tmp_path: Path, where: str) -> None:
    file, environment, overrides = tmp_path / "settings.yaml", {"PLIMSOLL_PROFILE": "document"}, {}
    if where == "file":
        file.write_text("cruise: {neighbourHours: 1}\n")
    else:
        file.write_text("{}")
        if where == "environment":
            environment["PLIMSOLL_CRUISE_NEIGHBOUR_HOURS"] = "1"
        else:
            overrides["cruise.neighbourHours"] = "1"
    sources: dict[str, str] = {}
    settings = load_settings(file, environment=environment, overrides=overrides, sources=sources)
    assert (settings.cruise.neighbour_hours, settings.plan.fit_rule) == (1, FitRule.LITERAL)
    assert sources["cruise.neighbourHours"] == (str(file) if where == "file" else where)
    assert (sources["profile"], sources["plan.fitRule"]) == ("environment", "profile document")
    assert {setting.key: setting.source for setting in settings.of_profile()}["cruise.neighbourHours"] == "setting"


def test_a_profile_that_is_none_and_one_that_contradicts_a_setting_end_the_start() -> None:
    for overrides, message in (
        ({"profile": "doc"}, "command line: profile: 'doc' is not allowed; allowed: default, document"),
        (
            DOCUMENT | {"windows.cpuWindowSeconds": "120"},
            "command line: windows.cpuWindowSeconds: 120 is not allowed; "
            "allowed: at least windows.rateWindowSeconds (300)",
        ),
    ):
        with pytest.raises(SettingsError) as refused:
            load_settings(None, environment={}, overrides=overrides)
        assert refused.value.errors == (message,)


def test_the_list_of_settings_tells_what_a_profile_sets() -> None:
    notes = {setting.key: setting.by_profile for setting in describe_settings() if setting.by_profile}
    assert notes == {
        "windows.rateWindowSeconds": "; profile document: 300",
        "recommend.policy": "; profile document: cruise",
        "cruise.neighbourHours": "; profile document: 0",
        "plan.fitRule": "; profile document: literal",
        "plan.headroom": "; profile document: spike",
        "overload.pressureCounts": "; profile document: false",
        "overload.releaseLoadPerCpu": "; profile document: 1",
    }


def test_plimsoll_settings_tells_where_each_value_is_from(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "one: two.yaml"
    file.write_text("profile: document\nplan: {fitRule: shared}\n")
    monkeypatch.setenv("PLIMSOLL_LOGGING_LEVEL", "debug")
    assert main(["settings", "--sources", f"--settings={file}", "--set=serving.port=1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "cruise.neighbourHours = 0  (profile document)",
        "logging.level = debug  (environment)",
        "overload.pressureCounts = false  (profile document)",
        "overload.releaseLoadPerCpu = 1  (profile document)",
        f"plan.fitRule = shared  ({file})",
        "plan.headroom = spike  (profile document)",
        f"profile = document  ({file})",
        "recommend.policy = cruise  (profile document)",
        "serving.port = 1  (command line)",
        "windows.rateWindowSeconds = 300  (profile document)",
    ]
    assert main(["settings", "--webhook", "--sources", "--set=profile=document"]) == 0
    assert "admission.memoryLimitFloorBytes = 0  (profile document)" in capsys.readouterr().out.splitlines()


def test_another_profile_is_tried_on_an_agents_state_with_the_agents_own_settings() -> None:
    own = load_settings(None, environment={}, overrides={"windows.rateWindowSeconds": 30, "cruise.historyDays": 3})
    answer = {"settings": json.loads(json.dumps(own.to_dict())), "directory": "/"}

    def tried(*assignments: str) -> Settings:
        words = argparse.Namespace(assignments=list(assignments), settings_file=None)
        return _own_settings(words, answer, Path("/socket"))

    settings = tried("profile=document")
    assert (settings.cruise.neighbour_hours, settings.plan.fit_rule) == (0, FitRule.LITERAL)
    assert (settings.windows.rate_window_seconds, settings.cruise.history_days) == (30.0, 3)
    assert tried("profile=default").cruise == own.cruise
    answer["settings"] = tried("profile=document").to_dict()
    assert tried("profile=default").plan.fit_rule is FitRule.SHARED
