"""``python -m tests.scale.agents FILE``: what many agents say to the API server and the webhook, in one process.

Each has what an agent has: its own token, the four watches of ``ClusterView``, the questions of ``Rights``, and a
``WebhookClient`` that posts reports of its node's pods. What it has not is a sampler and a plan: the figures in its
reports are made up.

Orders come as lines on standard input, answers go as lines of JSON to standard output.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, NodeClass, Report, RollupRow
from agent.core.history.reports.rollup_figures import distribution
from agent.core.history.reports.rollup_json import kept_text, sent_text
from agent.kube.client.api import HttpApi
from agent.kube.client.credentials import Credentials
from agent.kube.client.own_rights import Purpose
from agent.kube.watch.reflector import pace_within
from agent.node.cluster.rights import Rights
from agent.node.cluster.view import ClusterView
from agent.node.reports.client import WebhookAnswer, WebhookAway, WebhookClient
from agent.settings import Settings
from tests.cluster.webhook_process import NAMESPACE
from tests.dying import dying_with_us
from tests.scale.counting import CONFIG_MAP
from tests.scale.population import SHOP, Seat

CONFIG_MAP_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
POSTERS: Final = 4
TURN_SECONDS: Final = 5.0
"""Between two turns of an agent's loop, as far as it asks for its rights."""
AGAIN_SECONDS: Final = 1.0


class Agent:
    """One node's."""

    def __init__(self, seat: Seat, *, server: str, authority: Path, webhook: str, folder: Path) -> None:
        self._seat = seat
        credentials = Credentials(server=server, origin="scale", ca_file=authority, token=seat.api_token)
        self._api = HttpApi(credentials)
        self.paused: str | None = None
        self.heard_seconds = 0.0
        """When the cluster's pause began or ended, by the clock that all processes of a machine share."""
        self.view = ClusterView(
            self._api,
            seat.node,
            pace=pace_within(Settings().act.stale_seconds),
            on_news=self._hear,
            pause_config_map=f"{NAMESPACE}/{CONFIG_MAP}",
        )
        # As by the chart's defaults: no taint, and so no right to one.
        self._rights = Rights(
            self._api, node=seat.node, needs_claim=True, unused=frozenset({Purpose.TAINT}), tell=lambda _: None
        )
        token = folder / f"{seat.node}.token"
        token.write_text(seat.webhook_token)
        self._client = WebhookClient(webhook, token_file=token, ca_file=authority, timeout_seconds=30.0)
        self._incarnation = str(uuid.uuid4())
        self._sequence = itertools.count(1)
        self.statuses: list[int] = []

    def _hear(self) -> None:
        watch = self.view.pause
        reason = None if watch is None else watch.reason()
        if reason != self.paused:
            self.paused, self.heard_seconds = reason, time.monotonic()

    def turn(self) -> None:
        """Ask for the rights where it is time to; in the agent that is the control loop's."""
        self._rights.ask(time.monotonic())

    @property
    def is_complete(self) -> bool:
        """All is read, and the rights are known and there."""
        standing, watch = self._rights.standing, self.view.pause
        is_known = standing is not None and not standing.missing and watch is not None and watch.is_listed
        return is_known and self.view.state().is_complete

    def post(self) -> tuple[int, int]:
        """Report the pods that the API server tells of; give how many rows were taken and how many refused."""
        pods = [pod for pod in self.view.state().pods if pod.namespace == SHOP]
        text = kept_text(self._report([(pod.name, pod.uid) for pod in pods]), agent="scale")
        for _ in range(60):
            answer = self._answer(sent_text(text, end_age_seconds=5.0, lost_reports=0))
            if answer is not None and answer.status not in (429, 503):
                break
            time.sleep(AGAIN_SECONDS)
        if answer is None or answer.status != 200:
            raise RuntimeError(f"{self._seat.node}: {answer}")
        document = json.loads(answer.body)
        return document["taken"], len(document["refused"])

    def _answer(self, text: str) -> WebhookAnswer | None:
        try:
            return self._client.post("/v1/report", text)
        except WebhookAway:
            return None
        finally:
            self._client.close()

    def _report(self, pods: Sequence[tuple[str, str]]) -> Report:
        import numpy as np

        random = np.random.default_rng()
        cpu, memory = random.lognormal(4.0, 0.5, 300), random.lognormal(18.0, 0.1, 30)
        return Report(
            node=self._seat.node,
            node_class=NodeClass(instance_type="m5.4xlarge", cpus=16),
            incarnation=self._incarnation,
            sequence=next(self._sequence),
            lost_reports=0,
            end_age_seconds=5.0,
            interval_seconds=300.0,
            rows=tuple(
                RollupRow(
                    workload=Workload(namespace=SHOP, kind="Deployment", name=name.rsplit("-", 2)[0]),
                    container="app",
                    pod=name,
                    pod_uid=uid,
                    pod_age_seconds=600.0,
                    covered_seconds=300.0,
                    cpu=distribution(cpu, CPU_BUCKETS),
                    cpu_adjusted=distribution(cpu * 1.01, CPU_BUCKETS),
                    memory=distribution(memory, MEMORY_BUCKETS),
                )
                for name, uid in pods
            ),
        )


class Agents:
    """All of this process."""

    def __init__(self, file: Path) -> None:
        document = json.loads(file.read_text())
        where = {"server": document["server"], "webhook": document["webhook"]}
        seats = [Seat(**{**fields, "pods": tuple(map(tuple, fields["pods"]))}) for fields in document["seats"]]
        self._agents = [
            Agent(seat, authority=Path(document["authority"]), folder=file.parent, **where) for seat in seats
        ]

    def start(self) -> dict[str, Any]:
        """Begin to watch and to ask; nothing is awaited."""
        for agent in self._agents:
            agent.view.start()
        threading.Thread(target=self._turns, daemon=True).start()
        return {}

    def _turns(self) -> None:
        with ThreadPoolExecutor(POSTERS) as pool:
            while True:
                list(pool.map(Agent.turn, self._agents))
                time.sleep(TURN_SECONDS)

    def look(self) -> dict[str, Any]:
        """Return how all fare."""
        statuses = [status for agent in self._agents for status in agent.view.statuses()]
        troubles = [status.trouble for status in statuses]
        troubles += [agent.view.pause.trouble for agent in self._agents if agent.view.pause is not None]
        return {
            "agents": len(self._agents),
            "complete": sum(agent.is_complete for agent in self._agents),
            "pods": sum(len(agent.view.state().pods) for agent in self._agents),
            "paused": sum(agent.paused is not None for agent in self._agents),
            "troubles": sum(cause is not None for cause in troubles),
            "events": sum(status.counts.events for status in statuses),
            "lists": sum(status.counts.lists for status in statuses),
            "failures": sum(status.counts.failures for status in statuses),
        }

    def heard(self) -> dict[str, Any]:
        """Return when the last of all heard of the cluster's pause, or of its end."""
        return {"seconds": max(agent.heard_seconds for agent in self._agents)}

    def post(self) -> dict[str, Any]:
        """Let each report once."""
        with ThreadPoolExecutor(POSTERS) as pool:
            answers = list(pool.map(Agent.post, self._agents))
        return {
            "reports": len(answers),
            "taken": sum(taken for taken, _ in answers),
            "refused": sum(refused for _, refused in answers),
        }


class AgentsProcess:
    """A process full of agents, as the test drives it."""

    def __init__(
        self, folder: Path, number: int, seats: Sequence[Seat], *, server: str, authority: Path, webhook: str
    ) -> None:
        folder.mkdir(parents=True)
        file = folder / "agents.json"
        document = {
            "server": server,
            "authority": str(authority),
            "webhook": webhook,
            "seats": list(map(asdict, seats)),
        }
        file.touch(mode=0o600)
        file.write_text(json.dumps(document))
        self._log = (folder / "log").open("w")
        self._child = subprocess.Popen(
            dying_with_us(sys.executable, "-m", "tests.scale.agents", file),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.name = f"agents-{number}"

    def order(self, word: str) -> dict[str, Any]:
        """Have something done and give what came of it."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(f"{word}\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended; its log is {self._log.name}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """End it."""
        self._child.kill()
        self._child.communicate()
        self._log.close()


def main(file: str) -> None:
    """Do what standard input says until it ends."""
    agents = Agents(Path(file))
    orders = {"start": agents.start, "look": agents.look, "heard": agents.heard, "post": agents.post}
    for line in sys.stdin:
        print(json.dumps(orders[line.strip()]()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
