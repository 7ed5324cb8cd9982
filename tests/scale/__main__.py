"""``python -m tests.scale`` (``make scale``): hundreds of nodes on a real API server, and what Plimsoll asks of it.

kwok plays the kubelets of 500 nodes with 5,000 pods. Each node has an agent as far as the API server and the webhook
can tell (``agents``), held by the chart's rights and priority level, with tokens bound to its pod. The webhook
is the real process, as the chart's account, with PostgreSQL. Counted are calls, by the API server's audit log: bounds
are on counts and never on time, so that a slow machine gives the same answer.

Exit code 0: all within bounds; 1: not all; 2: the cluster could not be had.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil

from agent.kube.watch.reflector import WatchPace
from tests.cluster.api import MERGE, kubeconfig
from tests.cluster.audit import AuditLog
from tests.cluster.binaries import FOR_TESTS, KUBERNETES, BinaryError, ensure
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.identities import node_bound_token
from tests.cluster.processes import ClusterError
from tests.cluster.webhook_process import NAMESPACE, WebhookProcess, webhook
from tests.scale.agents import CONFIG_MAP_PATH, AgentsProcess
from tests.scale.counting import Calls, FlowControl, table
from tests.scale.population import Seat, each, install, kubelets, populate, replace_pods
from tests.webhook.postgres import postgres_server

AUDIT_POLICY: Final = Path(__file__).with_name("audit_policy.yaml")
WATCHES: Final = 4
"""Of an agent: pods, node, namespaces, and the ConfigMap with the cluster's pause."""
RIGHTS: Final = 10
"""Questions of an agent about its rights at its start: nine permissions, as it taints nothing, and its own claims."""
START_CALLS: Final = 2 * WATCHES + RIGHTS + 1
"""... a list and a watch of each, the rights, the server's version."""
OUTAGE_CALLS: Final = 3 * WATCHES + RIGHTS + 1
"""After an outage: a watch from where each was, which a server that began anew no longer knows (410), and then a list
and a watch; the rights, whose ten minutes may be up just then; the server's version."""
MARGIN: Final = 2
"""Watches that broke off on a server that was too busy, on the average."""
PUT_OFF: Final = 3
"""So often an agent may be told to come again, on the average, while all start or come back together."""
STALL_SECONDS: Final = 900.0
LOOK_SECONDS: Final = 2.0


class Bounds:
    """What was found against what is allowed; a line for each."""

    def __init__(self) -> None:
        self.failures = 0

    def at_most(self, what: str, figure: float, most: float) -> None:
        """Find no more than so many."""
        self._tell(what, figure, f"at most {most:g}", figure <= most)

    def exactly(self, what: str, figure: float, wanted: float) -> None:
        """Find just as many."""
        self._tell(what, figure, f"exactly {wanted:g}", figure == wanted)

    def _tell(self, what: str, figure: float, allowed: str, is_met: bool) -> None:
        self.failures += not is_met
        print(f"  {what:<66} {figure:>10g}  {allowed}{'' if is_met else '  MISSED'}", flush=True)


class Scale:
    """The cluster with its agents, and the steps of the test in their order."""

    def __init__(
        self, plane: ControlPlane, hook: WebhookProcess, seats: Sequence[Seat], agents: Sequence[AgentsProcess]
    ) -> None:
        self._plane, self._hook, self._seats, self._agents = plane, hook, seats, agents
        self._bounds = Bounds()
        self._replaced = 0

    @property
    def failures(self) -> int:
        """How many bounds were missed."""
        return self._bounds.failures

    def order(self, word: str) -> dict[str, int]:
        """Have all agents do something; give the sums."""
        answers = each(self._agents, lambda process: process.order(word))
        return {key: sum(answer[key] for answer in answers) for key in answers[0]}

    def start(self) -> None:
        """All agents start within two seconds, as after a rollout of everything at once."""
        log, flow = AuditLog(self._plane.audit_log), FlowControl(self._plane)
        self.order("start")
        self._await_complete()
        calls, after = Calls(log), FlowControl(self._plane)
        count = len(self._seats)
        print(f"start: {count} agents at once")
        self._tell(calls)
        bounds = self._bounds
        served = calls.by_node()
        bounds.at_most("calls of an agent until it knows all, mean", served.total() / count, START_CALLS + MARGIN)
        bounds.at_most("... of any one", max(served.values()), START_CALLS + 3 * WATCHES)
        bounds.at_most("calls of an agent that were put off, mean", len(calls.put_off()) / count, PUT_OFF)
        bounds.exactly("agents that were heard, by the node in their tokens", len(served), count)
        self._always(calls)
        bounds.exactly("agents' pods in view (each node's own)", self.order("look")["pods"], self._pods())
        others = after.rejected_of_others() - flow.rejected_of_others()
        bounds.exactly("calls of everybody else put off by flow control", others, 0)
        print(
            f"  the priority level plimsoll has {after.seats():g} seats, and served"
            f" {after.dispatched() - flow.dispatched():g} calls and put off {after.rejected() - flow.rejected():g}"
        )

    def steady(self, minutes: float) -> None:
        """Time passes: all report every five minutes, and one pod of each node is replaced by another."""
        log, flow = AuditLog(self._plane.audit_log), FlowControl(self._plane)
        begun = time.monotonic()
        events = self.order("look")["events"]
        reports = 0
        rounds = max(1, math.ceil(minutes / 5.0))
        for number in range(rounds):
            posted = self.order("post")
            reports += posted["reports"]
            self._bounds.exactly("rows refused by the webhook", posted["refused"], 0)
            if number == 0:
                self._replaced += replace_pods(self._plane, self._seats, first_number=1_000_000)
                self._await(lambda: self._hears_of(events + 2 * len(self._seats)), "the changes are seen")
            time.sleep(max(0.0, begun + (number + 1) * 60.0 * minutes / rounds - time.monotonic()))  # it is the test
        calls, after = Calls(log), FlowControl(self._plane)
        seconds = time.monotonic() - begun
        count = len(self._seats)
        print(f"steady: {seconds / 60:.1f} minutes, {reports} reports, {self._replaced} pods replaced")
        self._tell(calls)
        bounds = self._bounds
        # A watch is asked to last for at least so long, and each one that ends is followed by one.
        most = math.ceil(seconds / WatchPace().watch_seconds[0])
        for kind in ("pods", "nodes", "namespaces", "configmaps"):
            bounds.at_most(f"watches of {kind} by any node", calls.most_of_a_node(f"watch {kind}"), most)
        lists = [call for call in calls.of_agents if call.verb == "list"]
        bounds.exactly("lists by agents", len(lists), 0)
        per_minute = len(calls.of_agents) / count / (seconds / 60)
        bounds.at_most("calls per node and minute by agents", round(per_minute, 3), 1.0)
        reviews = sum(call.resource == "tokenreviews" for call in calls.of_webhook)
        bounds.at_most("token reviews by the webhook, for each report", round(reviews / reports, 3), 1)
        rest = len(calls.of_webhook) - reviews
        # Its election renews a Lease each few seconds; its watches are as long as the agents'.
        bounds.at_most("other calls by the webhook, per minute", round(rest / (seconds / 60), 1), 60)
        both = (len(calls.of_agents) + len(calls.of_webhook)) / count / (seconds / 60)
        print(f"  all calls of Plimsoll per node and minute: {both:.3f}")
        self._always(calls)
        bounds.exactly("calls put off by flow control", after.rejected() - flow.rejected(), 0)
        bounds.exactly("agents without a good view", count - self.order("look")["complete"], 0)
        text = self._hook.get("/metrics").body.decode()
        print(
            f"  webhook: {psutil.Process(self._hook.process.pid).memory_info().rss / 2**20:.0f} MiB resident,"
            f" {len(text) >> 10} KiB of metrics"
        )

    def pause(self) -> None:
        """Somebody pauses the cluster and resumes it: all agents hear of both, by the watches that they have."""
        log, flow = AuditLog(self._plane.audit_log), FlowControl(self._plane)
        print(f"pause: of the whole cluster, and its end; {len(self._seats)} agents")
        for reason in ("incident 12", None):
            begun = time.monotonic()
            self._plane.admin.patch(CONFIG_MAP_PATH, {"data": {"pause": reason}}, MERGE)
            self._await_paused(len(self._seats) if reason else 0)
            last = max(answer["seconds"] for answer in each(self._agents, lambda process: process.order("heard")))
            print(f"  {reason or 'its end'}: heard by the last of them {last - begun:.2f} s after it was written")
        calls, after = Calls(log), FlowControl(self._plane)
        lists = sum(call.verb == "list" for call in calls.of_agents)
        self._bounds.exactly("lists by agents, who hear it by their watches", lists, 0)
        self._bounds.exactly("calls put off by flow control", after.rejected() - flow.rejected(), 0)
        self._always(calls)

    def outage(self) -> None:
        """The API server goes and comes back, and all have lost their watches at the same moment."""
        look = self.order("look")
        with self._plane.outage():
            self._await(lambda: self.order("look")["troubles"] >= WATCHES * len(self._seats), "all notice")
            log = AuditLog(self._plane.audit_log)
        self._await(lambda: not self.order("look")["troubles"], "all are back")
        posted = self.order("post")
        calls, flow = Calls(log), FlowControl(self._plane)
        count = len(self._seats)
        after = self.order("look")
        print(f"outage: {after['failures'] - look['failures']} attempts failed meanwhile")
        self._tell(calls)
        bounds = self._bounds
        served = calls.by_node().total() / count
        bounds.at_most("calls of an agent until all is well again, mean", served, OUTAGE_CALLS + MARGIN)
        bounds.at_most("calls of an agent that were put off, mean", len(calls.put_off()) / count, PUT_OFF)
        bounds.exactly("rows refused by the webhook", posted["refused"], 0)
        bounds.exactly("calls that reach past the own node", len(calls.elsewhere()), 0)
        bounds.exactly("calls of everybody else put off by flow control", flow.rejected_of_others(), 0)

    def _await_paused(self, count: int) -> None:
        self._await(lambda: self.order("look")["paused"] == count, "all hear of the pause, or of its end")

    def _await_complete(self) -> None:
        count = len(self._seats)
        self._await(lambda: self.order("look")["complete"] == count, "all agents know all")

    @staticmethod
    def _await(condition: Callable[[], bool], what: str) -> None:
        """Wait, asking seldom: to ask hundreds of agents takes their time."""
        deadline = time.monotonic() + STALL_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise ClusterError(f"not within {STALL_SECONDS:.0f} s: {what}")
            time.sleep(LOOK_SECONDS)

    def _hears_of(self, events: int) -> bool:
        return self.order("look")["events"] >= events

    def _pods(self) -> int:
        return sum(len(seat.pods) + 1 for seat in self._seats)

    def _always(self, calls: Calls) -> None:
        """Bound what must not be at any time."""
        self._bounds.exactly("calls that reach past the own node", len(calls.elsewhere()), 0)
        refused = calls.refused()
        for call in refused[:5]:
            print(f"  refused: {call} {call.user}")
        self._bounds.exactly("calls answered with an error", len(refused), 0)
        self._bounds.exactly(
            "writes by agents, which only watch here", sum(call.is_write for call in calls.of_agents), 0
        )

    @staticmethod
    def _tell(calls: Calls) -> None:
        for who, of in (("agents", calls.of_agents), ("webhook", calls.of_webhook)):
            for kind, count in table(of):
                print(f"    {who:<8} {kind:<56} {count:>8}")


@contextmanager
def cluster(folder: Path, arguments: Any, say: Callable[[str], None]) -> Iterator[Scale]:
    """Have it all inside the block."""
    with ExitStack() as stack:
        audit = f"--audit-policy-file={AUDIT_POLICY}"
        plane = stack.enter_context(
            control_plane(KUBERNETES, directory=folder / "plane", with_controllers=False, apiserver_arguments=[audit])
        )
        install(plane)
        stack.enter_context(kubelets(plane))
        say(f"{arguments.nodes} nodes with {arguments.nodes * (arguments.pods + 1)} pods are made")
        seats = populate(plane, nodes=arguments.nodes, pods_of_node=arguments.pods)
        server = stack.enter_context(postgres_server())
        say("the webhook starts")
        token = node_bound_token(plane, NAMESPACE, "plimsoll-webhook", None, seconds=7200)
        hook = stack.enter_context(
            webhook(
                plane,
                folder,
                kubeconfig=kubeconfig(plane.api_with_token(token), folder / "webhook.kubeconfig"),
                database=server.tcp_url(server.new_database()),
            )
        )
        share = math.ceil(len(seats) / arguments.processes)
        agents = [
            AgentsProcess(
                folder / f"agents-{number}",
                number,
                seats[number * share : (number + 1) * share],
                server=plane.url,
                authority=plane.authority,
                webhook=f"https://127.0.0.1:{hook.port}",
            )
            for number in range(arguments.processes)
        ]
        for process in agents:
            stack.callback(process.stop)
        yield Scale(plane, hook, seats, agents)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.scale", description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=9, help="on each node, beside the agent's (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=9.0, help="of steady state (default %(default)s)")
    parser.add_argument("--processes", type=int, default=4, help="that hold the agents (default %(default)s)")
    arguments = parser.parse_args()
    begun = time.monotonic()

    def say(what: str) -> None:
        print(f"scale: {time.monotonic() - begun:4.0f} s: {what}", file=sys.stderr, flush=True)

    try:
        ensure([*FOR_TESTS, "helm", "kwok"], progress=lambda _: None)
        with TemporaryDirectory(prefix="plimsoll-scale-") as name, cluster(Path(name), arguments, say) as scale:
            say("agents start")
            scale.start()
            say("time passes")
            scale.steady(arguments.minutes)
            say("the cluster is paused and resumed")
            scale.pause()
            say("the API server goes and comes back")
            scale.outage()
            failures = scale.failures
    except (BinaryError, ClusterError) as error:
        print(error, file=sys.stderr)
        return 2
    say(f"bounds missed: {failures}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
