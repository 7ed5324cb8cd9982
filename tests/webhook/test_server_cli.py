"""``plimsoll workloads``, ``policy``, ``webhook`` and its settings, as a person meets them: over real TLS."""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.cli.client import webhook as webhook_client
from agent.cli.client.webhook import NoWebhookAnswerError, WebhookReader, add_webhook_options
from agent.cli.main import main
from agent.core.autoscalers.vpa_orders import VpaSurroundings, vpa_orders
from agent.core.cluster.facts import ClusterRule, ClusterRules, FrozenAxes
from agent.core.cluster.workload import Workload
from agent.settings import SettingsError
from agent.webhook.queries.workload_bodies import WorkloadsBody
from agent.webhook.settings import WebhookSettings, load_webhook_settings
from tests.qualities import told as told_quality
from tests.vpas import vpa
from tests.webhook.https import running
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.stack import Stack, stack

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, list[str]]]:
    """A webhook that knows one workload, and the options to reach it."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "token").write_text("good\n")
    with stack(folder) as webhook:
        webhook.report(packed(report_body(row_body(0, quality=told_quality()), row_body(1))), content_encoding="gzip")
        webhook.follow()
        with running(webhook.services, folder, names=("plimsoll-webhook.plimsoll.svc",)) as server:
            host, port = server.address
            options = [f"--webhook=https://{host}:{port}", f"--token-file={folder / 'token'}"]
            yield webhook, [*options, f"--ca-file={server.authority}"]


def test_the_list_tells_what_pods_would_request(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workloads", *served[1]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "NAMESPACE",
        "KIND",
        "NAME",
        "CONTAINERS",
        "MODE",
        "CPU",
        "MEMORY",
        "HISTORY",
        "NEWEST",
    ]
    assert lines[1].split()[:7] == ["shop", "Deployment", "web", "app", "recommend", "60m", "2.86MiB"]
    assert main(["workloads", "--namespace", "bank", *served[1]]) == 0
    assert capsys.readouterr().out == "nothing was reported yet\n"


def test_the_poorest_sized_are_listed_first(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """COST is 0.5 of excess and 60 x 0.05 of missing."""
    assert main(["workloads", "--worst", "--width", "140", *served[1]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [word for word in lines[0].split() if word.isalpha()] == ["CPU", "MEMORY"]
    assert lines[1].split()[:8] == ["NAMESPACE", "KIND", "NAME", "COST", "ABOVE", "MISSING", "EXCESS", "PEAK"]
    assert lines[2].split()[:9] == ["shop", "Deployment", "web", "3.50", "10%", "5.0%", "50%", "+10%", "-5.0%"]
    assert lines[3].startswith("workloads: 1 judged, of 1; over 1d, against the recommended request")
    assert main(["workloads", "--worst", "3", "--against", "applied", "--window", "7d", *served[1]]) == 0
    assert capsys.readouterr().out == "nobody told yet how good the sizing of 1 workload was\n"
    assert main(["workloads", "--worst", "-o", "json", "--window", "1h", *served[1]]) == 0
    (workload,) = json.loads(capsys.readouterr().out)
    assert (workload["quality"]["window"], workload["quality"]["cpu"]["recommended"]["riskRatio"]) == (
        "1h",
        0.1,
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--worst", "0"], "allowed: a whole number from 1"),
        (["--worst", "-n", "a", "--window", "2d"], "--window"),
        (["shop/web", "--worst"], "allowed: without WORKLOAD"),
        (["--window", "1d"], "allowed: with --worst"),
    ],
)
def test_worst_takes_nothing_that_it_cannot_do(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and exit code 2."""
    with pytest.raises(SystemExit) as left:
        main(["workloads", *words])
    assert left.value.code == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("name", ["shop/Deployment/web", "shop/web"])
def test_one_workload_tells_why_and_by_hour(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["workloads", name, *served[1]]) == 0
    text = capsys.readouterr().out
    assert "Deployment shop/web" in text
    assert "request    CPU 60m, memory 2.86MiB   by cruise, of 2 pods" in text
    assert "1h, 60m to 60m" in text
    assert "out-of-memory kills, the newest" in text
    assert "only grows for another" in text
    assert "over 1d    CPU recommended: 10% of minutes above, missing 50 CPU-s, excess 500 CPU-s" in text
    assert "over 7d    CPU peaks predicted: +10% -5.0% of those seen" in text


def test_json_is_the_webhooks_own(served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workloads", "shop/web", "-o", "json", *served[1]]) == 0
    assert json.loads(capsys.readouterr().out)["containers"][0]["container"] == "app"
    assert main(["workloads", "-o", "json", *served[1]]) == 0
    assert [workload["name"] for workload in json.loads(capsys.readouterr().out)] == ["web"]
    assert main(["policy", "shop/web", "-o", "json", *served[1]]) == 0
    assert json.loads(capsys.readouterr().out)["mode"]["value"] == "recommend"


def test_hours_are_drawn(served: tuple[Stack, list[str]], tmp_path: Path) -> None:
    picture = tmp_path / "web.png"
    assert main(["workloads", "shop/web", f"--png={picture}", *served[1]]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_policy_tells_what_applies_and_where_it_is_from(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    webhook, options = served
    webhook.facts.told = ClusterRules(rules=(ClusterRule(namespace="shop", mode="enforce"),), pause_reason="upgrade")
    webhook.facts.axes = FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web")
    try:
        assert main(["policy", "shop/Deployment/web", *options]) == 0
    finally:
        webhook.facts.told, webhook.facts.axes = ClusterRules(), FrozenAxes()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["mode", "enforce", "ConfigMap", "plimsoll/plimsoll,", "rule", "1"] in rows
    assert ["pause", "upgrade", "ConfigMap", "plimsoll/plimsoll"] in rows
    assert ["HPA", "CPU", "frozen", "HorizontalPodAutoscaler", "shop/web"] in rows
    assert ["VPA", "none"] in rows


def test_policy_tells_windows_and_which_object_said_them(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    webhook, options = served
    web, windows = Workload(namespace="shop", kind="Deployment", name="web"), "shrink: Europe/Berlin 0 22 * * * for 6h"

    def told(text: str) -> list[list[str]]:
        webhook.facts.vpas = {web: vpa_orders(replace(vpa("InPlace"), windows=text), VpaSurroundings())}
        assert main(["policy", "shop/Deployment/web", *options]) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    webhook.facts.told = ClusterRules(rules=(ClusterRule(namespace="shop", windows="deny: UTC 0 7 * * * for 1h"),))
    try:
        assert ["windows", *windows.split(), "VPA", "shop/web"] in told(windows)
        rows = told("shrink: now")
    finally:
        webhook.facts.vpas, webhook.facts.told = {}, ClusterRules()
    fault = "VPA shop/web: 'shrink: now' is not allowed"
    for row in (f"windows - {fault}", f"mode off {fault}"):
        assert [words for words in rows if words[: len(row.split())] == row.split()], rows


def test_policy_keeps_to_the_width(served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "shop/web", *served[1]]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) > 30
    assert main(["policy", "shop/web", "--width=30", *served[1]]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) == 30


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["workloads", "shop/nix"], 1, "nothing is known of a workload shop/nix"),
        (["workloads", "shop/Job/nix"], 1, "404: nothing is known of Job shop/nix"),
        (["policy", "shop"], 2, "shop: is not allowed; allowed: NAMESPACE/KIND/NAME"),
        (["workloads", "--png", "x.png"], 2, "--png and --policy are for one workload"),
        (["workloads", "shop/web", "-n", "bank"], 2, "--namespace is for the list; allowed: without WORKLOAD"),
        (["workloads", "shop/web", "--png", "/nowhere/x.png"], 2, "no such directory"),
        (["workloads", "shop/web", "--policy", "best"], 2, "workloads: policy: 'best' is not allowed; allowed: cruise"),
    ],
)
def test_what_cannot_be_answered_is_one_line(
    served: tuple[Stack, list[str]],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    try:
        exit_code = main([*arguments, *served[1]])
    except SystemExit as ended:
        exit_code = int(str(ended.code))
    assert exit_code == code
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        (["--webhook=http://127.0.0.1:1"], 2, "is not allowed; allowed: https://HOST:PORT"),
        (["--webhook=https://"], 2, "--webhook https://: is not allowed; allowed: https://HOST:PORT"),
        (["--webhook=https://[::1"], 2, "is not allowed; allowed: https://HOST:PORT"),
        (["--webhook=https://127.0.0.1:99999"], 2, "is not allowed; allowed: https://HOST:PORT"),
        (["--webhook=https://127.0.0.1:1/v1"], 2, "is not allowed; allowed: https://HOST:PORT"),
        (["--webhook=https://127.0.0.1:1?limit=1"], 2, "is not allowed; allowed: https://HOST:PORT"),
        (["--webhook=https://127.0.0.1:1#end"], 2, "is not allowed; allowed: https://HOST:PORT"),
        (["--webhook=https://me:good@127.0.0.1:1"], 2, "--webhook https://...@127.0.0.1:1: is not allowed"),
        (["--webhook=https://127.0.0.1:1\n2"], 2, "--webhook https://127.0.0.1:1 2: is not allowed"),
        (["--webhook=https://127.0.0.1:1"], 1, "no answer: Connection refused"),
        (["--ca-file=/dev/null"], 2, "--ca-file /dev/null: no PEM certificate in it"),
        ([f"--ca-file={REPOSITORY / 'LICENSE'}"], 2, "LICENSE: no PEM certificate in it"),
        (["--token-file=/nowhere"], 2, "/nowhere: cannot be read"),
        (["--ca-file=/nowhere"], 2, "--ca-file /nowhere: cannot be read"),
        (["--server-name=bank.example"], 1, "no answer: "),
    ],
)
def test_a_webhook_that_is_not_reached(
    served: tuple[Stack, list[str]],
    capsys: pytest.CaptureFixture[str],
    changes: list[str],
    code: int,
    words: str,
) -> None:
    try:
        exit_code = main(["workloads", *served[1], *changes])
    except SystemExit as ended:
        exit_code = int(str(ended.code))
    assert exit_code == code
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert "good" not in error  # the token


def test_without_a_token_nothing_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["workloads"])
    assert ended.value.code == 2
    assert "no token; allowed: --token-file FILE, or --kubeconfig FILE" in capsys.readouterr().err


def test_a_token_is_had_anew_while_it_goes_on_asking(
    served: tuple[Stack, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("expired\n")
    parser = argparse.ArgumentParser()
    parser.add_argument("verb")
    add_webhook_options(parser)
    client = WebhookReader(parser.parse_args(["backfill", *served[1], f"--token-file={token}"]))
    with pytest.raises(NoWebhookAnswerError, match="401"):
        client.get("/v1/workloads", WorkloadsBody)
    token.write_text("good\n")
    monkeypatch.setattr(webhook_client, "RENEW_SECONDS", -1.0)
    assert client.get("/v1/workloads", WorkloadsBody)[0].total == 1
    token.unlink()
    with pytest.raises(NoWebhookAnswerError, match="no token any more"):
        client.get("/v1/workloads", WorkloadsBody)


# The webhook's own settings


def load(**overrides: object) -> WebhookSettings:
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    return load_webhook_settings(None, environment={}, overrides=given)


def test_settings_come_from_the_same_sources_as_the_agents(tmp_path: Path) -> None:
    file = tmp_path / "webhook.yaml"
    file.write_text("listening: {port: 1, workers: 2}\ndatabase: {url: a.db}\narbiter: {evictionsPerMinute: 9}\n")
    settings = load_webhook_settings(
        file, environment={"PLIMSOLL_LISTENING_PORT": "2"}, overrides={"database.url": "postgresql://h/n"}
    )
    assert (settings.listening.port, settings.listening.workers) == (2, 2)
    assert (settings.database.url, settings.arbiter.evictions_per_minute) == ("postgresql://h/n", 9)


def test_a_password_is_not_shown() -> None:
    shown = json.dumps(load(database__url="postgresql://me:hunter2@host/name").to_dict())
    assert "hunter2" not in shown
    assert "postgresql://me:***@host/name" in shown


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"listening.prot": 1}, "unknown key; did you mean listening.port?"),
        ({"sampling.intervalSeconds": 1}, "sampling.intervalSeconds: unknown key"),
        ({"listening.port": 70000}, "allowed: a whole number from 0 to 65535"),
        ({"certificate.source": "files"}, "certificate.source: files is not allowed without"),
        ({"certificate.keyFile": "/k"}, "certificate.keyFile: is not read with certificate.source built-in"),
        ({"certificate.certificateFile": "/c"}, "certificate.certificateFile: is not read with certificate.source bu"),
        ({"certificate.leafDays": 31, "certificate.authorityDays": 30}, "certificate.leafDays: 31 is not allowed"),
        ({"arbiter.mostBackOffSeconds": 59}, "arbiter.mostBackOffSeconds: 59 is not allowed; allowed: at least arb"),
        ({"access.bodyBytes": 1 << 29}, "access.unpackedBytes: 8388608 is not allowed; allowed: at least"),
        ({"folding.retentionDays": 7}, "folding.retentionDays: 7 is not allowed; allowed: at least history.retentionD"),
        ({"bounds.maxMemoryBytes": 5}, "bounds.maxMemoryBytes: 5 is not allowed; allowed: at least bounds.min"),
    ],
)
def test_settings_that_cannot_be(overrides: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_webhook_settings(None, environment={}, overrides=overrides)
    assert words in str(refused.value)


def test_all_settings_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--webhook"]) == 0
    text = capsys.readouterr().out
    assert "listening.port  (PLIMSOLL_LISTENING_PORT)" in text
    assert "certificate.certificateFile" in text
    assert "sampling." not in text
    assert main(["settings", "--webhook", "--in-force", "--set", "listening.port=5"]) == 0
    assert json.loads(capsys.readouterr().out)["listening"]["port"] == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen", "8443"], "--listen 8443: is not allowed; allowed: ADDRESS:PORT"),
        (["--tls-cert", "a"], "--tls-cert and --tls-key: one is not allowed without the other"),
        (["--tls-cert", "/nix/cert.pem", "--tls-key", "/nix/key.pem"], "/nix/cert.pem: cannot be read: no such file"),
        (["--kubeconfig", "/nowhere"], "kubeconfig /nowhere: cannot be read"),
        (["--listen", "192.0.2.1:0"], "cannot listen on 192.0.2.1:0: "),
        (["--database", "mysql://x/y"], "mysql"),
    ],
)
def test_a_webhook_that_cannot_start_says_why_and_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tmp_path / "config").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\n"
    )
    usual = ["--listen=127.0.0.1:0", f"--database={tmp_path / 'a.db'}", f"--kubeconfig={tmp_path / 'config'}"]
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        with pytest.raises(SystemExit) as ended:
            main(["webhook", *usual, *arguments])
    finally:
        root.handlers[:], level = before
        root.setLevel(level)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


# What the agent must not pay for

WEBHOOK_ONLY = ("starlette", "uvicorn", "httptools", "sqlalchemy", "alembic", "psycopg", "cryptography")


def test_the_agent_loads_nothing_of_the_webhook() -> None:
    code = (
        "import sys, agent.cli.verbs.node.agent, agent.cli.options.startup, agent.kube.client.api\n"
        "import pkgutil, importlib, agent.node\n"
        "for one in pkgutil.walk_packages(agent.node.__path__, 'agent.node.'): importlib.import_module(one.name)\n"
        f"print(sorted(set({WEBHOOK_ONLY!r}) & set(sys.modules)),"
        " sorted(name for name in sys.modules if name.startswith('agent.webhook.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "[] []\n", done.stderr


@pytest.mark.parametrize("verb", ["webhook", "workloads", "policy"])
def test_help_of_the_new_verbs_is_quick(verb: str) -> None:
    code = (
        "import sys; from agent.cli.main import main\n"
        f"try: main(['{verb}', '--help'])\n"
        "except SystemExit: pass\n"
        f"sys.exit(str(sorted(set({(*WEBHOOK_ONLY, 'msgspec', 'numpy', 'urllib3')!r}) & set(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == "[]\n"
