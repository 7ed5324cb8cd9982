"""What ``plimsoll backfill`` costs a real Prometheus and a webhook, and how long a whole cluster takes by that.

Measured is a day of one namespace of 200 pods, which is all that one question ever asks for; what 5,000 workloads over
14 days take is reckoned from its CPU time, which others on the machine do not change. The Prometheus scrapes 200,000
series meanwhile, a quarter of what such a cluster has, and works out a rule over all of them, so that its memory is
no larger than that of one in use. It is asked at the default pace, and its memory looked at all the while, as before.
"""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from agent.cli.main import main
from tests.cluster.processes import Process, free_ports
from tests.monitoring.prometheus import Prometheus
from tests.webhook.https import running
from tests.webhook.stack import stack
from tests.webhook.test_access import Server, user

HOUR: Final = 3600
SCRAPE: Final = 30
HOURS: Final = 24
WORKLOADS: Final = 100
PODS_OF_ONE: Final = 2
OTHER_SERIES: Final = 200_000
OTHER_SCRAPES: Final = 4
"""Until its memory is looked at."""
SETTLED_SECONDS: Final = 40
SETTLED_RATIO: Final = 1.02
"""It grows no more than that within so long, or for so many times as long."""
MOST_SETTLING: Final = 7
ALL_WORKLOADS: Final = 5000
ALL_DAYS: Final = 14
NAMESPACES: Final = 50
"""Among which those are: each as large as the measured one."""
_MIB: Final = 1 << 20


def measure() -> Iterator[dict[str, float]]:
    """Measure; yields once."""
    with TemporaryDirectory() as name, _prometheus(Path(name)) as (process, url), _webhook(Path(name)) as options:
        arguments = ["backfill", f"--prometheus={url}", "--days=1", *options]
        watched = Path(f"/proc/{process.pid}/status")
        before = _settled(watched)
        with _watching(watched) as seen:
            began = time.process_time()
            assert main(arguments) == 0
            paced = time.process_time()
        assert main([*arguments, "--dry-run", "--queries-per-second=1000"]) == 0
        unsent = time.process_time()
    asked_seconds = unsent - paced
    sent_seconds = max(paced - began - asked_seconds, 0.0)
    # A day of a namespace: whose the pods are, what was killed, four slices of four signals, one group of pods.
    pace_seconds = (1 + 1 + 4 * 4) / 2.0
    whole_days = NAMESPACES * ALL_DAYS
    yield {
        "backfill_prometheus_anon_mib_before": before / _MIB,
        "backfill_prometheus_anon_mib_most": max(seen) / _MIB,
        "backfill_prometheus_anon_growth_ratio": max(seen) / before - 1.0,
        "backfill_asked_cpu_seconds_100x1d": asked_seconds,
        "backfill_sent_cpu_seconds_100x1d": sent_seconds,
        "backfill_pace_hours_5000x14d": pace_seconds * whole_days / HOUR,
        "backfill_hours_5000x14d": (max(pace_seconds, asked_seconds) + sent_seconds) * whole_days / HOUR,
    }


def _openmetrics(folder: Path, end: int) -> None:
    start = end - HOURS * HOUR
    with (folder / "trace.om").open("w") as out:
        for metric in ("container_cpu_usage_seconds", "container_pressure_cpu_waiting_seconds"):
            out.write(f"# TYPE {metric} counter\n")
            for labels, number in _pods('container="app"'):
                used = 0.0
                for second in range(start, end + 1, SCRAPE):
                    used += SCRAPE * (0.1 + (second // 600 + number) % 6 / 10)
                    out.write(f"{metric}_total{{{labels}}} {used:.2f} {second}\n")
        out.write("# TYPE container_memory_working_set_bytes gauge\n")
        for labels, number in _pods('container="app"'):
            for second in range(start, end + 1, SCRAPE):
                size = (100 + 10 * ((second // 600 + number) % 6)) * _MIB
                out.write(f"container_memory_working_set_bytes{{{labels}}} {size} {second}\n")
        out.write("# TYPE kube_pod_owner gauge\n")
        for labels, number in _pods('owner_kind="StatefulSet"'):
            owner = f'owner_name="set-{number // PODS_OF_ONE}"'
            out.writelines(f"kube_pod_owner{{{labels},{owner}}} 1 {second}\n" for second in range(start, end + 1, 60))
        out.write("# EOF\n")


def _pods(more: str) -> Iterator[tuple[str, int]]:
    for number in range(WORKLOADS * PODS_OF_ONE):
        yield f'namespace="shop",pod="set-{number // PODS_OF_ONE}-{number % PODS_OF_ONE}",{more}', number


@contextmanager
def _exporter() -> Iterator[int]:
    page = "".join(f'other{{n="{number}"}} 1\n' for number in range(OTHER_SERIES)).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _prometheus(folder: Path) -> Iterator[tuple[Process, str]]:
    _openmetrics(folder, int(time.time()) // HOUR * HOUR)
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "trace.om", "tsdb"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (port,) = free_ports(1, "127.0.0.1")
    with _exporter() as exporter:
        rules = "groups:\n- name: usual\n  rules:\n  - {record: others, expr: 'sum(rate(other[1m]))'}\n"
        (folder / "rules.yml").write_text(rules)
        config = "global: {scrape_interval: 10s, evaluation_interval: 10s}\nrule_files: [rules.yml]\n"
        config += "scrape_configs:\n- job_name: other\n  static_configs:\n"
        (folder / "prometheus.yml").write_text(f"{config}  - targets: ['127.0.0.1:{exporter}']\n")
        options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
        options += ["--storage.tsdb.retention.time=30d", f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
        process = Process("prometheus", ["prometheus", *options], folder / "prometheus.log")
        try:
            asked = Prometheus(process, port)
            process.wait_until(asked.is_ready, "it is ready")
            query = f"count_over_time(other{{n='0'}}[1h]) >= {OTHER_SCRAPES}"
            process.wait_until(lambda: bool(asked.get("query", query=query)["result"]), "it has scraped", 300.0)
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.stop(kill=True)


@contextmanager
def _webhook(folder: Path) -> Iterator[list[str]]:
    server = Server(users={"good": user("importer")}, creatable=frozenset({"/v1/history"}))
    (folder / "token").write_text("good\n")
    name = "plimsoll-webhook.plimsoll.svc"
    with stack(folder, server=server) as webhook:
        webhook.follow()
        with running(webhook.services, folder, names=(name,)) as served:
            host, port = served.address
            where = f"--webhook=https://{host}:{port}"
            yield [where, f"--ca-file={served.authority}", f"--token-file={folder / 'token'}"]


def _settled(status: Path) -> int:
    """Return what it has by itself: a young one grows until its collector has gone round a few times."""
    largest = _largest(status, SETTLED_SECONDS)
    for _ in range(MOST_SETTLING):
        print(f"Prometheus by itself: {largest / _MIB:.0f} MiB", file=sys.stderr)
        before, largest = largest, max(largest, _largest(status, SETTLED_SECONDS))
        if largest <= before * SETTLED_RATIO:
            break
    return largest


def _anonymous(status: Path) -> int:
    """Return its own memory, without pages of its files, which the kernel takes back when it wants them."""
    return next(int(line.split()[1]) << 10 for line in status.read_text().splitlines() if line.startswith("RssAnon:"))


def _largest(status: Path, seconds: float) -> int:
    """Return the most memory of some seconds, its collector's swings among that."""
    until, largest = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        largest = max(largest, _anonymous(status))
        time.sleep(0.05)
    return largest


@contextmanager
def _watching(status: Path) -> Iterator[list[int]]:
    seen, ended = [_anonymous(status)], threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            seen.append(_anonymous(status))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    for figures in measure():
        for name, value in figures.items():
            print(f"{name} {value:.3f}", file=sys.stderr)
