"""What the chart's pages say of its values is so: nobody is sent to what Helm refuses, or promised too much."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests import yaml_texts
from tests.chart.documented_values import documented_values
from tests.cluster.chart import CHART, rendered
from tests.image.cache import REPOSITORY

README: Final = CHART / "README.md"
RUNBOOK: Final = CHART / "RUNBOOK.md"
RULES: Final = sorted((CHART / "files/rules").glob("*.yaml"))
PAGES: Final = (README, RUNBOOK, *RULES)
DOCUMENTATION: Final = {entry.key: entry.text for entry in documented_values()}


def refused_settings() -> set[str]:
    """Return the settings that the chart keeps to itself, as templates/checks.yaml lists them."""
    checks = (CHART / "templates/checks.yaml").read_text()
    [agent, webhook] = re.findall(r"range \$key, \$instead := dict\n(.*?)-}}", checks, re.S)
    settings = {name for part in (agent, webhook) for name in re.findall(r'^  "([\w.]+)" "', part, re.M)}
    assert {"arbiter.mode", "state.directory"} <= settings
    return settings


def section(page: Path, heading: str) -> str:
    [body] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", page.read_text(), re.M | re.S)
    return str(body)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_pages_send_nobody_to_a_setting_that_the_chart_refuses(page: Path) -> None:
    text = page.read_text()
    values = set(DOCUMENTATION)
    for name in refused_settings() - values:
        if "." in name:
            assert not re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text), name


def test_setting_of_buffers_that_helm_takes_is_named_with_its_place() -> None:
    """Of the webhook's settings alone: below `settings` the schema refuses it."""
    for text in (section(RUNBOOK, "PlimsollBuffersContested"), (CHART / "files/rules/buffers.yaml").read_text()):
        assert "webhook.settings.buffers.mode" in text
    assert rendered({"buffers": {"enabled": True}, "webhook": {"settings": {"buffers": {"mode": "on"}}}})


def test_nobody_is_promised_that_agents_stop_sooner_than_they_hear_of_it() -> None:
    [row] = [line for line in README.read_text().splitlines() if line.startswith("| stop all writes")]
    [runbook] = re.findall(r"^To stop every write.*?(?=^# )", RUNBOOK.read_text(), re.M | re.S)
    for text in (row, runbook, DOCUMENTATION["cluster.pause"]):
        assert "a minute or two" in text
        assert "`plimsoll pause`" in text


def test_helm_is_told_to_wait_longer_than_the_hook_may_take() -> None:
    [job] = [hook for hook in rendered({"uninstall": {"restore": True}})["uninstall/retire"] if hook["kind"] == "Job"]
    for text in (section(README, "Leaving"), DOCUMENTATION["uninstall.restore"]):
        [minutes] = re.findall(r"helm uninstall plimsoll -n plimsoll --timeout (\d+)m", text)
        assert int(minutes) * 60 > job["spec"]["activeDeadlineSeconds"]


def test_what_outlives_the_release_is_told() -> None:
    issued = {"webhook": {"certificate": {"source": "cert-manager", "issuerRef": {"name": "ours"}}}}
    [certificate] = rendered(issued)["webhook/certificate"]
    _, _, stays = section(README, "Leaving").partition("What stays:")
    for name in (certificate["spec"]["secretName"], "agent.state.hostPath", "webhook.persistence.keep"):
        assert f"`{name}`" in stays


def test_fence_is_told_as_it_is() -> None:
    [row] = [line for line in section(README, "What it opens").splitlines() if line.startswith("| the fence around it")]
    _, _, may, may_not, _ = row.split("|")
    assert "`fence.unannotated=refuse`" in may
    assert "annotated off or recommend" in may_not


@pytest.mark.parametrize("page", [README, REPOSITORY / "README.md"], ids=["chart", "repository"])
def test_every_first_install_names_an_image_that_can_be_pulled(page: Path) -> None:
    text = " ".join(page.read_text().split())
    commands = re.findall(r"helm (?:install|template) plimsoll charts/plimsoll [^`|]*", text)
    assert commands
    assert [command for command in commands if "image.repository=REGISTRY/plimsoll" not in command] == []


def test_nobody_hands_hooks_to_kubectl_which_would_carry_them_out_at_once() -> None:
    for page in (README, RUNBOOK, REPOSITORY / "README.md"):
        commands = re.findall(r"helm template [^`]*", page.read_text())
        assert [command for command in commands if "--no-hooks" not in command] == [], page
    assert "helm template plimsoll charts/plimsoll -n plimsoll --no-hooks" in README.read_text()


def test_where_pods_have_ipv6_alone_both_programs_are_told_to_listen_there() -> None:
    assert "no IPv4 address" in section(README, "Troubleshooting")
    text = " ".join(section(README, "What it needs").split())
    keys = ("settings.serving.address", "webhook.settings.listening.address")
    for key in keys:
        assert f"--set {key}=::" in text
    address = {"address": "::"}
    parts = rendered({"settings": {"serving": address}, "webhook": {"settings": {"listening": address}}})
    for template, setting in (("agent/settings", "serving"), ("webhook/settings", "listening")):
        [config_map] = parts[template]
        assert yaml_texts.load(config_map["data"]["settings.yaml"])[setting]["address"] == "::"


def test_agents_that_enforce_are_called_by_their_name() -> None:
    daemon_sets = rendered({"mode": "enforce", "enforceNodes": {"pool": "canary"}})["agent/daemonset"]
    names = {daemon_set["metadata"]["name"] for daemon_set in daemon_sets}
    assert len(names) == 2
    for page in (README, RUNBOOK):
        assert set(re.findall(r"ds/(plimsoll-agent[a-z-]*)", page.read_text())) == names, page


def test_runbook_finds_every_agent_by_a_label_of_both_kinds() -> None:
    label = re.findall(r"get pods -l (\S+)=(\S+)", RUNBOOK.read_text())[0]
    for daemon_set in rendered({"mode": "enforce", "enforceNodes": {"pool": "canary"}})["agent/daemonset"]:
        assert daemon_set["spec"]["template"]["metadata"]["labels"][label[0]] == label[1]


def test_runbook_names_every_loop_that_may_stick() -> None:
    text = section(RUNBOOK, "PlimsollLoopStuck")
    begun = re.compile(r'loops\.begin\("(\w+)"\)|\._loop\(\s*"(\w+)"')
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "agent").rglob("*.py")]
    loops = {first or second for source in sources for first, second in begun.findall(source)}
    assert {"sampling", "fold", "vpas", "hpas"} <= loops
    assert [loop for loop in sorted(loops) if f"`{loop}`" not in text] == []


def test_alert_of_forbidden_evictions_names_the_value_that_gives_the_right() -> None:
    groups = yaml_texts.load((CHART / "files/rules/webhook.yaml").read_text())["groups"]
    [alert] = [rule for group in groups for rule in group["rules"] if rule.get("alert") == "PlimsollEvictionsForbidden"]
    assert "evictions.enabled" in alert["annotations"]["description"]
    assert "`evictions.enabled`" in section(RUNBOOK, "PlimsollEvictionsForbidden")
    assert "webhook/rights-evictions" in rendered({"evictions": {"enabled": True}})
