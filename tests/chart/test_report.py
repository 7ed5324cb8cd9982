"""The weekly report's CronJob: off unless asked for, a command that is one, the reader's rights, no way elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from agent.cli.main import build_parser
from tests.cluster.chart import ChartError, rendered

MAILER = {"name": "x", "image": "mailer", "args": ["/report/week.html"], "volumeMounts": [{"name": "tmp"}]}


def report(**values: Any) -> list[dict[str, Any]]:
    """Return the CronJob and its NetworkPolicy."""
    manifests = rendered({"webhook": {"report": {"enabled": True, **values}}})["webhook/report"]
    return sorted(manifests, key=lambda manifest: str(manifest["kind"]))


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


def test_nothing_of_it_is_there_unless_asked_for() -> None:
    assert "webhook/report" not in rendered()
    assert "webhook/report" not in rendered({"webhook": {"enabled": False, "report": {"enabled": True}}})


def test_it_asks_as_the_reader_and_has_no_other_token() -> None:
    job, _ = report()
    pod = pod_of(job)
    assert job["spec"]["schedule"] == "0 6 * * 1"
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("plimsoll-webhook-reader", False)
    parts = rendered()
    reader = [manifest for manifest in parts["webhook/reader"] if manifest["kind"] == "ClusterRole"]
    assert [rule["verbs"] for role in reader for rule in role["rules"]] == [["get"]]
    tokens = [
        source["serviceAccountToken"]["audience"]
        for volume in pod["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
        if "serviceAccountToken" in source
    ]
    assert tokens == ["plimsoll-webhook"]
    for container in pod["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("output", ["md", "html"])
def test_its_command_is_one(output: str) -> None:
    [container] = pod_of(report(output=output)[0])["containers"]
    asked = build_parser("report").parse_args(container["args"])
    assert (asked.weekly, asked.output, asked.file) == (True, output, None)
    assert asked.webhook == "https://plimsoll-webhook.plimsoll.svc"
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(asked.token_file.parent), str(asked.ca_file.parent)} <= mounts


def test_who_sends_it_begins_when_the_file_is_whole() -> None:
    pod = pod_of(report(output="html", send=MAILER)[0])
    [writer], [sender] = pod["initContainers"], pod["containers"]
    assert "--file=/report/week.html" in writer["args"]
    assert (sender["name"], sender["image"], sender["args"]) == ("send", "mailer", ["/report/week.html"])
    assert sender["volumeMounts"] == [{"name": "report", "mountPath": "/report", "readOnly": True}, {"name": "tmp"}]
    assert not sender["securityContext"]["allowPrivilegeEscalation"]


def test_it_reaches_names_and_the_webhook_alone() -> None:
    job, policy = report()
    labels = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    names, webhook = policy["spec"]["egress"]
    assert {port["port"] for port in names["ports"]} == {53, 5353}
    [deployment] = rendered()["webhook/deployment"]
    [to] = webhook["to"]
    reached = deployment["spec"]["template"]["metadata"]["labels"]
    assert to["podSelector"]["matchLabels"].items() <= reached.items()
    assert not labels.items() >= to["podSelector"]["matchLabels"].items()
    assert [port["port"] for port in webhook["ports"]] == ["https"]


@pytest.mark.parametrize("values", [{"schedule": "monday"}, {"output": "pdf"}, {"send": "mail"}, {"when": "now"}])
def test_what_cannot_be_meant_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ChartError, match=next(iter(values))):
        report(**values)
