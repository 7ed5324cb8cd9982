"""Settings: three sources, one answer, all faults at once."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.settings import (
    LogFormat,
    SamplerChoice,
    ScopeChoice,
    Settings,
    SettingsError,
    StateSettings,
    default_socket,
    default_state_directory,
    describe_settings,
    load_settings,
    settings_help,
)

HOME = {"HOME": "/home/ann", "XDG_RUNTIME_DIR": "/run/user/7", "XDG_STATE_HOME": "/home/ann/.state"}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plimsoll.yaml"
    path.write_text(text)
    return path


def errors_of(
    path: Path | None, environment: dict[str, str] | None = None, overrides: dict[str, object] | None = None
) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(path, environment=environment or {}, overrides=overrides)
    assert all("\n" not in line for line in caught.value.errors)
    return caught.value.errors


def test_settings_without_any_source_are_the_defaults() -> None:
    settings = load_settings(None, environment={})
    assert settings == dataclasses.replace(Settings(), state=settings.state, serving=settings.serving)
    assert settings.sampling.interval_seconds == 1.0
    assert settings.windows.percentile == 0.75
    assert settings.serving.port == 9473
    assert not settings.metrics.per_container


def test_settings_command_line_beats_environment_beats_file(tmp_path: Path) -> None:
    path = write(tmp_path, "sampling: {intervalSeconds: 2, relistSeconds: 20, maxContainers: 50}\n")
    settings = load_settings(
        path,
        environment={"PLIMSOLL_SAMPLING_INTERVAL_SECONDS": "0.5", "PLIMSOLL_SAMPLING_RELIST_SECONDS": "15"},
        overrides={"sampling.intervalSeconds": "0.25"},
    )
    assert settings.sampling.interval_seconds == 0.25
    assert settings.sampling.relist_seconds == 15.0
    assert settings.sampling.max_containers == 50


def test_settings_every_kind_of_value_comes_out_typed(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
sampling: {sampler: reference}
cgroup: {mount: /host/sys/fs/cgroup, root: /kubelet, scope: kubernetes}
state: {directory: none}
serving: {address: "::", port: 0, socket: /tmp/x.sock}
metrics: {perContainer: true}
logging: {format: json}
podsFile: pods.json
nodeName: node-1
evaluateIntervalSeconds: 5
""",
    )
    settings = load_settings(path, environment={})
    assert settings.sampling.sampler is SamplerChoice.REFERENCE
    assert settings.cgroup.mount == Path("/host/sys/fs/cgroup")
    assert settings.cgroup.scope is ScopeChoice.KUBERNETES
    assert settings.state.directory is None
    assert settings.serving.port == 0
    assert settings.metrics.per_container is True
    assert settings.logging.format is LogFormat.JSON
    assert settings.pods_file == Path("pods.json")
    assert settings.node_name == "node-1"
    assert isinstance(settings.evaluate_interval_seconds, float)


@pytest.mark.parametrize("text", ["", "# nothing\n", "sampling:\n", "podsFile: auto\n", "podsFile:\n"])
def test_settings_empty_file_or_section_is_the_defaults(tmp_path: Path, text: str) -> None:
    assert load_settings(write(tmp_path, text), environment={}).pods_file is None


@pytest.mark.parametrize("key", ["report.queueBytes", "report.intervalSeconds", "propose.intervalSeconds"])
def test_settings_a_number_too_large_for_a_float_is_refused_in_one_line(key: str) -> None:
    (error,) = errors_of(None, {}, {key: "9" * 400})
    assert error.startswith(f"command line: {key}: '999")
    assert " is not allowed; allowed: a" in error
    assert "\n" not in error


@pytest.mark.parametrize(
    "text", ["report: {{queueBytes: {}}}", "nodeName: [{}]", "report: {}", "{}", "? {}\n: 1", "report: {{? {} : 1}}"]
)
def test_settings_a_number_too_long_to_be_written_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (error,) = errors_of(write(tmp_path, text.format("0x" + "f" * 5000)))
    assert "not YAML: line 1: a number of 5002 characters; allowed: 300" in error


def test_settings_all_errors_are_listed_at_once_with_file_key_value_and_allowed(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
sampling: {intervalSeconds: 0, sampler: fast, maxContainers: 1.5}
serving: {port: 70000, socket: relative/x.sock}
metrics: {perContainer: "yes"}
windows: [1]
nope: 1
""",
    )
    errors = errors_of(path, {"PLIMSOLL_SAMPLING_RELIST_SECONDS": "soon"}, {"logging.level": "loud"})
    assert errors == (
        f"{path}: sampling.intervalSeconds: 0 is not allowed; allowed: a number from 0.1 to 60",
        f"{path}: sampling.sampler: 'fast' is not allowed; allowed: auto, native, reference",
        f"{path}: sampling.maxContainers: 1.5 is not allowed; allowed: a whole number from 1 to 20000",
        f"{path}: serving.port: 70000 is not allowed; allowed: a whole number from 0 to 65535",
        f"{path}: serving.socket: 'relative/x.sock' is not allowed (not absolute); "
        "allowed: an absolute path, auto, none (no socket)",
        f"{path}: metrics.perContainer: 'yes' is not allowed; allowed: true, false",
        f"{path}: windows: [1] is not allowed; allowed: a mapping with the keys cpuWindowSeconds, "
        "memoryWindowSeconds, rateWindowSeconds, percentile, maxGapRatio, toleranceRatio, maxStepSeconds",
        f"{path}: nope: unknown key; allowed: sampling, windows, memory, cgroup, state, serving, metrics, logging, "
        "recommend, bounds, cruise, vpa, crane, sizing, kubernetes, plan, workloads, act, guard, overload, "
        "podLimits, report, propose, profile, evaluateIntervalSeconds, podsFile, clusterPauseFile, "
        "clusterPauseConfigMap, nodeName",
        "environment: PLIMSOLL_SAMPLING_RELIST_SECONDS: 'soon' is not allowed; allowed: a number from 1 to 3600",
        "command line: logging.level: 'loud' is not allowed; allowed: debug, info, warning, error",
    )


def test_settings_unknown_keys_get_the_nearest_known_one(tmp_path: Path) -> None:
    path = write(tmp_path, "sampling: {intervallSeconds: 1}\nserve: {port: 1}\n")
    errors = errors_of(path, {"PLIMSOLL_SERVING_PROT": "1"}, {"intervalSeconds": "1"})
    assert errors == (
        f"{path}: sampling.intervallSeconds: unknown key; did you mean sampling.intervalSeconds?",
        f"{path}: serve: unknown key; did you mean serving?",
        "environment: PLIMSOLL_SERVING_PROT: unknown key; did you mean PLIMSOLL_SERVING_PORT?",
        "command line: intervalSeconds: unknown key; did you mean report.intervalSeconds?",
    )


def test_a_key_that_nothing_is_near_to_names_the_nearest_of_hundreds() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, environment={}, overrides={"a": "b"})
    (line,) = caught.value.errors
    pattern = r"command line: a: unknown key; allowed: \d{3} keys \(plimsoll settings\), \S+ is nearest"
    assert re.fullmatch(pattern, line)


@pytest.mark.parametrize(
    ("text", "key", "rule"),
    [
        ("sampling: {slowIntervalSeconds: 1, intervalSeconds: 2}", "sampling.slowIntervalSeconds", "(2)"),
        ("windows: {rateWindowSeconds: 700}", "windows.cpuWindowSeconds", "windows.rateWindowSeconds (700)"),
        ("windows: {rateWindowSeconds: 1}", "windows.rateWindowSeconds", "2 x sampling.intervalSeconds (2)"),
        ("sampling: {intervalSeconds: 4}", "windows.maxStepSeconds", "2 x sampling.intervalSeconds (8)"),
        ("sampling: {slowIntervalSeconds: 600, intervalSeconds: 1}\nwindows: {memoryWindowSeconds: 900}",
         "windows.memoryWindowSeconds", "2 x sampling.slowIntervalSeconds (1200)"),
        ("sampling: {sweepBudgetSeconds: 1.5}", "sampling.intervalSeconds", "sampling.sweepBudgetSeconds (1.5)"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_refused_and_name_the_file(
    tmp_path: Path, text: str, key: str, rule: str
) -> None:
    path = write(tmp_path, text)
    (error,) = errors_of(path)
    assert error.startswith(f"{path}: {key}: ")
    assert error.endswith(rule)


@pytest.mark.parametrize("value", ["1", True, [1], {}, float("nan"), float("inf"), -1])
def test_settings_file_numbers_are_numbers(tmp_path: Path, value: object) -> None:
    text = json.dumps(value).replace("NaN", ".nan").replace("Infinity", ".inf")
    (error,) = errors_of(write(tmp_path, f"sampling: {{relistSeconds: {text}}}"))
    assert "sampling.relistSeconds: " in error


def test_settings_key_given_twice_is_named_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "sampling:\n  intervalSeconds: 1\n  intervalSeconds: 2\n")
    assert errors_of(path) == (f"{path}:3: sampling.intervalSeconds: given twice; allowed: once",)


@pytest.mark.parametrize("text", ["a: [", "\x00", "- 1", "7", "a: &a [*a, *b]", "%", "!!python/object:os.system {}"])
def test_settings_file_that_is_no_mapping_is_one_line(tmp_path: Path, text: str) -> None:
    assert all(str(tmp_path) in line for line in errors_of(write(tmp_path, text)))


def test_settings_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    assert errors_of(path) == (f"{path}: cannot be read: No such file or directory",)
    assert errors_of(None, {"PLIMSOLL_SETTINGS_FILE": str(path)})[0].startswith(f"{path}: ")


def test_settings_file_too_large_is_refused_unread(tmp_path: Path) -> None:
    assert "larger than 1 MiB, which is the most that is read" in errors_of(write(tmp_path, "#" * (1 << 20) + "\n"))[0]


@given(st.text(max_size=60))
def test_settings_any_environment_text_is_a_value_or_one_line(text: str) -> None:
    environment = {"PLIMSOLL_SAMPLING_INTERVAL_SECONDS": text}
    try:
        settings = load_settings(None, environment=environment)
    except SettingsError:
        assert len(errors_of(None, environment)) == 1
    else:
        assert 0.1 <= settings.sampling.interval_seconds <= 2.5  # twice that is the default of maxStepSeconds


def test_settings_service_links_of_kubernetes_are_no_mistake() -> None:
    links = {
        "PLIMSOLL_WEBHOOK_SERVICE_HOST": "10.0.0.1",
        "PLIMSOLL_WEBHOOK_SERVICE_PORT_HTTPS": "443",
        "PLIMSOLL_WEBHOOK_PORT": "tcp://10.0.0.1:443",
        "PLIMSOLL_WEBHOOK_PORT_443_TCP_ADDR": "10.0.0.1",
        "PLIMSOLL_SERVING_PORT": "tcp://10.0.0.1:443",  # of a Service named plimsoll-serving
    }
    assert load_settings(None, environment=links).serving.port == 9473


def test_default_places_follow_the_user() -> None:
    assert default_state_directory(HOME, uid=0) == Path("/var/lib/plimsoll")
    assert default_state_directory(HOME, uid=7) == Path("/home/ann/.state/plimsoll")
    assert default_state_directory({"HOME": "/home/ann"}, uid=7) == Path("/home/ann/.local/state/plimsoll")
    assert default_socket(HOME, uid=0) == Path("/run/plimsoll/agent.sock")
    assert default_socket(HOME, uid=7) == Path("/run/user/7/plimsoll/agent.sock")
    assert default_socket({"HOME": "/home/ann"}, uid=7) == Path("/home/ann/.local/state/plimsoll/agent.sock")


def test_settings_auto_on_the_command_line_undoes_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "state: {directory: /data}\n")
    undone = load_settings(path, environment={}, overrides={"state.directory": "auto"})
    assert undone.state == load_settings(None, environment={}).state


def test_settings_socket_path_longer_than_the_kernel_takes_is_refused() -> None:
    (error,) = errors_of(None, overrides={"serving.socket": "/" + "x" * 107})
    assert "longer than 107 bytes" in error


def test_describe_settings_every_setting_has_a_reason_and_a_unit_in_words() -> None:
    docs = describe_settings()
    assert len({doc.key for doc in docs}) == len(docs) > 30
    for doc in docs:
        assert len(doc.text) > 15, doc.key
        assert doc.allowed
        assert re.fullmatch(r"PLIMSOLL_[A-Z_]+", doc.variable)
        assert doc.key in settings_help()
        if doc.key.endswith("Seconds"):
            assert doc.text.lower().startswith("seconds"), doc.key


def test_to_dict_is_json_and_can_be_read_back(tmp_path: Path) -> None:
    settings = load_settings(None, environment={}, overrides={"sampling.fastLaneHz": "0", "podsFile": "/pods"})
    as_json = json.dumps(settings.to_dict())
    assert load_settings(write(tmp_path, as_json), environment={}) == settings


def test_every_default_lies_in_its_own_range() -> None:
    for doc in describe_settings():
        match = re.search(r"from ([\d.]+) to ([\d.]+)", doc.allowed)
        if match and doc.default not in ("no bound", "off", "a sixth of sizing.price, at least 5"):
            assert float(match[1]) <= float(doc.default) <= float(match[2])


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (
            {"bounds.minCpuMillicores": "100", "bounds.maxCpuMillicores": "50"},
            "bounds.maxCpuMillicores: 50 is not allowed; allowed: at least bounds.minCpuMillicores (100)",
        ),
        (
            {"crane.memHistogramBucketSize": "4096"},
            "crane.memHistogramMaxValue: 104857600000 is not allowed; allowed: 1 to 100000 times "
            "crane.memHistogramBucketSize (4096)",
        ),
        ({"crane.specificationConfig": "1c2g,3c"}, "crane.specificationConfig: specification '3c': exactly two"),
    ],
)
def test_options_that_cannot_both_hold_are_told_at_the_start(overrides: dict[str, object], reason: str) -> None:
    (error,) = errors_of(None, overrides=overrides)
    assert error.startswith(reason)


@pytest.mark.parametrize(("raw", "price"), [("lean", 10.0), ("balanced", 60.0), ("safe", 200.0), ("25", 25.0)])
def test_the_price_of_being_short_is_a_word_or_a_number(tmp_path: Path, raw: str, price: float) -> None:
    path = write(tmp_path, f"sizing: {{price: {raw}}}\n")
    assert load_settings(path, environment={}, overrides={}).sizing.price == price
    assert load_settings(None, environment={"PLIMSOLL_SIZING_PRICE": raw}, overrides={}).sizing.price == price
    message = "'cheap' is not allowed; allowed: a number from 1 to 1000, lean (10), balanced (60), safe (200)"
    assert errors_of(path, {}, {"sizing.price": "cheap"}) == (f"command line: sizing.price: {message}",)


def test_a_policy_that_is_no_more_is_refused_with_those_there_are() -> None:
    assert errors_of(None, {"PLIMSOLL_RECOMMEND_POLICY": "forecast"}, {}) == (
        "environment: PLIMSOLL_RECOMMEND_POLICY: 'forecast' is not allowed; allowed: cruise, vpa, crane, plimsoll",
    )


def test_a_specification_that_holds_is_taken() -> None:
    settings = load_settings(None, environment={}, overrides={"crane.specificationConfig": "1c2g"})
    assert settings.crane.specification_config == "1c2g"


@pytest.mark.parametrize("url", ["https://webhook.plimsoll.svc", "https://[::1]:8443/central", "https://h:1"])
def test_the_webhook_is_an_https_address(tmp_path: Path, url: str) -> None:
    settings = load_settings(write(tmp_path, f"report: {{url: '{url}'}}"), environment={})
    assert settings.report.url == url
    assert load_settings(None, environment={}).report.url is None


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "h:8443",
        "https://",
        "https://h:port",
        "https://h:0",
        "https://a..b",
        f"https://{'a' * 64}.b",
        "https://u:p@h",
        "https://h/?a",
        "https://h#x",
    ],
)
def test_any_other_webhook_is_refused_as_a_token_is_sent_there(tmp_path: Path, url: str) -> None:
    (error,) = errors_of(write(tmp_path, f"report: {{url: '{url}'}}"))
    assert error.endswith(f"report.url: {url!r} is not allowed; allowed: https://HOST[:PORT][/PATH], auto")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"directory": None}, None),
        ({"directory": None, "rings_directory": Path("/dev/shm/rings")}, None),
        ({"directory": Path("/var/lib/plimsoll")}, Path("/run/plimsoll")),
        ({"directory": Path("/srv/plimsoll")}, Path("/srv/plimsoll")),
        ({"directory": Path("/var/lib/plimsoll"), "rings_directory": Path("/run/mine")}, Path("/run/mine")),
    ],
)
def test_rings_lie_in_memory_where_the_state_is_the_systems_own(
    state: dict[str, Path | None], expected: Path | None
) -> None:
    assert StateSettings(**state).directory_of_rings == expected
