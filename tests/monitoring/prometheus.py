"""A real Prometheus on loopback, with the chart's rules, and questions to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import shutil
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster.processes import Process, free_ports
from tests.monitoring.rule_files import RULE_FILES

SCRAPE_SECONDS: Final = 1


def why_not() -> str | None:
    """Why there is no Prometheus here; None when there is."""
    return None if shutil.which("prometheus") else "no prometheus here: apt-get install prometheus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Something to scrape."""

    job: str
    address: str
    labels: dict[str, str]
    authority: Path | None = None
    """Scraped over TLS, believing this; None = plain HTTP."""

    def config(self) -> dict[str, Any]:
        """Write it as Prometheus takes it: as the chart's monitors make it."""
        tls = {} if self.authority is None else {"scheme": "https", "tls_config": {"ca_file": str(self.authority)}}
        static = [{"targets": [self.address], "labels": self.labels}]
        return {"job_name": self.job, "honor_labels": True, "static_configs": static, **tls}


class Prometheus:
    """Asks; all answers are of everything that was scraped so far."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.port = port
        self.began_seconds = time.time()

    def is_ready(self) -> bool:
        try:
            return self._ask("/-/ready")[0] == 200
        except OSError:
            return False

    def get(self, path: str, **query: str) -> Any:
        """Ask the HTTP API; an error is the test's failure with Prometheus's own words."""
        status, body = self._ask(f"/api/v1/{path}?{urllib.parse.urlencode(query)}")
        assert status == 200, f"{query}: {body.decode()}"
        return json.loads(body)["data"]

    def _ask(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def series(self, expr: str, *, step_seconds: float = 1.0) -> list[dict[str, Any]]:
        """Evaluate over the whole life of this Prometheus; series without one number are left out."""
        answer = self.get(
            "query_range", query=expr, start=f"{self.began_seconds}", end=f"{time.time()}", step=f"{step_seconds}"
        )
        series: list[dict[str, Any]] = answer["result"]
        return [curve for curve in series if any(math.isfinite(float(value)) for _, value in curve["values"])]

    def now(self, expr: str) -> list[dict[str, Any]]:
        """Evaluate at this moment."""
        vector: list[dict[str, Any]] = self.get("query", query=expr)["result"]
        return vector


@contextlib.contextmanager
def prometheus(
    folder: Path, targets: Sequence[Target], *, scrape_seconds: int = SCRAPE_SECONDS
) -> Iterator[Prometheus]:
    """Run one inside the block; it is ready and scrapes."""
    (port,) = free_ports(1, "127.0.0.1")
    times = {"scrape_interval": f"{scrape_seconds}s", "scrape_timeout": f"{scrape_seconds}s"}
    config = {
        "global": {**times, "evaluation_interval": f"{scrape_seconds}s"},
        "rule_files": [str(file) for file in RULE_FILES],
        "scrape_configs": [target.config() for target in targets],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [
        "prometheus",
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    process = Process("prometheus", command, folder / "prometheus.log")
    server = Prometheus(process, port)
    try:
        process.wait_until(server.is_ready, f"127.0.0.1:{port} is ready")
        yield server
    finally:
        process.stop(kill=True)  # its data is not looked at again
