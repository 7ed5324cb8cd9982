"""``plimsoll backfill``: a real Prometheus with a known past, one that lies, and the webhook that sizes by it."""

from __future__ import annotations

import base64
import http.server
import itertools
import json
import socketserver
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from agent.cli.client.prometheus import PrometheusError, PrometheusOptions, PrometheusReader, address_of
from agent.cli.main import main
from agent.core.admission.estimate import Estimate
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from agent.core.history.workloads.hour_sketch import percentile_bucket
from agent.core.orders.policy_options import PolicyName
from agent.webhook.http.routes import Call, HttpAnswer, fault
from agent.webhook.store.entries.sketch_bytes import decode
from tests.cluster.processes import Process, free_ports
from tests.monitoring.prometheus import Prometheus, why_not
from tests.pods import container, pod_json
from tests.webhook.https import running
from tests.webhook.stack import Stack, stack
from tests.webhook.test_access import Server, user
from tests.webhook.test_runs import admitted

HOUR: Final = 3600
MIB: Final = 1 << 20
HOURS: Final = 5
"""Of the known past."""
SCRAPE: Final = 30
NOW_HOUR: Final = int(time.time()) // HOUR
NOW_SECONDS: Final = NOW_HOUR * HOUR + 10.0
PODS: Final = {"web-5d-a": 1.0, "web-5d-b": 0.5}
"""How much of the trace each does."""
needs_prometheus = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


def cores_at(second: int) -> float:
    """Use of the larger pod: six levels of ten minutes an hour, 0.1 to 0.6 cores, the same each hour."""
    return (second % HOUR // 600 + 1) / 10


def openmetrics() -> str:
    """Write the past as promtool reads it."""
    start, end = (NOW_HOUR - HOURS) * HOUR + SCRAPE, NOW_HOUR * HOUR
    lines: dict[str, list[str]] = {}

    def add(metric: str, labels: str, second: int, value: float) -> None:
        lines.setdefault(metric, []).append(f"{metric}{{{labels}}} {value} {second}")

    used = dict.fromkeys(PODS, 0.0)
    for second in range(start, end + 1, SCRAPE):
        for pod, share in PODS.items():
            where = f'namespace="shop",pod="{pod}",container="app",cluster="prod"'
            if second > start:
                used[pod] += cores_at(second - SCRAPE) * share * SCRAPE
            add("container_cpu_usage_seconds_total", where, second, used[pod])
            add("container_cpu_usage_seconds_total", where.replace('"app"', '""'), second, 2 * used[pod])
            add("container_pressure_cpu_waiting_seconds_total", where, second, used[pod] / 2)
            add("container_memory_working_set_bytes", where, second, (100 + 10 * (second % HOUR // 600)) * MIB * share)
            owner = f'namespace="shop",pod="{pod}",owner_kind="ReplicaSet",owner_name="web-5d",cluster="prod"'
            add("kube_pod_owner", owner, second, 1)
            limit = f'namespace="shop",pod="{pod}",container="app",resource="memory",cluster="prod"'
            add("kube_pod_container_resource_limits", limit, second, 256 * MIB)
        over = 'namespace="shop",replicaset="web-5d",owner_kind="Deployment",owner_name="web",cluster="prod"'
        add("kube_replicaset_owner", over, second, 1)
        bare = 'namespace="shop",pod="bare",owner_kind="<none>",owner_name="<none>",cluster="prod"'
        add("kube_pod_owner", bare, second, 1)
        lost = 'namespace="shop",pod="lost-x",owner_kind="ReplicaSet",owner_name="lost",cluster="prod"'
        add("kube_pod_owner", lost, second, 1)
        if second > end - HOUR // 2:
            killed = 'namespace="shop",pod="web-5d-a",container="app",reason="OOMKilled",cluster="prod"'
            add("kube_pod_container_status_last_terminated_reason", killed, second, 1)
    blocks = []
    for metric, samples in lines.items():
        kind = "counter" if metric.endswith("_total") else "gauge"
        # Of one series all samples in order of time: promtool wants it so.
        ordered = sorted(samples, key=lambda line: (line.rpartition("}")[0], int(line.rpartition(" ")[2])))
        blocks += [f"# TYPE {metric.removesuffix('_total')} {kind}", *ordered]
    return "\n".join([*blocks, "# EOF", ""])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus that knows the trace; its URL."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "trace.om").write_text(openmetrics())
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "trace.om", "tsdb"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("global: {}\n")
    (port,) = free_ports(1, "127.0.0.1")
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        "--storage.tsdb.retention.time=30d",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    process = Process("prometheus", command, folder / "prometheus.log")
    try:
        process.wait_until(Prometheus(process, port).is_ready, f"127.0.0.1:{port} is ready")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stop(kill=True)


@pytest.fixture
def one_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the verb run in the hour in which the past ends: another may begin meanwhile, or between two runs."""
    clock = SimpleNamespace(time=lambda: NOW_SECONDS, strftime=time.strftime, gmtime=time.gmtime)
    monkeypatch.setattr("agent.cli.verbs.cluster.backfill.time", clock)


@pytest.fixture
def past(recorded: str, one_hour: None) -> str:
    """Return the URL, for a verb that runs in the hour in which the past ends."""
    return recorded


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Stack, list[str]]]:
    """A webhook that knows nothing yet, and the options to import into it."""
    server = Server(
        users={"good": user("importer")},
        readable=frozenset({"/v1/workloads/shop/Deployment/web"}),
        creatable=frozenset({"/v1/history"}),
    )
    (tmp_path / "token").write_text("good\n")
    with stack(tmp_path, server=server) as webhook:
        webhook.follow()
        with running(webhook.services, tmp_path, names=("plimsoll-webhook.plimsoll.svc",)) as running_server:
            host, port = running_server.address
            options = [f"--webhook=https://{host}:{port}", f"--token-file={tmp_path / 'token'}"]
            yield webhook, [*options, f"--ca-file={running_server.authority}", "--queries-per-second=1000"]


def new_pod() -> Any:
    """Return a pod that is to be created, of the workload of the known past."""
    metadata = {
        "name": None,
        "generateName": "web-5d-",
        "labels": {"pod-template-hash": "5d"},
        "annotations": {"plimsoll.dev/mode": "enforce"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d", "uid": "set", "controller": True}],
    }
    stated = container("app", {"cpu": "100m", "memory": "64Mi"}, {"cpu": "1", "memory": "128Mi"})
    return pod_json(stated, metadata=metadata)


def code_of(*arguments: str) -> int:
    try:
        return main(["backfill", *arguments])
    except SystemExit as ended:
        return int(str(ended.code))


@needs_prometheus
def test_the_first_pod_is_sized_from_a_real_prometheus(
    past: str, served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    webhook, options = served
    arguments = [f"--prometheus={past}", "--days=1", "--label=cluster=prod", *options]
    assert code_of(*arguments, "--dry-run") == 0
    out, _ = capsys.readouterr()
    assert out.startswith(f"would be imported: 1 namespace, 1 workload, 1 container, {HOURS} hours; ")
    assert webhook.index.workloads() == ()
    progress = f"--progress={tmp_path / 'done'}"
    assert code_of(*arguments, progress) == 0
    out, error = capsys.readouterr()
    assert out.startswith(f"imported: 1 namespace, 1 workload, 1 container, {HOURS} hours ({HOURS} new); ")
    assert "left out: 1 pod whose owner kube-state-metrics does not tell\n" in error
    assert "left out: 1 pod that nobody owns" in error

    web = Workload(namespace="shop", kind="Deployment", name="web")
    estimate = webhook.index.estimate(
        web, "app", policy=PolicyName.CRUISE, node=None, node_class=None, now_unix_seconds=NOW_SECONDS
    )
    assert isinstance(estimate, Estimate)
    # 0.6 cores that wait 0.3 of the time are 0.78, and a tenth more for what scrapes miss is 858m; 150 MiB are 165.
    assert estimate.cpu_request_millicores == pytest.approx(858, rel=0.01)
    assert estimate.memory_request_bytes == pytest.approx(165 * MIB, rel=0.001)
    assert (estimate.oom_memory_bytes, estimate.imported_hours, estimate.pods) == (256 * MIB, HOURS, 2)

    # What agents would have seen: both pods' seconds, each counted; they wait half as much as they use.
    seconds = np.arange(HOUR)
    levels = (seconds // 600 + 1) * 100.0
    both = np.concatenate([levels, levels * 0.5])
    for row in webhook.store.sketches(0):
        sketch = decode(row.payload, row.unix_hour)
        assert sketch.cpu.count == 2 * HOUR
        working_set = np.concatenate([(100 + 10 * (seconds // 600)) * MIB * share for share in PODS.values()])
        for samples, direct, scheme in (
            (sketch.cpu, both, CPU_BUCKETS),
            (sketch.demand, both * (1 + both / 2000), CPU_BUCKETS),
            (sketch.memory, working_set, MEMORY_BUCKETS),
        ):
            # Within a level: a rate over two minutes lies between two levels for two minutes in ten.
            for ratio in (0.2, 0.45, 0.7, 0.96):
                bucket = percentile_bucket(samples.buckets, ratio)
                assert bucket is not None
                expected = int(scheme.find(np.array([np.quantile(direct, ratio, method="inverted_cdf")]))[0])
                assert abs(bucket - expected) <= 1, (ratio, bucket, expected)
    assert sum(decode(row.payload, row.unix_hour).kills.count for row in webhook.store.sketches(0)) == 1

    assert main(["workloads", "shop/Deployment/web", *options[:3]]) == 0
    assert f"{HOURS} hours of seven days were imported: peaks between scrapes are not seen" in capsys.readouterr().out

    patch = admitted(webhook, new_pod())
    # A pod of it that is created now: the peak as above; its CPU limit goes, its memory limit is twice what was killed.
    assert patch["/spec/containers/0/resources/requests/cpu"] in ("858m", "859m")
    assert int(patch["/spec/containers/0/resources/requests/memory"]) >= 256 * MIB
    assert int(patch["/spec/containers/0/resources/limits/memory"]) >= 2 * 256 * MIB

    before = {(row.key, row.unix_hour): row.payload for row in webhook.store.sketches(0)}
    assert code_of(*arguments) == 0
    assert f"{HOURS} hours (0 new)" in capsys.readouterr().out
    assert {(row.key, row.unix_hour): row.payload for row in webhook.store.sketches(0)} == before
    assert code_of(*arguments, progress) == 0
    assert "done before" in capsys.readouterr().out
    assert code_of(*arguments, progress, "--label-name=pod=pod_name") == 2
    assert "is of another Prometheus or other labels" in capsys.readouterr().err


@needs_prometheus
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--label=cluster=test",), "no container was found in 1 day"),
        (("--namespace=bank",), "no container was found in 1 day"),
        (("--label-name=pod=pod_name",), "no container was found in 1 day"),
        (("--max-samples=10",), "more than 10 samples were read"),
    ],
)
def test_a_prometheus_without_what_is_needed_changes_nothing(
    past: str,
    served: tuple[Stack, list[str]],
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    words: str,
) -> None:
    webhook, options = served
    assert code_of(f"--prometheus={past}", "--days=1", *options, *more) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert words in last
    assert last.endswith("; nothing was sent")
    assert list(webhook.store.sketches(0)) == []


# -- one that lies --------------------------------------------------------------------------------

Play = Callable[[str, Mapping[str, str]], Any]
"""The path and the fields of a question to its answer: bytes, (status, bytes), or a call that writes by itself."""


@contextmanager
def playing(play: Play) -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    """Serve on loopback inside the block; the URL, and what is sent as headers."""
    heard: list[Mapping[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            fields = dict(urllib.parse.parse_qsl(self.rfile.read(size).decode()))
            heard.append(dict(self.headers))
            reply = play(self.path, fields)
            if callable(reply):
                reply(self)
                return
            status, body = reply if isinstance(reply, tuple) else (200, reply)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True

    server = Threads(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(kind: str, *series: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": list(series)}}).encode()


def sound(_: str, fields: Mapping[str, str]) -> bytes:
    """Answer as a Prometheus with one pod of a StatefulSet does."""
    query = fields["query"]
    if query.startswith("count by"):
        return answer("vector", {"metric": {"namespace": "shop"}, "value": [1, "1"]})
    if "kube_pod_owner" in query:
        metric = {"pod": "db-0", "owner_kind": "StatefulSet", "owner_name": "db"}
        return answer("vector", {"metric": metric, "value": [1, "1"]})
    if "time" in fields:
        return answer("vector")
    if "terminated" in query:
        return answer("matrix")
    last = int(fields["end"])
    metric = {"pod": "db-0", "container": "db"}
    return answer("matrix", {"metric": metric, "values": [[second, "0.5"] for second in (last - 60, last)]})


def bent(change: Callable[[Mapping[str, str]], Any], part: str = "container_memory") -> Play:
    """Answer well, but to questions with this in them."""

    def play(path: str, fields: Mapping[str, str]) -> Any:
        is_asked = part in fields["query"] and "count by" not in fields["query"]
        return change(fields) if is_asked else sound(path, fields)

    return play


def valued(text: Any) -> Callable[[Mapping[str, str]], bytes]:
    def change(fields: Mapping[str, str]) -> bytes:
        return answer("matrix", {"metric": {"pod": "db-0"}, "values": [[int(fields["end"]), text]]})

    return change


def dripping(handler: Any) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)  # the lie itself: it never ends, and is never silent for long
    except OSError:
        pass


def endless(handler: Any) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * (1 << 20))
    except OSError:
        pass


def cut(handler: Any) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"status"')
    handler.close_connection = True


def silent(handler: Any) -> None:
    handler.connection.recv(1)  # until whoever asked has gone


def never(_: str, __: Mapping[str, str]) -> Any:
    return silent


def no_gzip(handler: Any) -> None:
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", "4")
    handler.end_headers()
    handler.wfile.write(b"what")


ODD = {"metric": {"pod": "db\x1b31m\n0"}, "values": []}
TWICE = {"metric": {"pod": "db-0"}, "values": []}


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (bent(valued("NaN")), "value 'NaN' of db-0/; allowed: finite numbers from 0"),
        (bent(valued("+Inf")), "value '+Inf'"),
        (bent(valued("-1")), "value '-1'"),
        (bent(valued("much")), "value 'much'"),
        (bent(valued(7)), "its answer is not that of a Prometheus: Expected `str`"),
        (bent(lambda _: answer("vector")), "its answer is a vector, not a matrix"),
        (bent(lambda _: answer("scalar")), "its answer is not that of a Prometheus"),
        (bent(lambda _: answer("matrix", TWICE, TWICE)), "two series of db-0/"),
        (bent(lambda _: answer("matrix", ODD, ODD)), "two series of db 31m 0/"),
        (bent(lambda _: b'{"isPartial":true,' + answer("matrix")[1:]), "its answer is not whole"),
        (
            bent(lambda _: b'{"warnings":["store gateway b away"],' + answer("matrix")[1:]),
            "its answer is not whole: store gateway b away",
        ),
        (
            bent(lambda _: answer("matrix", {"metric": {}, "values": [[17, "1"]]})),
            "times of / are not those that were asked for",
        ),
        (bent(lambda f: answer("matrix", {"metric": {}, "values": [[int(f["end"]), "1"]] * 400})), "400 values of /"),
        (lambda *_: answer("vector", {"metric": {"namespace": "shop"}}), "has no value"),
        (lambda *_: b"<html>Sign in</html>", "its answer is not that of a Prometheus"),
        (lambda *_: (302, b""), "302: it sends elsewhere"),
        (lambda *_: (401, b"who are you"), "401: no reason given"),
        (lambda *_: (500, b'{"status":"error","error":"too much\\nto do"}'), "500: too much to do"),
        (lambda *_: answer("vector"), "no container was found in 1 day"),
        (lambda *_: cut, "no answer: "),
        (never, "no answer: "),
        (lambda *_: no_gzip, "no answer: "),
        (lambda *_: b"", "its answer is not that of a Prometheus"),
        (lambda *_: endless, "an answer of more than 64 MiB"),
        (lambda *_: b"[" * 100_000, "its answer is not that of a Prometheus"),
    ],
)
def test_a_prometheus_that_lies_is_one_line_and_changes_nothing(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], play: Play, words: str
) -> None:
    webhook, options = served
    patience = 1 if play is never else 60  # what comes takes a busy machine a while, 64 MiB or a line
    with playing(play) as (url, _):
        assert code_of(f"--prometheus={url}", "--days=1", f"--timeout={patience}", *options) == 1
    out, error = capsys.readouterr()
    assert out == ""
    (message,) = [line for line in error.splitlines() if not line.startswith("to read: ")]
    assert words in message
    assert message.endswith("; nothing was sent")
    assert list(webhook.store.sketches(0)) == []


def test_an_answer_that_never_ends_is_given_up() -> None:
    seconds = itertools.count(0.0, 20.0)
    with playing(lambda *_: dripping) as (url, _):
        reader = PrometheusReader(PrometheusOptions(url=url), clock=lambda: next(seconds), sleep=lambda _: None)
        with pytest.raises(PrometheusError, match=r"an answer that takes longer than 60 s$"):
            reader.now("up", (), unix_seconds=1)


@pytest.mark.usefixtures("one_hour")
def test_what_breaks_off_leaves_whole_days_and_goes_on_from_there(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    webhook, options = served
    asked: list[str] = []

    def play(path: str, fields: Mapping[str, str]) -> Any:
        if "kube_pod_owner" in fields["query"]:
            asked.append(fields["time"])
            if len(asked) == 2:
                return 500, b"{}"
        return sound(path, fields)

    with playing(play) as (url, _):
        arguments = [f"--prometheus={url}", "--days=2", f"--progress={tmp_path / 'done'}", *options]
        assert code_of(*arguments) == 1
        first = capsys.readouterr().err.splitlines()[-1]
        assert "whole hours sent before; --progress goes on from there" in first or "1 whole hour sent" in first
        sent = len(list(webhook.store.sketches(0)))
        assert sent > 0
        assert code_of(*arguments) == 0
        out = capsys.readouterr().out
        assert "1 day done before" in out
        assert asked[1] == asked[2], "the day that broke off is read again, the one before is not"
        both = {(row.key, row.unix_hour): row.payload for row in webhook.store.sketches(0)}
        assert len(both) > sent
        # All of it once more, uninterrupted, is the same.
        assert code_of(arguments[0], arguments[1], *options) == 0
        assert " (0 new); " in capsys.readouterr().out
    assert {(row.key, row.unix_hour): row.payload for row in webhook.store.sketches(0)} == both


def test_what_the_webhook_refuses_is_told(served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    webhook, options = served
    with playing(bent(valued("9e12"), "container_cpu_usage")) as (url, _):
        assert code_of(f"--prometheus={url}", "--days=1", *options) == 1
        assert "the webhook refused" in capsys.readouterr().err
    webhook.server.creatable = frozenset()
    webhook.server.users["other"] = user("reader")
    token = Path(options[1].removeprefix("--token-file="))
    token.write_text("other\n")
    with playing(sound) as (url, _):
        assert code_of(f"--prometheus={url}", "--days=1", *options) == 1
    assert "may not create the nonResourceURL /v1/history" in capsys.readouterr().err


def test_metrics_may_be_called_otherwise_there(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def play(path: str, fields: Mapping[str, str]) -> Any:
        asked.append(fields["query"])
        assert (fields["partial_response"], fields["deny_partial_response"]) == ("false", "1")
        return sound(path, fields)

    more = ("--metric-prefix=ours_", "--metric-name=container_memory_working_set_bytes=ws", '--label=cluster=a"b')
    with playing(play) as (url, _):
        assert code_of(f"--prometheus={url}", "--days=1", *more, "--dry-run", served[1][3]) == 0
    assert any(query.startswith('count by (namespace) (ours_ws{cluster="a\\"b",') for query in asked)
    assert any("rate(ours_container_cpu_usage_seconds_total{" in query for query in asked)
    assert not any("container_memory_working_set_bytes" in query for query in asked)


def test_what_is_left_out_is_told_and_why(served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    def play(path: str, fields: Mapping[str, str]) -> Any:
        if fields["query"].startswith("count by"):
            names = ("shop", "\x1b[31mred", "Bank")
            return answer("vector", *({"metric": {"namespace": name}, "value": [1, "1"]} for name in names))
        if "container_cpu_usage" in fields["query"]:
            return answer("matrix")
        return sound(path, fields)

    with playing(play) as (url, _):
        assert code_of(f"--prometheus={url}", "--days=1", "--dry-run", served[1][3]) == 0
    error = capsys.readouterr().err
    assert "left out: 2 namespaces whose name no namespace can have\n" in error
    assert "hours of containers as to CPU: no rate over 120 s there; allowed: a larger --rate-window\n" in error
    assert error.startswith("to read: ")
    assert "queries or more, 1000 a second: a minute\n" in error
    assert "\x1b" not in error


# -- without a Prometheus -------------------------------------------------------------------------


def checkpoint(name: str, **status: Any) -> Any:
    """Return one as the API server gives it, its last sample of a moment ago."""

    def at(seconds_ago: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW_SECONDS - seconds_ago))

    defaults = {
        "version": "v3",
        "firstSampleStart": at(8 * 24 * HOUR),
        "lastSampleStart": at(60),
        "totalSamplesCount": 5000,
        # Bucket 30 of CPU ends at 0.01 x (1.05^31 - 1) / 0.05 = 0.7076 cores.
        "cpuHistogram": {"referenceTimestamp": at(0), "bucketWeights": {"0": 10000, "30": 200}, "totalWeight": 20.5},
        "memoryHistogram": {"referenceTimestamp": at(0), "bucketWeights": {"12": 10000}, "totalWeight": 3},
    }
    return {
        "metadata": {"namespace": "shop", "name": f"{name}-app"},
        "spec": {"vpaObjectName": name, "containerName": "app"},
        "status": {**defaults, **status},
    }


@contextmanager
def api_server(folder: Path, *checkpoints: Any) -> Iterator[str]:
    """Serve the Vertical Pod Autoscaler's objects; the option that names the kubeconfig."""
    vpa = {
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            lists: dict[str, tuple[Any, ...]] = {
                "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers": (vpa,),
                "/apis/autoscaling.k8s.io/v1/verticalpodautoscalercheckpoints": checkpoints,
            }
            known = path in lists and bool(checkpoints)
            listing = {"kind": "VerticalPodAutoscalerList", "metadata": {}, "items": list(lists.get(path, ()))}
            missing: Any = {"kind": "Status", "message": "not found", "code": 404}
            body = json.dumps(listing if known else missing).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    named = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}],
        "contexts": [named],
        "users": [{"name": "x", "user": {}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(document))
    try:
        yield f"--kubeconfig={folder / 'kubeconfig'}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.usefixtures("one_hour")
def test_checkpoints_of_the_vertical_pod_autoscaler_size_the_first_pod_too(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    webhook, options = served
    odd = (checkpoint("other"), checkpoint("web", version="v2"))
    with api_server(tmp_path, *odd, checkpoint("web")) as kubeconfig:
        arguments = ["--vpa-checkpoints", kubeconfig, *options]
        assert code_of(*arguments, "--dry-run") == 0
        assert "would be imported: 1 namespace, 1 workload, 1 container, 24 hours\n" in capsys.readouterr().out
        assert list(webhook.store.sketches(0)) == []
        assert code_of(*arguments) == 0
        out, error = capsys.readouterr()
        assert out == "imported: 1 namespace, 1 workload, 1 container, 24 hours (24 new)\n"
        assert "left out: 1 checkpoint such as shop/other-app: no VerticalPodAutoscaler that names a workload" in error
        assert "left out: 1 checkpoint such as shop/web-app: checkpoint of version 'v2': 'v3' is allowed\n" in error
        before = {(row.key, row.unix_hour): row.payload for row in webhook.store.sketches(0)}
        assert len(before) == 24
        # 0.7076 cores, and a tenth more, are 778.4m; bucket 12 ends at 1e7 x (1.05^13 - 1) / 0.05 = 177.1 MB.
        patch = admitted(webhook, new_pod())
        cpu = str(patch["/spec/containers/0/resources/requests/cpu"])
        assert int(cpu.removesuffix("m")) == pytest.approx(778.4, rel=0.02)
        memory = int(patch["/spec/containers/0/resources/requests/memory"])
        assert memory == pytest.approx(1.1 * 177.1e6, rel=0.02)
        assert code_of(*arguments) == 0
        assert "24 hours (0 new)" in capsys.readouterr().out
    with api_server(tmp_path, checkpoint("web", memoryHistogram={})) as kubeconfig:
        # What Prometheus told would be replaced by a guess: what stands there stays.
        assert code_of("--vpa-checkpoints", kubeconfig, *options) == 0
    assert {(row.key, row.unix_hour): row.payload for row in webhook.store.sketches(0)} == before


def test_an_api_server_without_checkpoints_is_one_line(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with api_server(tmp_path) as kubeconfig:
        assert code_of("--vpa-checkpoints", kubeconfig, *served[1]) == 1
    assert "the API server has no VerticalPodAutoscaler (autoscaling.k8s.io/v1); nothing was sent" in (
        capsys.readouterr().err
    )
    with api_server(tmp_path, checkpoint("web", totalSamplesCount=0)) as kubeconfig:
        assert code_of("--vpa-checkpoints", kubeconfig, *served[1]) == 1
    assert "such as shop/web-app: no sample in it yet; nothing was sent\n" in capsys.readouterr().err


def test_credentials_are_sent_and_never_shown(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("me:hush-hush\n")
    for flag, header in (
        ("--bearer-file", "Bearer me:hush-hush"),
        ("--basic-file", f"Basic {base64.b64encode(b'me:hush-hush').decode()}"),
    ):
        with playing(lambda *_: (401, b"")) as (url, heard):
            source = [f"--prometheus={url}", f"{flag}={tmp_path / 'secret'}", "--header=X-Scope-OrgID=prod"]
            assert code_of(*source, *served[1]) == 1
        assert (heard[0]["Authorization"], heard[0]["X-Scope-OrgID"]) == (header, "prod")
        assert "hush" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--prometheus=ftp://host",), "allowed: http://HOST:PORT or https://HOST/PATH"),
        (("--prometheus=http://me:hush@host",), "--prometheus host: is not allowed"),
        (("--prometheus=http://host?x=1",), "is not allowed"),
        (("--prometheus=http://host:99999",), "is not allowed"),
        (("--prometheus=",), "is not allowed; allowed: http://HOST:PORT"),
        (("--prometheus=host:9090",), "--prometheus host:9090: is not allowed"),
        (("--prometheus=http://",), "is not allowed"),
        (("--prometheus=http://host", "--queries-per-second=0"), "'0' is not allowed; allowed: 1 to 1000"),
        (("--prometheus=http://host", "--rate-window=5"), "'5' is not allowed; allowed: 30 to 600"),
        (("--prometheus=http://host", "--timeout=1e3"), "'1e3' is not allowed; allowed: 1 to 600"),
        (("--prometheus=http://host", "--max-samples=-1"), "'-1' is not allowed"),
        (("--prometheus=http://host", "--days=15"), "'15' is not allowed; allowed: 1 to 14"),
        (("--prometheus=http://host", "--days=0"), "'0' is not allowed; allowed: 1 to 14"),
        (("--prometheus=http://host", "--label=cluster"), "--label 'cluster': is not allowed; allowed: NAME=VALUE"),
        (("--prometheus=http://host", "--label=a-b=c"), "--label 'a-b': is not allowed"),
        (("--prometheus=http://host", "--label=a=1", "--label=a=2"), "each name once"),
        (("--prometheus=http://host", "--header=X Y=1"), "--header 'X Y': is not allowed"),
        (("--prometheus=http://host", "--label-name=node=host"), "--label-name node=host: is not allowed"),
        (("--prometheus=http://host", "--namespace=Shop"), "--namespace 'Shop': is not allowed"),
        (("--prometheus=http://host", "--bearer-file=/nowhere"), "--bearer-file /nowhere: cannot be read"),
        (("--prometheus=http://host", "--bearer-file=/dev/null"), "is empty, or no single line"),
        (
            ("--prometheus=http://host", f"--prometheus-ca-file={Path(__file__).parents[2] / 'LICENSE'}"),
            "LICENSE: no PEM certificate in it",
        ),
        (("--prometheus=http://host", "--metric-prefix=a-b"), "--metric-prefix 'a-b': is not allowed"),
        (
            ("--prometheus=http://host", "--metric-name=up=down"),
            "--metric-name up=down: is not allowed; allowed: NAME=",
        ),
        (("--prometheus=http://host", "--vpa-checkpoints"), "not allowed with argument --prometheus"),
        ((), "one of the arguments --prometheus --vpa-checkpoints is required"),
        (("--vpa-checkpoints",), "there is no API server to ask; allowed: with --kubeconfig FILE"),
        (("--prometheus=http://host", "--progress=/nowhere/x"), "there is no directory /nowhere"),
        (("--prometheus=http://host", "--progress=/dev/null"), "is no file of this command's"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert code_of(*arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "hush" not in error


def test_questions_keep_their_pace() -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    with playing(lambda *_: answer("vector")) as (url, _):
        reader = PrometheusReader(PrometheusOptions(url=url), clock=lambda: now[0], sleep=sleep)
        for _ in range(3):
            reader.now("up", (), unix_seconds=1)
    assert slept == [0.5, 0.5]
    assert reader.queries == 3
    with pytest.raises(PrometheusError, match="no PEM certificate"):
        PrometheusReader(PrometheusOptions(url=url, authority="nothing"))


def test_what_is_put_off_is_asked_again_and_not_for_ever() -> None:
    now, slept, left = [100.0], list[float](), [3]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    def play(*_: object) -> Any:
        left[0] -= 1
        return (429, b'{"error":"slow down"}') if left[0] >= 0 else answer("vector")

    with playing(play) as (url, _):
        reader = PrometheusReader(PrometheusOptions(url=url), clock=lambda: now[0], sleep=sleep)
        assert reader.now("up", (), unix_seconds=1) == {}
        assert slept == [2.0, 2.0, 2.0]
        left[0] = 1000
        with pytest.raises(PrometheusError, match=r": 429: slow down$"):
            reader.now("up", (), unix_seconds=1)
    assert (reader.queries, left) == (8, [996])


def test_a_webhook_that_has_no_time_is_asked_again(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook, options = served
    waits: list[float] = []
    monkeypatch.setattr("agent.cli.verbs.cluster.backfill.sleep", waits.append)
    taken = webhook.services.history
    puts_off = [fault(503, "busy", retry_after_seconds=7.0), fault(429, "too many", retry_after_seconds=9.0)]

    def take(call: Call) -> HttpAnswer:
        return puts_off.pop() if puts_off else taken(call)

    folder, name = Path(options[1].removeprefix("--token-file=")).parent / "busy", "plimsoll-webhook.plimsoll.svc"
    with running(replace(webhook.services, history=take), folder, names=(name,)) as busy, playing(sound) as (url, _):
        host, port = busy.address
        arguments = [f"--webhook=https://{host}:{port}", f"--ca-file={busy.authority}", options[1], options[3]]
        assert code_of(f"--prometheus={url}", "--days=1", *arguments) == 0
    assert (waits, puts_off) == ([9.0, 7.0], [])
    assert capsys.readouterr().out.startswith("imported: ")


def test_an_address_keeps_its_path() -> None:
    assert address_of("https://mimir.example/prometheus/") == "https://mimir.example/prometheus"
