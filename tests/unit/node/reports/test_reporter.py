"""Reporting against a real HTTPS server, with clocks that move when told: outages, repeats, restarts, refusals."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass, NodeSums, ResourceSums
from agent.core.history.reports.rollup_schedule import node_share
from agent.metrics.loop_series import LoopSeries
from agent.metrics.report_series import ReportSeries
from agent.node.files.steady_clock import BootClock
from agent.node.reports import client as webhook_client
from agent.node.reports.client import WebhookClient
from agent.node.reports.newcomers import Newcomers
from agent.node.reports.report_queue import ReportQueue
from agent.node.reports.report_sender import ReportSender
from agent.node.reports.reporter import ReportClocks, ReportedNode, Reporter
from agent.settings.sections import ReportSettings
from agent.webhook.reports.decoder import DecodedReport, decode_report, unpacked
from tests.fakes import FakeClock
from tests.unit.node.reports.test_roller import World, web_pod
from tests.webhook_server import Answer, Request, WebhookServer, authority
from tests.window_rows import NS, memory, sample

UNIX_AT_START = 1_800_000_000.0
START = 10_000.0
"""CLOCK_MONOTONIC, seconds."""
SHARE = node_share("node-a") * 300
"""How far into five minutes this node's intervals end."""


class Webhook:
    """A receiver that reads reports as the real one does, takes each number once, and can be told to do otherwise."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.answers: list[Answer | None] = []
        """What is answered next, instead of taking the report; None = taken, and the connection is cut."""
        self.taken: dict[tuple[str, int], DecodedReport] = {}
        self.ends: list[float] = []
        """When the intervals taken ended, by the receiver's clock."""
        self.repeats = 0
        self.etag: str | None = "e1"

    def behave(self, request: Request) -> Answer | None:
        """Answer a request."""
        forced = self.answers.pop(0) if self.answers else Answer()
        if forced is not None and forced != Answer():
            return forced
        assert request.path == "/v1/report"
        text = unpacked(request.packed, request.headers["content-encoding"], most_bytes=1 << 20)
        decoded = decode_report(text, most_rows=100)
        report = decoded.report
        name = (report.incarnation, report.sequence)
        is_repeated = name in self.taken
        self.repeats += is_repeated
        if not is_repeated:
            self.taken[name] = decoded
            self.ends.append(self._clock.seconds - report.end_age_seconds)
        body = {
            "schema": 1,
            "taken": len(report.rows),
            "refused": [{"row": refusal.row, "reason": refusal.reason} for refusal in decoded.refused],
            "repeated": is_repeated,
            "etag": self.etag,
            "directives": None,
        }
        return None if forced is None else Answer(body=json.dumps(body).encode())

    @property
    def sequences(self) -> list[int]:
        return [sequence for _, sequence in self.taken]

    @property
    def covered_seconds(self) -> float:
        return sum(row.covered_seconds for post in self.taken.values() for row in post.report.rows)

    @property
    def cpu_samples(self) -> int:
        return sum(row.cpu.count for post in self.taken.values() for row in post.report.rows if row.cpu is not None)


class Node:
    """A node of one container that is sampled each second, and its reporter."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = FakeClock(START)
        self.boot_id = "boot-1"
        self.wall_ahead_seconds = 0.0
        self.world = World()
        self.unit = self.world.watch()
        self.sampled_seconds = int(START)
        self.webhook = Webhook(self.clock)
        self.stack = ExitStack()
        self.unread: list[str] = []
        # Keeps the port while no server listens there: another process may be given a free one, and the server that
        # comes back could not have it.
        self.kept_port = socket.socket()
        self.kept_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.kept_port.bind(("127.0.0.1", 0))
        self.port = self.kept_port.getsockname()[1]
        self.start_server()
        self.queue_bytes = 1 << 24
        self.etag: str | None = None
        self.here: set[Workload] = set()
        self.told: set[Workload] = set()
        self.answers: list[Any] = []
        self.is_ready = True
        self.sums: NodeSums | None = None
        self.chance = 0.5
        self.reporter = self.start()

    def start(self) -> Reporter:
        """Start an agent, as it were."""
        boot = BootClock(self.boot_id, lambda: self.clock.seconds + 100.0)
        self.registry = CollectorRegistry()
        self.queue = ReportQueue(self.directory, max_bytes=self.queue_bytes, boot=boot, wall_now=self.wall_now)
        self.reporter = Reporter(
            options=ReportSettings(url=self.server.url),
            node=ReportedNode(
                name="node-a",
                node_class=lambda: NodeClass(instance_type="m5.large", cpus=4),
                is_ready=lambda: self.is_ready,
                etag=lambda: self.etag,
                newcomers=Newcomers(lambda: self.here, lambda: self.told, chance=lambda: self.chance),
                sums=lambda: self.sums,
            ),
            roller=self.world.roller,
            queue=self.queue,
            sender=ReportSender(
                queue=self.queue,
                client=WebhookClient(
                    self.server.url, token_file=None, ca_file=authority("webhook").certificate, timeout_seconds=60.0
                ),
                series=ReportSeries(self.registry),
                etag=lambda: self.etag,
                on_answer=self.take,
                clock_ns=self.clock,
                wall_now=self.wall_now,
                chance=lambda: self.chance,
            ),
            clocks=ReportClocks(boot=boot, clock_ns=self.clock, wall_now=self.wall_now),
            counts=LoopSeries().begin("report"),
        )
        return self.reporter

    def wall_now(self) -> float:
        return UNIX_AT_START + self.clock.seconds - START + self.wall_ahead_seconds

    def take(self, answer: object) -> None:
        if isinstance(answer, str):
            self.unread.append(answer)
            return
        assert isinstance(answer, dict)
        self.answers.append(answer)
        self.etag = answer["etag"]

    def sample(self) -> None:
        """Let the sampler run up to now: 250m of CPU."""
        while self.sampled_seconds < int(self.clock.seconds):
            self.sampled_seconds += 1
            at = self.sampled_seconds
            self.world.rings.append_raw(self.unit.slot, sample(at, at * 250_000, periods=at))
            if at % 10 == 0:
                self.world.rings.append_memory(self.unit.slot, memory(at, 3 << 20)[0])

    def run_for(self, seconds: float, *, is_sampled: bool = True) -> None:
        """Let time pass, turn by turn."""
        until = self.clock.seconds + seconds
        while True:
            if is_sampled:
                self.sample()
            pause = self.reporter.turn()
            if self.clock.seconds >= until:
                return
            self.clock.advance(min(max(pause, 0.001), until - self.clock.seconds))

    def stop_server(self) -> None:
        self.stack.close()

    def start_server(self) -> None:
        self.server = self.stack.enter_context(WebhookServer(self.webhook.behave, port=self.port))

    def value(self, line: str) -> float:
        """Return one value of the page."""
        page = generate_latest(self.registry).decode()
        return next(float(series.rpartition(" ")[2]) for series in page.splitlines() if series.startswith(line + " "))

    def close(self) -> None:
        self.reporter.stop()
        self.stack.close()
        self.kept_port.close()
        self.world.rings.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    new_node = Node(tmp_path / "reports")
    yield new_node
    new_node.close()


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]


# --- all is well


def test_the_first_report_goes_at_once_where_nothing_was_told_the_others_at_their_moments(node: Node) -> None:
    node.run_for(30)
    assert node.webhook.sequences == [1]
    assert node.etag == "e1"
    node.run_for(1500)
    assert 5 <= len(node.webhook.taken) <= 7
    # on the wall clock's five minutes, moved by what belongs to this node
    wall = [UNIX_AT_START + end - START for end in node.webhook.ends[1:]]
    assert [round((end - SHARE) % 300, 3) % 300 for end in wall] == [pytest.approx(0, abs=0.01)] * len(wall)
    first, second, *_ = node.server.requests
    assert "if-none-match" not in first.headers
    assert second.headers["if-none-match"] == '"e1"'
    report = list(node.webhook.taken.values())[-1].report
    assert (report.node, report.node_class, report.lost_reports) == (
        "node-a",
        NodeClass(instance_type="m5.large", cpus=4),
        0,
    )
    (row,) = report.rows
    assert (row.workload.name, row.container, row.pod_uid) == ("web", "app", "uid-1")
    assert row.cpu is not None
    assert row.cpu.count == 300
    assert row.cpu.max == pytest.approx(250.0)
    assert node.answers[-1]["taken"] == 1
    assert node.reporter.notes() == ()
    standing = node.reporter.standing()
    assert (standing.trouble, standing.waiting_reports, standing.lost_reports) == (None, 0, 0)
    assert standing.last_success_age_seconds is not None
    assert 0 <= standing.last_success_age_seconds <= 301
    assert node.value('plimsoll_report_posts_total{result="taken"}') == len(node.webhook.taken)
    assert node.value('plimsoll_report_rows_total{result="taken"}') >= 5
    assert node.value("plimsoll_report_queue_reports") == 0
    success = node.value("plimsoll_report_last_success_timestamp_seconds")
    assert success == pytest.approx(node.wall_now() - standing.last_success_age_seconds)


def test_a_report_tells_of_the_newest_plan_and_that_there_is_none(node: Node) -> None:
    sums = ResourceSums(allocatable=4000, requested=100, reserved=0, base=100, planned=150, is_infeasible=False)
    node.run_for(30)
    node.sums = NodeSums(cpu=sums, memory=sums)
    node.run_for(600)
    first, *_, last = (post.report for post in node.webhook.taken.values())
    assert (first.tells_plan, first.plan) == (True, None)
    assert (last.tells_plan, last.plan) == (True, node.sums)


def test_each_second_is_told_once(node: Node) -> None:
    node.run_for(3600)
    told_until = node.webhook.ends[-1]
    # readings are of whole seconds: the first lies a second after the start
    assert node.webhook.covered_seconds == pytest.approx(told_until - (START + 1), abs=1.1)
    # each reading ends one rate, but for those of the first ten seconds
    assert node.webhook.cpu_samples == pytest.approx(told_until - START - 10, abs=2)
    assert node.webhook.repeats == 0


@pytest.mark.parametrize("after_seconds", [20.0, 140.0, 200.0, 290.0])
def test_a_hastened_report_tells_all_until_now_and_no_second_twice(node: Node, after_seconds: float) -> None:
    node.run_for(30)
    first_end = node.webhook.ends[-1]
    node.run_for(first_end + 300 - node.clock.seconds)  # just before the second on the grid
    node.run_for(300 + after_seconds)
    before, taken = len(node.webhook.taken), []
    assert node.reporter.reported_until_seconds() == pytest.approx(node.webhook.ends[-1], abs=0.01)
    node.reporter.when_taken(lambda: taken.append(node.clock.seconds))
    asked = node.clock.seconds
    node.reporter.hasten(asked)
    node.run_for(10)
    assert len(node.webhook.taken) == before + 1
    assert node.webhook.ends[-1] == pytest.approx(asked, abs=0.01)
    assert node.reporter.reported_until_seconds() == pytest.approx(asked, abs=0.01)
    assert len(taken) == 1
    node.reporter.hasten(asked)  # of which there is a report
    node.run_for(10)
    assert len(taken) == 1
    node.run_for(1200)
    wall = [UNIX_AT_START + end - START for end in node.webhook.ends[before + 1 :]]
    assert 3 <= len(wall) <= 5
    assert [round((end - SHARE) % 300, 3) % 300 for end in wall] == [pytest.approx(0, abs=0.01)] * len(wall)
    assert node.webhook.covered_seconds == pytest.approx(node.webhook.ends[-1] - (START + 1), abs=1.1)
    assert node.webhook.cpu_samples == pytest.approx(node.webhook.ends[-1] - START - 10, abs=2)


WEB, API = (Workload(namespace="shop", kind="Deployment", name=name) for name in ("web", "api"))


def run_past_an_end(node: Node) -> None:
    """Until 20 s after an end on the grid, with 280 s to the next."""
    node.run_for(600)
    node.run_for(round((SHARE - node.wall_now()) % 300 + 20))


def test_a_workload_that_is_new_here_is_asked_about_within_its_first_minute_and_once(node: Node) -> None:
    run_past_an_end(node)
    before = len(node.webhook.taken)
    node.here = {WEB}
    asked = node.clock.seconds
    node.run_for(45)  # ten to the next look, two, and half of thirty by lot
    assert len(node.webhook.taken) == before + 1
    assert asked < node.webhook.ends[-1] <= asked + 10 + 2 + 15 + 1
    assert node.reporter.reported_until_seconds() == pytest.approx(node.webhook.ends[-1], abs=0.01)
    # Nothing was told of it, as by a webhook that leaves it out: it is not asked again, but when it comes anew it is.
    node.run_for(60)
    assert len(node.webhook.taken) == before + 1
    node.here = set()
    node.run_for(10)
    node.here = {WEB}
    node.run_for(45)
    assert len(node.webhook.taken) == before + 2


def test_of_many_newcomers_a_node_asks_once_a_minute(node: Node) -> None:
    run_past_an_end(node)
    before = len(node.webhook.taken)
    for number in range(60):
        node.here.add(Workload(namespace="shop", kind="Deployment", name=f"web-{number}"))
        node.run_for(2)
    # In two minutes: one within 27 s, and the next no sooner than a minute later.
    assert len(node.webhook.taken) - before == 2


def test_who_was_told_of_meanwhile_is_not_asked_about(node: Node) -> None:
    run_past_an_end(node)
    before = len(node.webhook.taken)
    node.here, node.chance = {WEB, API}, 1.0
    node.run_for(15)
    node.told = {WEB, API}
    node.run_for(60)
    assert len(node.webhook.taken) == before


def test_what_is_hastened_while_an_interval_is_being_summed_up_comes_after_it(node: Node) -> None:
    node.run_for(30)
    node.run_for(600)
    node.run_for(node.webhook.ends[-1] + 300 + 2 - node.clock.seconds)  # its end was two seconds ago
    before, asked = len(node.webhook.taken), node.clock.seconds
    node.reporter.hasten(asked)
    node.run_for(15)
    assert len(node.webhook.taken) == before + 2
    assert node.webhook.ends[-1] >= asked
    until = node.reporter.reported_until_seconds()
    assert until is not None
    assert until >= asked


def test_who_asks_for_less_takes_back_nothing_of_what_another_asked_for(node: Node) -> None:
    """As the proposer does during an outage, each half minute anew, just when a shrink was taken back."""
    run_past_an_end(node)
    asked = node.clock.seconds
    node.reporter.set_back(web_pod(), "restarts")
    node.reporter.hasten(node.webhook.ends[-1] - 60.0)
    node.run_for(10)
    (setback,) = [row.setback for post in node.webhook.taken.values() for row in post.report.rows if row.setback]
    assert setback.reason == "restarts"
    assert node.webhook.ends[-1] >= asked


def test_what_is_hastened_before_the_pods_are_known_comes_with_the_first(node: Node) -> None:
    node.etag, node.is_ready = "held", False
    node.reporter.hasten(node.clock.seconds)
    node.run_for(60)
    assert node.webhook.taken == {}
    assert node.reporter.reported_until_seconds() is None
    node.is_ready = True
    node.run_for(30)  # without that it would wait for its place on the grid
    assert node.webhook.sequences == [1]


def test_what_cannot_be_sent_is_not_made_again_and_again(node: Node) -> None:
    node.run_for(30)
    node.stop_server()
    asked = node.clock.seconds
    for _ in range(10):
        node.reporter.hasten(asked)
        node.run_for(60)
    assert 2 <= node.queue.reports <= 4
    node.start_server()
    node.run_for(300)
    until = node.reporter.reported_until_seconds()
    assert until is not None
    assert until >= asked


def test_where_something_was_told_before_the_first_report_waits_its_time(node: Node) -> None:
    node.etag = "held"
    node.run_for(30)
    assert node.webhook.taken == {}
    node.run_for(310)
    assert node.webhook.sequences == [1]
    assert node.server.requests[0].headers["if-none-match"] == '"held"'


def test_nothing_is_made_before_the_pods_are_known(node: Node) -> None:
    node.is_ready = False
    node.run_for(1200)
    assert (node.webhook.taken, node.queue.reports) == ({}, 0)
    node.is_ready = True
    node.run_for(30)
    assert node.webhook.sequences == [1]
    assert node.webhook.covered_seconds == pytest.approx(300, abs=1.1)


def test_kills_are_told(node: Node) -> None:
    node.run_for(400)
    node.reporter.killed(node.unit.identity, memory_bytes=64 << 20, monotonic_ns=int(node.clock.seconds * NS), kills=1)
    killed_at = node.clock.seconds
    node.run_for(310)
    ((at, memory_bytes),) = [
        (end - kill.age_seconds, kill.memory_bytes)
        for end, post in zip(node.webhook.ends, node.webhook.taken.values(), strict=True)
        for row in post.report.rows
        for kill in row.oom_kills
    ]
    assert memory_bytes == 64 << 20
    assert at == pytest.approx(killed_at, abs=0.01)


def test_a_shrink_taken_back_is_on_its_way_before_an_agent_can_be_restarted_and_is_told_once(node: Node) -> None:
    node.run_for(400)
    node.stop_server()
    node.reporter.set_back(web_pod(), "restarts")
    node.run_for(10)
    node.reporter.stop()
    node.start()
    node.start_server()
    node.run_for(400)
    (setback,) = [row.setback for post in node.webhook.taken.values() for row in post.report.rows if row.setback]
    assert setback.reason == "restarts"
    assert setback.age_seconds == pytest.approx(0, abs=1)


# --- the webhook is away


def test_an_outage_of_an_hour_loses_nothing_and_tells_nothing_twice(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="agent.node.reports.report_sender")
    node.run_for(600)
    before = len(node.webhook.taken)
    node.stop_server()
    node.run_for(3600)
    waiting = node.queue.reports
    assert waiting in (11, 12, 13)
    assert node.value("plimsoll_report_queue_reports") == waiting
    assert node.value("plimsoll_report_queue_bytes") == node.queue.size_bytes > 0
    assert len(node.webhook.taken) == before
    (note,) = node.reporter.notes()
    assert "Connection refused" in note
    assert node.reporter.standing().trouble is not None
    # with back-off a webhook that is away is asked a few times, not each second
    attempts = node.value('plimsoll_report_posts_total{result="unreachable"}')
    assert 12 <= attempts <= 30
    node.start_server()
    node.run_for(600)
    sequences = node.webhook.sequences
    assert sequences == [*range(1, len(sequences) + 1)]  # each once, in order
    assert len(sequences) >= before + waiting
    assert (node.webhook.repeats, node.queue.lost, node.queue.reports) == (0, 0, 0)
    # the receiver gives each interval its place: five minutes after the one before, whenever it came
    gaps = [later - earlier for earlier, later in zip(node.webhook.ends[1:], node.webhook.ends[2:], strict=False)]
    assert gaps == [pytest.approx(300, abs=0.01)] * len(gaps)
    assert node.webhook.covered_seconds == pytest.approx(node.webhook.ends[-1] - (START + 1), abs=1.1)
    assert warnings_of(caplog) == ["the webhook takes no reports", "the webhook takes reports again"]
    assert node.reporter.notes() == ()


def test_a_queue_is_drained_one_after_the_other_with_pauses(node: Node) -> None:
    node.run_for(400)
    node.stop_server()
    node.run_for(3600)
    node.start_server()
    begun = node.clock.seconds
    while not node.server.requests:
        node.run_for(1)
    began_draining = node.clock.seconds
    assert began_draining - begun <= 300
    before = len(node.server.requests)
    node.run_for(10)  # 2.5 s apart by this lot
    assert 3 <= len(node.server.requests) - before <= 5


def test_when_the_bound_is_hit_what_is_lost_is_counted_and_the_rest_arrives(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="agent.node.reports.report_sender")
    node.run_for(400)
    size = _size_of_one(node)
    node.queue_bytes = size * 5
    node.reporter.stop()
    node.start()
    node.stop_server()
    node.run_for(3600)
    assert node.queue.size_bytes <= node.queue_bytes
    lost = node.queue.lost
    assert lost >= 6
    assert node.value("plimsoll_reports_lost_total") == lost
    node.start_server()
    node.run_for(400)
    last_sequence, lost = max(node.webhook.sequences), node.queue.lost
    assert len(node.webhook.taken) + lost == last_sequence
    # what is missing is one stretch, and the newest reports say how much it is
    missing = sorted(set(range(1, last_sequence + 1)) - set(node.webhook.sequences))
    assert missing == [*range(missing[0], missing[0] + lost)]
    assert list(node.webhook.taken.values())[-1].report.lost_reports == lost
    assert warnings_of(caplog).count("reports are lost") == 1


def _size_of_one(node: Node) -> int:
    """Return about how large a report of this node is in the queue."""
    node.stop_server()
    node.run_for(310)
    size = node.queue.size_bytes // node.queue.reports
    node.start_server()
    node.run_for(310)
    assert node.queue.reports == 0
    return size


def test_a_clock_that_is_set_during_an_outage_moves_no_interval(node: Node) -> None:
    node.run_for(600)
    node.stop_server()
    node.run_for(900)
    node.wall_ahead_seconds = -86_400.0
    node.run_for(900)
    node.wall_ahead_seconds = 86_400.0
    node.start_server()
    node.run_for(600)
    gaps = [later - earlier for earlier, later in zip(node.webhook.ends[1:], node.webhook.ends[2:], strict=False)]
    assert len(gaps) >= 7
    assert gaps == [pytest.approx(300, abs=0.01)] * len(gaps)


def test_an_answer_that_never_came_is_asked_for_again_and_counted_once(node: Node) -> None:
    node.webhook.answers = [None]
    node.run_for(60)
    assert node.webhook.sequences == [1]
    assert node.webhook.repeats == 1
    assert node.queue.reports == 0
    assert node.value('plimsoll_report_posts_total{result="unreachable"}') == 1
    assert node.value('plimsoll_report_posts_total{result="repeated"}') == 1
    assert [answer["repeated"] for answer in node.answers] == [True]


def test_reports_that_are_damaged_while_they_wait_are_passed_over(node: Node) -> None:
    node.run_for(400)
    node.stop_server()
    node.run_for(310)
    for path in node.directory.glob("*.report"):
        path.write_bytes(b"")
    node.start_server()
    node.run_for(620)
    missing = set(range(1, max(node.webhook.sequences) + 1)) - set(node.webhook.sequences)
    assert len(missing) == node.queue.lost >= 1
    assert node.value("plimsoll_reports_lost_total") == node.queue.lost


# --- the webhook says no


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (Answer(status=401, body=b'{"error":"no token"}'), "forbidden"),
        (Answer(status=403, body=b'{"error":"the token names another node"}'), "forbidden"),
        (Answer(status=404, body=b"not here"), "not_understood"),
        (Answer(status=301, body=b""), "not_understood"),
        (Answer(status=429, body=b"{}"), "throttled"),
        (Answer(status=500, body=b"\xff"), "unavailable"),
        (Answer(status=503, body=b'{"error":"the database is away"}'), "unavailable"),
        (Answer(body=b"<html>welcome</html>"), "not_understood"),
        (Answer(body=b'{"taken":true}'), "not_understood"),
        (Answer(body=b"[]"), "not_understood"),
        (Answer(body=b"[" * 100_000), "not_understood"),
    ],
)
def test_what_may_yet_be_taken_is_kept_and_sent_again(node: Node, answer: Answer, result: str) -> None:
    node.webhook.answers = [answer, answer]
    while not node.value(f'plimsoll_report_posts_total{{result="{result}"}}'):
        node.run_for(1)
    assert node.queue.reports == 1
    assert len(node.reporter.notes()) == 1
    trouble = node.reporter.standing()
    assert trouble.is_access_refused is (result == "forbidden")
    node.run_for(60)
    assert node.webhook.sequences == [1]
    assert node.value(f'plimsoll_report_posts_total{{result="{result}"}}') == 2
    assert (node.queue.reports, node.queue.lost, node.reporter.standing().trouble) == (0, 0, None)
    assert len(node.answers) == 1


@pytest.mark.parametrize("status", [400, 413])
def test_what_will_never_be_taken_is_dropped_and_counted(
    node: Node, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="agent.node.reports.report_sender")
    node.webhook.answers = [Answer(status=status, body=b'{"error":"rows: not a list"}')] * 2
    node.run_for(700)
    assert node.webhook.sequences[0] == 3
    assert node.queue.lost == 2
    assert node.value('plimsoll_report_posts_total{result="refused"}') == 2
    assert node.value("plimsoll_reports_lost_total") == 2
    assert next(iter(node.webhook.taken.values())).report.lost_reports == 2
    assert warnings_of(caplog) == [
        "reports are lost",
        "the webhook takes no reports",
        "the webhook takes reports again",
    ]


def test_a_webhook_that_asks_to_be_left_alone_is(node: Node) -> None:
    node.webhook.answers = [Answer(status=503, body=b"{}", headers={"Retry-After": "120"})]
    while not node.server.requests:
        node.run_for(1)
    node.run_for(119)
    assert len(node.server.requests) == 1
    node.run_for(65)  # half as long again at most, by lot
    assert node.webhook.sequences[0] == 1


def test_rows_that_are_refused_are_counted_and_said_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    answer = {"taken": 0, "refused": [{"row": 0, "reason": "not on this node"}], "repeated": False, "etag": None}
    node.webhook.answers = [Answer(body=json.dumps(answer).encode())] * 2
    node.run_for(700)
    assert node.value('plimsoll_report_rows_total{result="refused"}') == 2
    assert warnings_of(caplog).count("the webhook refuses rows") == 1
    [said] = [record for record in caplog.records if record.message == "the webhook refuses rows"]
    assert vars(said)["first"] == "row 0: not on this node"


@pytest.mark.parametrize("fault", [7, "no\nrow", {"row": "0", "reason": "odd"}, {"reason": []}, None])
def test_a_refusal_in_another_form_is_said_in_one_line(
    node: Node, caplog: pytest.LogCaptureFixture, fault: object
) -> None:
    answer = {"taken": 0, "refused": [fault], "repeated": False, "etag": None}
    node.webhook.answers = [Answer(body=json.dumps(answer).encode())]
    node.run_for(400)
    [said] = [record for record in caplog.records if record.message == "the webhook refuses rows"]
    assert "\n" not in vars(said)["first"]


def test_a_report_whose_answer_is_too_long_is_taken_and_not_sent_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_client, "LONGEST_ANSWER_BYTES", 10_000)
    node.webhook.answers = [Answer(body=b"x" * 10_001)] * 3
    node.run_for(700)
    assert set(node.unread) == {f"{node.server.url} answered with more than is read"}
    assert node.value('plimsoll_report_posts_total{result="taken"}') == len(node.unread) + len(node.answers) == 3
    assert node.value("plimsoll_report_queue_reports") == 0


def test_credentials_that_cannot_be_read_are_trouble_until_they_can(node: Node, tmp_path: Path) -> None:
    token = tmp_path / "token"
    node.reporter._sender._client = WebhookClient(
        node.server.url, token_file=token, ca_file=authority("webhook").certificate, timeout_seconds=60.0
    )
    node.run_for(60)
    standing = node.reporter.standing()
    assert standing.is_access_refused
    assert str(token) in (standing.trouble or "")
    assert node.value('plimsoll_report_posts_total{result="no_credentials"}') >= 2
    token.write_text("t")
    node.run_for(300)
    assert node.webhook.sequences[0] == 1
    assert node.reporter.standing().trouble is None


def test_an_answer_that_nobody_can_use_is_not_asked_for_again(node: Node) -> None:
    def refuse(answer: object) -> None:
        raise ValueError("directives")

    node.reporter._sender._on_answer = refuse
    for _ in range(30):
        node.sample()
        try:
            node.clock.advance(max(node.reporter.turn(), 0.001))
        except ValueError:
            break
    else:
        raise AssertionError("nothing was answered")
    assert (node.webhook.sequences, node.queue.reports) == ([1], 0)


# --- restarts


def test_a_restart_within_an_interval_goes_on_where_the_last_report_ended(node: Node) -> None:
    node.run_for(700)
    node.reporter.stop()
    node.start()
    node.run_for(40)
    node.reporter.stop()
    node.start()
    node.run_for(1200)
    assert node.webhook.sequences == [*range(1, len(node.webhook.taken) + 1)]
    assert len({name for name, _ in node.webhook.taken}) == 1
    assert node.webhook.covered_seconds == pytest.approx(node.webhook.ends[-1] - (START + 1), abs=1.1)
    assert node.webhook.cpu_samples == pytest.approx(node.webhook.ends[-1] - START - 10, abs=2)


def test_a_successor_knows_until_when_was_reported_in_this_boot(node: Node) -> None:
    assert node.reporter.last_end_ns is None
    node.run_for(700)
    last_end_ns = node.reporter.last_end_ns
    assert last_end_ns == pytest.approx(node.webhook.ends[-1] * NS, abs=NS)
    node.reporter.stop()
    assert node.start().last_end_ns == pytest.approx(last_end_ns, abs=NS)
    node.boot_id = "boot-2"
    assert node.start().last_end_ns is None


def test_what_was_sampled_before_the_agent_went_is_told_after_it_is_back(node: Node) -> None:
    node.run_for(700)
    last = node.webhook.ends[-1]
    while (node.clock.seconds - last) < 200:
        node.clock.advance(1)
    node.sample()
    node.reporter.stop()
    sampled_until = int(node.clock.seconds)
    node.clock.advance(250)  # nobody samples
    node.sampled_seconds = int(node.clock.seconds)
    node.start()
    before = len(node.webhook.taken)
    node.run_for(40)
    rest = list(node.webhook.taken.values())[before:]
    assert sum(row.covered_seconds for post in rest for row in post.report.rows) == pytest.approx(
        sampled_until - last, abs=1.1
    )


def test_after_a_long_pause_only_the_newest_interval_is_told(node: Node) -> None:
    node.run_for(700)
    before = len(node.webhook.taken)
    node.reporter.stop()
    node.clock.advance(86_400)
    node.sampled_seconds = int(node.clock.seconds)
    node.start()
    node.run_for(340)
    # what nobody sampled is no report, the newest is one for its directives
    assert len(node.webhook.taken) - before <= 2
    assert node.webhook.sequences == [*range(1, len(node.webhook.taken) + 1)]
    assert all(post.report.interval_seconds <= 450 for post in node.webhook.taken.values())


def test_a_reboot_begins_a_new_clock_and_keeps_the_numbers(node: Node) -> None:
    node.run_for(700)
    node.stop_server()
    node.run_for(310)
    node.reporter.stop()
    node.boot_id = "boot-2"
    node.clock.advance(600)
    node.sampled_seconds = int(node.clock.seconds)
    node.start_server()
    node.start()
    node.run_for(700)
    assert node.webhook.sequences == [*range(1, len(node.webhook.taken) + 1)]
    assert node.queue.lost == 0


# --- the thread


def test_the_thread_reports_survives_faults_and_ends(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    answered = threading.Event()
    node.reporter._sender._on_answer = lambda answer: answered.set()
    node.run_for(12)
    node.clock.advance(30)
    node.sample()
    turn, failed = node.reporter.turn, threading.Event()

    def once() -> float:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("broken")
        return turn()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("agent.node.reports.reporter.FAILED_SECONDS", 0.001)
        patched.setattr("agent.node.reports.reporter.STOP_SECONDS", 60.0)  # it ends at once, but not on a busy machine
        patched.setattr(node.reporter.turns, "_turn", once)
        node.reporter.turns.start()
        assert answered.wait(60)
        assert node.reporter.stop()
        assert node.reporter.stop()
    assert [message for message in warnings_of(caplog) if message == "reporting failed"] == ["reporting failed"]


def test_an_end_does_not_wait_for_a_webhook_that_does_not_answer(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        node.reporter._sender._client = WebhookClient(
            f"https://127.0.0.1:{silent.getsockname()[1]}",
            token_file=None,
            ca_file=authority("webhook").certificate,
            timeout_seconds=600.0,  # it is the test that ends the connection, however long that takes
        )
        node.run_for(12)
        node.clock.advance(30)
        node.sample()
        node.reporter.turns.start()
        connection, _ = silent.accept()  # the request is under way
        assert node.reporter.stop() is False
        connection.close()
    assert node.reporter.turns.join(60)
    assert node.queue.reports == 1


@pytest.mark.slow
def test_without_a_webhook_nothing_of_it_is_loaded() -> None:
    code = "import sys, agent.node.daemon, agent.node.resize.assembly; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "agent.node.resize.assembly" in loaded
    ours = (
        "agent.node.reports.reporter",
        "agent.node.reports.roller",
        "agent.node.reports.client",
        "agent.metrics.report_series",
    )
    assert [name for name in loaded if name.startswith(ours)] == []
