"""pause, resume, pin, unpin, restore: from the command line through the socket to what is held, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.cli.client.agent import ask_or_refuse
from agent.cli.main import main
from agent.cli.verbs.node.restore import LOOKS
from agent.core.cluster.pod import Pod
from agent.core.plan.plan import PlanStep
from agent.core.resize.decision import Action, Decision, Outcome
from agent.core.resize.originals import ref_of
from agent.node.orders.holds import Holds
from agent.node.orders.journal import Journal
from agent.node.orders.verbs import LATER, HoldingVerbs
from agent.node.sockets.control import ControlError
from tests.control_sockets import answering
from tests.pods import container, make_pod

NOW = 1_700_000_000.0


def pod(name: str, namespace: str = "shop", cpu: str = "200m") -> Pod:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    return make_pod(container("app", {"cpu": cpu}), metadata=metadata)


@dataclass
class Agent:
    """An agent with two pods of one name and one more."""

    path: Path
    now: float = NOW
    outcome: Outcome = Outcome.ACCEPTED
    is_told: bool = True
    busy_looks: int = 0
    """So many looks later stands in the pods what was sent: the kubelet is at something else."""
    sent: list[PlanStep] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    journal: Journal = field(default_factory=lambda: Journal(None))

    def __post_init__(self) -> None:
        self.pods: tuple[Pod, ...] = (pod("web"), pod("api"), pod("web", "team"))
        self.holds = Holds(self.path.parent / "holds", now_unix_seconds=NOW)
        self.verbs = HoldingVerbs(
            node="worker-7",
            journal=self.journal,
            holds=self.holds,
            pods=self.look,
            send=self.send,
            clock=lambda: self.now,
            is_told=lambda: self.is_told,
        )

    def look(self) -> tuple[Pod, ...]:
        self.busy_looks -= bool(self.taken and self.busy_looks)
        if not self.busy_looks:
            self.pods = tuple(
                pod(node_pod.name, node_pod.namespace, cpu="500m") if node_pod.uid in self.taken else node_pod
                for node_pod in self.pods
            )
            self.taken.clear()
        return self.pods

    def send(self, pod: Pod, step: PlanStep) -> Decision:
        self.sent.append(step)
        if self.outcome is Outcome.ACCEPTED:
            self.taken.add(pod.uid)
            if self.busy_looks:
                self.journal.add(
                    unix_seconds=self.now + 1,
                    action=Action.RESTORE,
                    outcome=Outcome.WITHHELD,
                    reason="node_full",
                    detail="waits for room",
                    pod=ref_of(pod),
                )
        promised = LATER if self.busy_looks else ""
        return self.journal.add(
            unix_seconds=self.now,
            action=Action.RESTORE,
            outcome=self.outcome,
            reason="x",
            detail=promised if self.outcome is Outcome.ACCEPTED else "over quota",
        )


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path / "agent.sock")
    with answering(agent.path, agent.verbs.verbs()):
        yield agent


@pytest.fixture
def say(agent: Agent, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a verb; give exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        try:
            code = main([*words, "--socket", str(agent.path)])
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 99
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pause", "30m"), "unrecognized arguments: 30m; allowed: --for 30m (see"),
        (("pin", "api", "1h30m"), "unrecognized arguments: 1h30m; allowed: --for 1h30m (see"),
        (("pin", "api", "web"), "unrecognized arguments: web (see"),
        (("resume", "30m"), "unrecognized arguments: 30m (see"),
    ],
)
def test_a_span_without_for_says_how(say: Any, words: tuple[str, ...], told: str) -> None:
    code, out, err = say(*words)
    assert (code, out) == (2, "")
    assert f"plimsoll {words[0]}: {told}" in err


# Pause


def test_pause_and_resume_are_confirmed_on_one_line(agent: Agent, say: Any) -> None:
    assert say("pause") == (0, "worker-7 is paused until plimsoll resume: nothing is written\n", "")
    assert agent.holds.is_paused(NOW + 1e9)
    code, out, _ = say("pause", "--for", "1h30m")
    assert code == 0
    assert out.startswith("worker-7 is paused until 2023-11-1")
    assert " (it was paused since 2023-11-1" in out
    assert agent.holds.is_paused(NOW + 5399)
    assert not agent.holds.is_paused(NOW + 5400)
    code, out, _ = say("resume")
    assert out.startswith("worker-7 goes on: it was paused since 2023-11-1")
    assert say("resume") == (0, "worker-7 was not paused\n", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("soon", "'soon' is not a duration"),
        ("0s", "'0s' is not a duration"),
        ("9999d", "'9999d' is too long"),
        ("-3m", "-3m"),
    ],
)
def test_spans_that_are_none_are_refused(agent: Agent, say: Any, text: str, told: str) -> None:
    for verb in (("pause",), ("pin", "api")):
        code, out, err = say(*verb, f"--for={text}")
        assert (code, out) == (2, "")
        assert told in err
        assert len(err.splitlines()) == 1
    assert not agent.holds.is_paused(NOW)


def test_a_disk_that_does_not_take_it_is_said_and_the_pause_holds(agent: Agent, say: Any) -> None:
    agent.path.parent.joinpath("holds.new").mkdir()  # what is written aside is in the way
    code, out, err = say("pause")
    assert code == 0
    assert "is paused" in out
    assert err.startswith("plimsoll pause: ")
    assert "a restart of the agent forgets new orders" in err


# Pins


def test_pin_and_unpin_are_confirmed_on_one_line(agent: Agent, say: Any) -> None:
    assert say("pin", "api") == (0, "shop/api is left alone until plimsoll unpin\n", "")
    assert say("pin", "team/web", "--for", "2h")[1].startswith("team/web is left alone until 2023-11-1")
    assert " (it was pinned since 2023-11-1" in say("pin", "api")[1]
    assert agent.holds.pinned(NOW) == {"uid-shop-api", "uid-team-web"}
    assert say("unpin", "api")[1].startswith("shop/api may be sized again: it was pinned since 2023")
    assert say("unpin", "api") == (0, "shop/api was not pinned\n", "")


def test_pin_without_a_name_tells_what_is_held(agent: Agent, say: Any) -> None:
    assert say("pin") == (0, "nothing is pinned or paused on worker-7\n", "")
    say("pin", "api")
    say("pause", "--for", "1h")
    first, second = say("pin")[1].splitlines()
    assert first.startswith("worker-7 is paused since 2023-11-1")
    assert second.startswith("shop/api is pinned since 2023-11-1")
    assert second.endswith("until plimsoll unpin")
    assert say("pin", "--for", "1h")[0] == 2


def test_pin_without_a_name_speaks_of_itself_where_it_asks_by_another_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def holds(arguments: Mapping[str, object]) -> Mapping[str, object]:
        raise ControlError("holds: unknown argument x; allowed: none")

    with answering(tmp_path / "other.sock", {"holds": holds}) as path, pytest.raises(SystemExit) as left:
        main(["pin", "--socket", str(path)])
    assert left.value.code == 2
    assert capsys.readouterr().err == "plimsoll pin: unknown argument x; allowed: none\n"
    assert main(["pin", "--socket", str(path)]) == 1  # nobody listens there any more
    assert capsys.readouterr().err.startswith(f"plimsoll pin: no agent at {path}")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("web", "web may be any of 2: shop/web, team/web; allowed: one of them"),
        ("wep", "nothing is called wep; allowed: "),
    ],
)
@pytest.mark.parametrize("verb", ["pin", "unpin", "restore"])
def test_no_pod_is_guessed(agent: Agent, say: Any, verb: str, name: str, told: str) -> None:
    code, out, err = say(verb, name)
    assert (code, out) == (2, "")
    assert f"plimsoll {verb}: {told}" in err
    assert len(err.splitlines()) == 1


def test_unpin_of_all_undoes_a_restore_of_all(agent: Agent, say: Any) -> None:
    for namespace in ("shop", "team"):
        agent.holds.keep_original(pod("web", namespace, cpu="500m"), now_unix_seconds=NOW)
    say("restore", "--all")
    assert len(agent.holds.pinned(NOW)) == 2
    code, out, err = say("unpin", "--all")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith("shop/web may be sized again: it was pinned since 2023-11-1")
    assert second.startswith("team/web may be sized again")
    assert agent.holds.pins(NOW) == ()
    assert say("unpin", "--all") == (0, "nothing was pinned on worker-7\n", "")


# Restore


def test_restore_says_what_is_put_back(agent: Agent, say: Any) -> None:
    agent.holds.keep_original(pod("api", cpu="500m"), now_unix_seconds=NOW)
    dry = say("restore", "api", "--dry-run")
    assert dry == (0, "shop/api: would be restored: app CPU 200m to 500m\n", "")
    assert agent.sent == []
    assert say("restore", "api") == (0, "shop/api: restored and pinned: app CPU 200m to 500m\n", "")
    assert len(agent.sent) == 1
    assert agent.holds.pinned(NOW) == {"uid-shop-api"}


def test_restore_of_what_has_its_requests_and_of_nothing(agent: Agent, say: Any) -> None:
    assert say("restore", "--all") == (0, "nothing to restore: no pod of worker-7 was resized by this agent\n", "")
    agent.holds.keep_original(pod("api"), now_unix_seconds=NOW)
    assert say("restore", "--all", "--dry-run") == (0, "shop/api: has its original requests\n", "")
    assert agent.holds.pins(NOW) == ()
    assert say("restore", "--all") == (0, "shop/api: has its original requests, and is pinned\n", "")
    assert agent.holds.pinned(NOW) == {"uid-shop-api"}


def test_a_restore_that_fails_is_1_and_on_stderr(agent: Agent, say: Any) -> None:
    for namespace in ("shop", "team"):
        agent.holds.keep_original(pod("web", namespace, cpu="500m"), now_unix_seconds=NOW)
    agent.outcome = Outcome.REJECTED
    code, out, err = say("restore", "--all")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        f"{number}/2 {name}: not restored (rejected: over quota): app CPU 200m to 500m"
        for number, name in enumerate(("shop/web", "team/web"), 1)
    ]


def test_no_original_known_is_2(agent: Agent, say: Any) -> None:
    code, _, err = say("restore", "api")
    assert code == 2
    assert "shop/api: no original requests are known: it was never resized here" in err


@pytest.mark.parametrize("verb", ["restore", "unpin"])
@pytest.mark.parametrize(
    ("words", "told"),
    [((), "neither POD nor --all is given"), (("api", "--all"), "both POD and --all are given")],
)
def test_a_pod_or_all_is_wanted(agent: Agent, say: Any, verb: str, words: tuple[str, ...], told: str) -> None:
    code, out, err = say(verb, *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert f"{verb}: {told}; allowed: one of them" in err


class Counted:
    """Counts what is restored, and does to the agent what a test says, before a pod is."""

    def __init__(self, agent: Agent, before: Callable[[str], None] = lambda name: None) -> None:
        self.asked: list[Mapping[str, object]] = []
        self.before = before
        self._restore = agent.verbs.restore

    def restore(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        self.asked.append(arguments)
        if arguments.get("dry_run") is not True:
            self.before(str(arguments["name"]))
        return self._restore(arguments)


@pytest.fixture
def three(agent: Agent) -> Agent:
    """All three pods were resized."""
    for node_pod in agent.pods:
        agent.holds.keep_original(pod(node_pod.name, node_pod.namespace, cpu="500m"), now_unix_seconds=NOW)
    return agent


def restore_all(agent: Agent, counted: Counted, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    path = agent.path.with_name("counted.sock")
    with answering(path, {**agent.verbs.verbs(), "restore": counted.restore}):
        code = main(["restore", "--all", "--socket", str(path)])
    out, err = capsys.readouterr()
    return code, out, err


def test_all_are_restored_with_one_question_each(three: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    counted = Counted(three)
    code, out, err = restore_all(three, counted, capsys)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{number}/3 {name}: restored and pinned: app CPU 200m to 500m"
        for number, name in enumerate(("shop/api", "shop/web", "team/web"), 1)
    ]
    uids = ("uid-shop-api", "uid-shop-web", "uid-team-web")
    look = {"all": True, "dry_run": True}
    assert counted.asked == [look, *({"name": uid} for uid in uids), look]


def test_it_ends_when_what_was_promised_stands_in_the_pods(
    three: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.cli.verbs.node.restore.AGAIN_SECONDS", 0.0)
    three.busy_looks = 20
    code, out, err = restore_all(three, Counted(three), capsys)
    assert (code, err) == (0, "")
    first, *_, last = out.splitlines()
    assert first == f"1/3 shop/api: restored and pinned: app CPU 200m to 500m ({LATER})"
    assert last == "waiting for 3 pods: a resize is under way there"
    assert [node_pod.containers[0].resources.cpu_request_millicores for node_pod in three.pods] == [500, 500, 500]


def test_what_is_promised_and_does_not_come_is_1(
    three: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.cli.verbs.node.restore.AGAIN_SECONDS", 0.0)
    monkeypatch.setattr("agent.cli.verbs.node.restore.SETTLE_SECONDS", 0.2)
    three.busy_looks = 1_000_000
    code, _, err = restore_all(three, Counted(three), capsys)
    assert code == 1
    assert err.splitlines() == [
        f"{number}/3 {name}: not restored yet: withheld: node_full: waits for room"
        for number, name in enumerate(("shop/api", "shop/web", "team/web"), 1)
    ]


def test_one_that_lacks_it_now_and_then_is_not_waited_for_without_end(
    three: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.cli.verbs.node.restore.AGAIN_SECONDS", 0.0)
    monkeypatch.setattr("agent.cli.verbs.node.restore.SETTLE_SECONDS", 0.2)
    counts = cycle((1, 2))

    def some(walk: Any) -> Any:
        return tuple(walk._taken.values())[: next(counts)]

    monkeypatch.setattr("agent.cli.verbs.node.restore._Walk._lacking", some)
    assert restore_all(three, Counted(three), capsys)[0] == 1


def test_whoever_goes_while_it_is_waited_for_is_told_and_counted(
    three: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def go(_: float) -> None:
        three.pods = tuple(node_pod for node_pod in three.pods if node_pod.uid != "uid-shop-web")

    monkeypatch.setattr("agent.cli.verbs.node.restore.time", SimpleNamespace(sleep=go, monotonic=lambda: 0.0))
    three.busy_looks = 20
    code, out, err = restore_all(three, Counted(three), capsys)
    assert (code, err) == (0, "")
    assert out.splitlines()[3:] == [
        "waiting for 3 pods: a resize is under way there",
        "2/3 shop/web: is gone or has ended: nothing left to restore",
        "1 of 3 pods are gone or have ended: nothing of them is left to restore",
    ]


def test_ctrl_c_while_pods_are_waited_for_says_which(
    three: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agent.cli.verbs.node.restore.time", SimpleNamespace(sleep=interrupt, monotonic=lambda: 0.0))
    three.busy_looks = 1_000_000
    code, _, err = restore_all(three, Counted(three), capsys)
    assert code == 130
    assert err.splitlines()[-2:] == [
        "plimsoll restore: stopped: 0 of 3 pods are done",
        "plimsoll restore: the agent restores these as soon as it can: shop/api, shop/web, team/web",
    ]


def test_as_long_as_one_after_the_other_is_done_nobody_gives_up(
    three: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods come to it one by one, each just before the time for one is over."""
    clock = [0.0]

    def later(_: float) -> None:
        clock[0] += 50.0
        if clock[0] % 100.0 == 0:
            done = min(three.taken)
            three.taken.discard(done)
            three.pods = tuple(
                pod(node_pod.name, node_pod.namespace, cpu="500m") if node_pod.uid == done else node_pod
                for node_pod in three.pods
            )

    monkeypatch.setattr("agent.cli.verbs.node.restore.time", SimpleNamespace(sleep=later, monotonic=lambda: clock[0]))
    three.busy_looks = 1_000_000
    code, _, err = restore_all(three, Counted(three), capsys)
    assert (code, err) == (0, "")
    assert clock[0] == 300.0


def test_a_pod_that_went_meanwhile_does_not_stop_the_others(three: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    def go(name: str) -> None:
        three.pods = tuple(node_pod for node_pod in three.pods if node_pod.uid != "uid-shop-web")

    code, out, err = restore_all(three, Counted(three, go), capsys)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "1/3 shop/api: restored and pinned: app CPU 200m to 500m",
        "2/3 shop/web: is gone or has ended: nothing left to restore",
        "3/3 team/web: restored and pinned: app CPU 200m to 500m",
        "1 of 3 pods are gone or have ended: nothing of them is left to restore",
    ]


def test_a_pod_that_is_refused_and_still_there_is_1(three: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(name: str) -> None:
        if name == "uid-shop-web":
            raise ControlError("restore: not now")

    code, out, err = restore_all(three, Counted(three, refuse), capsys)
    assert (code, err) == (1, "2/3 shop/web: not restored: not now\n")
    assert len(out.splitlines()) == 2


def test_a_pod_that_ends_while_it_is_restored_is_no_failure(three: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    three.outcome = Outcome.CONFLICT

    def end(name: str) -> None:
        three.pods = tuple(
            replace(node_pod, phase="Succeeded") if node_pod.uid == name else node_pod for node_pod in three.pods
        )

    code, out, err = restore_all(three, Counted(three, end), capsys)
    assert (code, err) == (0, "")
    assert out.count("nothing left to restore") == 3
    assert three.holds.pins(NOW) == ()


def test_a_pod_that_changed_meanwhile_is_restored_as_it_has_become(
    three: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.cli.verbs.node.restore.AGAIN_SECONDS", 0.0)
    tries: list[str] = []

    def change(name: str) -> None:
        tries.append(name)
        three.outcome = Outcome.CONFLICT if tries.count("uid-shop-web") == 1 == len(tries) - 1 else Outcome.ACCEPTED

    code, out, err = restore_all(three, Counted(three, change), capsys)
    assert (code, err) == (0, "")
    assert tries == ["uid-shop-api", "uid-shop-web", "uid-team-web", "uid-shop-web"]
    assert out.splitlines()[-1] == "2/3 shop/web: restored and pinned: app CPU 200m to 500m"


def test_a_pod_that_changes_each_time_is_1(
    three: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.cli.verbs.node.restore.AGAIN_SECONDS", 0.0)
    three.outcome = Outcome.CONFLICT
    counted = Counted(three)
    code, out, err = restore_all(three, counted, capsys)
    assert (code, out) == (1, "")
    assert err.splitlines()[1] == "2/3 shop/web: not restored (conflict: over quota): app CPU 200m to 500m"
    assert sum("name" in asked for asked in counted.asked) == 3 * LOOKS


def test_an_agent_that_does_not_know_its_pods_yet_says_so(agent: Agent, say: Any) -> None:
    agent.is_told = False
    code, out, err = say("restore", "--all")
    assert (code, out) == (2, "")
    assert err == "plimsoll restore: the API server has not told yet of this node's pods; ask again in a moment\n"


def test_an_agent_that_fails_in_the_middle_leaves_a_list(three: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    def break_down(name: str) -> None:
        if name == "uid-shop-web":
            raise RuntimeError("broken")

    code, out, err = restore_all(three, Counted(three, break_down), capsys)
    assert (code, out.count("restored and pinned")) == (1, 1)
    lines = err.splitlines()
    assert "plimsoll restore: shop/web: sent, but no answer came: see plimsoll events" in lines
    assert lines[-1] == "plimsoll restore: not tried: team/web"


def test_ctrl_c_stops_between_two_pods_and_says_what_was_done(
    three: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **named: Any) -> Any:
        if given[2] == {"name": "uid-shop-web"}:
            raise KeyboardInterrupt
        return ask_or_refuse(*given, **named)

    monkeypatch.setattr("agent.cli.verbs.node.restore.ask_or_refuse", interrupted)
    code, out, err = restore_all(three, Counted(three), capsys)
    assert (code, out) == (130, "1/3 shop/api: restored and pinned: app CPU 200m to 500m\n")
    assert err.splitlines() == [
        "",
        "plimsoll restore: stopped: 1 of 3 pods are done",
        "plimsoll restore: shop/web: sent, but no answer came: see plimsoll events",
        "plimsoll restore: not tried: team/web",
    ]
    assert three.holds.pinned(NOW) == {"uid-shop-api"}


def test_what_the_disk_did_not_take_is_said_once(three: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    three.path.parent.joinpath("holds.new").mkdir()
    _, _, err = restore_all(three, Counted(three), capsys)
    assert len(err.splitlines()) == 1
    assert "a restart of the agent forgets new orders" in err


# No agent


@pytest.mark.parametrize(
    "words", [("pause",), ("resume",), ("pin", "a"), ("pin",), ("unpin", "a"), ("unpin", "--all"), ("restore", "--all")]
)
def test_no_agent_is_1_and_one_line(tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--socket", str(tmp_path / "none.sock")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"plimsoll {words[0]}: no agent at ")
    assert main([*words, "--socket", "none"]) == 1
    assert "there is no agent to ask" in capsys.readouterr().err
