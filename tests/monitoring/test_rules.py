"""The chart's Prometheus rules: promtool takes them, and each alert fires when it should and only then."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from agent.settings import Settings
from agent.settings.keys import keys
from agent.webhook.settings import WebhookSettings
from tests import yaml_texts
from tests.monitoring.alert_cases import CASES, Case
from tests.monitoring.rule_files import CHART, RULE_FILES, RUNBOOK, alerts, readme_section, rules

SEVERITIES: Final = {"critical", "warning", "info"}
PROMTOOL: Final = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: apt-get install prometheus")


def promtool(*words: str | Path) -> str:
    """Run it; what it says goes into the failure."""
    done = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@needs_promtool
def test_promtool_takes_every_rule_file_without_a_lint() -> None:
    assert len(RULE_FILES) >= 4
    promtool("check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)


def test_every_alert_has_what_people_need() -> None:
    for name, rule in alerts().items():
        assert re.fullmatch(r"Plimsoll[A-Z]\w+", name)
        assert re.fullmatch(r"\d+[mh]", rule["for"]), name
        assert set(rule["labels"]) == {"severity"}
        assert rule["labels"]["severity"] in SEVERITIES, name
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, name
        assert "{{" not in rule["annotations"]["description"], f"{name}: figures belong into the summary"
        assert rule["annotations"]["description"].endswith("."), name


def test_recorded_names_say_level_metric_and_operation() -> None:
    recorded = [rule["record"] for rule in rules() if "record" in rule]
    assert len(set(recorded)) == len(recorded) > 5
    assert all(re.fullmatch(r"plimsoll:[a-z_]+:[a-z0-9_]+", name) for name in recorded)


def test_runbook_has_a_section_for_each_alert_and_no_other() -> None:
    headings = re.findall(r"^## (\S+)$", RUNBOOK.read_text(encoding="utf-8"), re.M)
    assert sorted(headings) == sorted(alerts())
    for name, rule in alerts().items():
        # As GitHub and most others make anchors of headings.
        assert rule["annotations"]["runbook_url"] == f"RUNBOOK.md#{name.lower()}"


def test_runbook_sections_say_something_and_name_alerts_that_are_there() -> None:
    text = RUNBOOK.read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        name, _, body = section.partition("\n")
        assert len(body.split("\n# ")[0].split()) >= 10, name
    assert set(re.findall(r"\bPlimsoll[A-Z]\w+", text)) == set(alerts())


def test_settings_and_values_that_the_runbook_names_are_there() -> None:
    text = RUNBOOK.read_text(encoding="utf-8")
    values = yaml_texts.load((CHART / "values.yaml").read_text(encoding="utf-8"))
    known = {*keys(Settings), *keys(WebhookSettings), *_paths(values)}
    known |= {f"webhook.settings.{key}" for key in keys(WebhookSettings)}
    named = set(re.findall(r"`([a-z][A-Za-z]+(?:\.[A-Za-z]+)+)`", text))
    assert len(named) > 20
    assert named - {"ca.crt"} <= known, sorted(named - known)


def _paths(values: Any, prefix: str = "") -> set[str]:
    if not isinstance(values, dict):
        return {prefix}
    below = [_paths(value, f"{prefix}.{key}" if prefix else key) for key, value in values.items()]
    return {prefix}.union(*below)


def test_readme_says_how_many_alerts_there_are_and_where_they_are_explained() -> None:
    assert f"{len(alerts())} alerts" in readme_section()
    assert "(RUNBOOK.md)" in readme_section()


@needs_promtool
def test_scrape_settings_of_the_readme_are_understood(tmp_path: Path) -> None:
    (jobs,) = re.findall(r"^```\n(- job_name.*?)^```$", readme_section(), re.M | re.S)
    file = tmp_path / "prometheus.yml"
    # Debian builds Prometheus without the discovery of Kubernetes: that one field is not looked at here.
    known = [
        {key: value for key, value in job.items() if key != "kubernetes_sd_configs"} for job in yaml_texts.load(jobs)
    ]
    file.write_text(json.dumps({"scrape_configs": known}), encoding="utf-8")
    promtool("check", "config", "--syntax-only", file)


def test_memory_alert_stands_at_nine_tenths_of_the_charts_limit() -> None:
    values = yaml_texts.load((CHART / "values.yaml").read_text(encoding="utf-8"))
    limit = re.fullmatch(r"(\d+)Mi", values["agent"]["resources"]["limits"]["memory"])
    assert limit is not None
    assert f"> {round(0.9 * int(limit[1]) * 2**20)} " in alerts()["PlimsollAgentMemoryHigh"]["expr"]


def test_every_alert_has_a_case() -> None:
    assert [case.alert for case in CASES] == list(dict.fromkeys(case.alert for case in CASES))
    assert {case.alert for case in CASES} == set(alerts())


def as_promtool_test(case: Case, rule: dict[str, Any]) -> dict[str, Any]:
    """Write a case as promtool takes it."""
    alert = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {**rule["annotations"], "summary": case.summary},
    }
    silent = [minute for minute in (case.quiet, case.quiet_too) if minute is not None]
    return {
        "name": case.alert,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series],
        "alert_rule_test": [
            *({"eval_time": f"{minute}m", "alertname": case.alert, "exp_alerts": []} for minute in silent),
            {"eval_time": f"{case.fires}m", "alertname": case.alert, "exp_alerts": [alert]},
        ],
    }


def write_tests(folder: Path, cases: Sequence[Case] = CASES, patience: str | None = None) -> list[Path]:
    """Write a file for each case, with the alert's own rule and those that it is made of: all of them take a minute.

    They are JSON, which is YAML.

    Args:
        folder: Where to.
        cases: Of which alerts.
        patience: In place of every ``for``; None = as it is.
    """
    named = alerts()
    recorded = {rule["record"]: rule for rule in rules() if "record" in rule}
    files = []
    for case in cases:
        rule = named[case.alert]
        needed = [recorded[name] for name in recorded if name in rule["expr"]]
        tried = rule if patience is None else {**rule, "for": patience}
        group = {"name": "tried", "rules": [*needed, tried]}
        (folder / f"{case.alert}.rules").write_text(json.dumps({"groups": [group]}), encoding="utf-8")
        document = {
            "rule_files": [f"{case.alert}.rules"],
            "evaluation_interval": "1m",
            "tests": [as_promtool_test(case, rule)],
        }
        files.append(folder / f"{case.alert}.yaml")
        files[-1].write_text(json.dumps(document), encoding="utf-8")
    return files


@needs_promtool
def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    assert promtool("test", "rules", *write_tests(tmp_path)).count("SUCCESS") == len(CASES)


@needs_promtool
def test_each_case_fails_without_its_alert_s_patience(tmp_path: Path) -> None:
    short = [case for case in CASES if case.fires < 300]  # those of days take as long as all others
    files = write_tests(tmp_path, short, patience="0m")
    done = subprocess.run(["promtool", "test", "rules", *map(str, files)], capture_output=True, text=True, check=False)
    failed = set(re.findall(r"name: (\w+),", done.stdout + done.stderr))
    # Those that fire at once wait for nobody, and some cases are quiet because the fault itself is not there.
    patient = {case.alert for case in short if alerts()[case.alert]["for"] != "0m"}
    assert failed <= patient
    assert len(failed) > len(patient) / 2, sorted(patient - failed)
