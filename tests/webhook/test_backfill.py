"""``plimsoll backfill``: a real Prometheus with a known past, one that lies, and the webhook that sizes by it."""

from __future__ import annotations

import base64
import http.server
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
from typing import Any, Final

import numpy as np
import pytest

from agent.cli.client.prometheus import PrometheusError, PrometheusOptions, PrometheusReader, address_of
from agent.cli.main import main
from agent.core.admission.estimate import Estimate
from agent.core.cluster.workload import Workload
from agent.core.history.hour_sketch import percentile_bucket
from agent.core.history.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from agent.core.orders.policy_options import PolicyName
from agent.webhook.http.routes import Call, HttpAnswer, fault
from agent.webhook.store.sketch_bytes import decode
from tests.cluster.processes import Process, free_ports
from tests.monitoring.prometheus import Prometheus, why_not
from tests.webhook.https import running
from tests.webhook.stack import Stack, stack
from tests.webhook.test_access import Server, user

HOUR: Final = 3600
MIB: Final = 1 << 20
HOURS: Final = 5
"""Of the known past."""
SCRAPE: Final = 30
NOW_HOUR: Final = int(time.time()) // HOUR
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
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
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
def served(tmp_path: Path) -> Iterator[tuple[Stack, list[str]]]:
    """A webhook that knows nothing yet, and the options to import into it."""
    server = Server(
        users={"good": user("importer")},
        readable=frozenset({"/v1/workloads/shop/Deployment/web"}),
        creatable=frozenset({"/v1/history"}),
    )
    (tmp_path / "token").write_text("good\n")
    with stack(tmp_path, server=server) as one:
        one.follow()
        with running(one.services, tmp_path, names=("plimsoll-webhook.plimsoll.svc",)) as running_server:
            host, port = running_server.address
            options = [f"--webhook=https://{host}:{port}", f"--token-file={tmp_path / 'token'}"]
            yield one, [*options, f"--ca-file={running_server.authority}", "--queries-per-second=1000"]


def code_of(*arguments: str) -> int:
    try:
        return main(["backfill", *arguments])
    except SystemExit as ended:
        return int(str(ended.code))


@needs_prometheus
def test_the_first_pod_is_sized_from_a_real_prometheus(
    past: str, served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one, options = served
    arguments = [f"--prometheus={past}", "--days=1", "--label=cluster=prod", *options]
    assert code_of(*arguments, "--dry-run") == 0
    out, _ = capsys.readouterr()
    assert out.startswith(f"would be imported: 1 namespace, 1 workload, 1 container, {HOURS} hours; ")
    assert one.index.workloads() == ()
    progress = f"--progress={tmp_path / 'done'}"
    assert code_of(*arguments, progress) == 0
    out, error = capsys.readouterr()
    assert out.startswith(f"imported: 1 namespace, 1 workload, 1 container, {HOURS} hours ({HOURS} new); ")
    assert "left out: " in error

    web = Workload(namespace="shop", kind="Deployment", name="web")
    found = one.index.estimate(
        web, "app", policy=PolicyName.CRUISE, node=None, node_class=None, now_unix_seconds=NOW_HOUR * HOUR + 10.0
    )
    assert isinstance(found, Estimate)
    # 0.6 cores that wait 0.3 of the time are 0.78, and a tenth more for what scrapes miss is 858m; 150 MiB are 165.
    assert found.cpu_request_millicores == pytest.approx(858, rel=0.01)
    assert found.memory_request_bytes == pytest.approx(165 * MIB, rel=0.001)
    assert (found.oom_memory_bytes, found.imported_hours, found.pods) == (256 * MIB, HOURS, 2)

    # What agents would have seen: both pods' seconds, each counted; they wait half as much as they use.
    seconds = np.arange(HOUR)
    levels = (seconds // 600 + 1) * 100.0
    both = np.concatenate([levels, levels * 0.5])
    for kept in one.store.sketches(0):
        sketch = decode(kept.payload, kept.unix_hour)
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
    assert sum(decode(kept.payload, kept.unix_hour).kills.count for kept in one.store.sketches(0)) == 1

    assert main(["workloads", "shop/Deployment/web", *options[:3]]) == 0
    assert f"{HOURS} hours of seven days from Prometheus: peaks between scrapes are not seen" in capsys.readouterr().out

    before = {(kept.key, kept.unix_hour): kept.payload for kept in one.store.sketches(0)}
    assert code_of(*arguments) == 0
    assert f"{HOURS} hours (0 new)" in capsys.readouterr().out
    assert {(kept.key, kept.unix_hour): kept.payload for kept in one.store.sketches(0)} == before
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
    one, options = served
    assert code_of(f"--prometheus={past}", "--days=1", *options, *more) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert words in last
    assert last.endswith("; nothing was sent")
    assert list(one.store.sketches(0)) == []


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
            found = play(self.path, fields)
            if callable(found):
                found(self)
                return
            status, body = found if isinstance(found, tuple) else (200, found)
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
        (lambda *_: dripping, "an answer that takes longer than 1 s"),
        (lambda *_: endless, "an answer of more than 64 MiB"),
        (lambda *_: b"[" * 100_000, "its answer is not that of a Prometheus"),
    ],
)
def test_a_prometheus_that_lies_is_one_line_and_changes_nothing(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], play: Play, words: str
) -> None:
    one, options = served
    with playing(play) as (url, _):
        assert code_of(f"--prometheus={url}", "--days=1", "--timeout=1", *options) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert words in error
    assert error.count("\n") == 1
    assert error.endswith("; nothing was sent\n")
    assert list(one.store.sketches(0)) == []


def test_what_breaks_off_leaves_whole_days_and_goes_on_from_there(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one, options = served
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
        sent = len(list(one.store.sketches(0)))
        assert sent > 0
        assert code_of(*arguments) == 0
        out = capsys.readouterr().out
        assert "1 day done before" in out
        assert asked[1] == asked[2], "the day that broke off is read again, the one before is not"
    assert len(list(one.store.sketches(0))) > sent


def test_what_the_webhook_refuses_is_told(served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    one, options = served
    with playing(bent(valued("9e12"), "container_cpu_usage")) as (url, _):
        assert code_of(f"--prometheus={url}", "--days=1", *options) == 1
        assert "the webhook refused" in capsys.readouterr().err
    one.server.creatable = frozenset()
    one.server.users["other"] = user("reader")
    token = Path(options[1].removeprefix("--token-file="))
    token.write_text("other\n")
    with playing(sound) as (url, _):
        assert code_of(f"--prometheus={url}", "--days=1", *options) == 1
    assert "may not create the nonResourceURL /v1/history" in capsys.readouterr().err


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


def test_a_webhook_that_has_no_time_is_asked_again(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, options = served
    waits: list[float] = []
    monkeypatch.setattr("agent.cli.verbs.backfill.sleep", waits.append)
    taken = one.services.history
    puts_off = [fault(503, "busy", retry_after_seconds=7.0), fault(429, "too many", retry_after_seconds=9.0)]

    def take(call: Call) -> HttpAnswer:
        return puts_off.pop() if puts_off else taken(call)

    folder, name = Path(options[1].removeprefix("--token-file=")).parent / "busy", "plimsoll-webhook.plimsoll.svc"
    with running(replace(one.services, history=take), folder, names=(name,)) as busy, playing(sound) as (url, _):
        host, port = busy.address
        arguments = [f"--webhook=https://{host}:{port}", f"--ca-file={busy.authority}", options[1], options[3]]
        assert code_of(f"--prometheus={url}", "--days=1", *arguments) == 0
    assert (waits, puts_off) == ([9.0, 7.0], [])
    assert capsys.readouterr().out.startswith("imported: ")


def test_an_address_keeps_its_path() -> None:
    assert address_of("https://mimir.example/prometheus/") == "https://mimir.example/prometheus"
