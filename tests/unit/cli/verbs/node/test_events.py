from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.main import main
from agent.cli.plan.events_view import page_lines
from agent.cli.text.spans import ASCII, UNICODE, display_width, harmless, line_text
from agent.cli.words.decisions import OUTCOME_TONES
from agent.core.plan.needs.demand import KeptReason
from agent.core.resize.decision import Action, Decisions, Outcome
from agent.node.files.documents import DECISIONS
from agent.node.orders.journal import Journal
from tests.control_sockets import answering
from tests.plans import change, decision, decisions, ref


class Verbs:
    """An agent with a log of two decisions."""

    answer: Mapping[str, object] = DECISIONS.to_json(decisions(decision(2), decision(1)))
    asked: Mapping[str, object] = {}

    def events(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        self.asked = arguments
        return self.answer


@pytest.fixture
def verbs() -> Verbs:
    return Verbs()


@pytest.fixture
def agent(tmp_path: Path, verbs: Verbs) -> Iterator[str]:
    with answering(tmp_path / "agent.sock", {"events": verbs.events}) as path:
        yield str(path)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state directory of an agent that is gone: two decisions."""
    journal = Journal(tmp_path / "decisions")
    now = 1_700_000_000.0
    journal.add(unix_seconds=now, action=Action.RESIZE, outcome=Outcome.REJECTED, reason="quota", pod=ref("web-1"))
    journal.add(unix_seconds=now + 5, action=Action.PAUSE, outcome=Outcome.DONE, reason="asked for")
    journal.close()
    return tmp_path


def events(*words: str) -> int:
    return main(["events", *words])


def read(capsys: pytest.CaptureFixture[str], *words: str) -> Decisions:
    assert events(*words, "-o", "json") == 0
    return DECISIONS.from_json(json.loads(capsys.readouterr().out))


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        events(*words)
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


# From the agent


def test_the_agent_is_asked_for_what_is_chosen(agent: str, verbs: Verbs, capsys: pytest.CaptureFixture[str]) -> None:
    assert events("--socket", agent) == 0
    assert verbs.asked == {"limit": 40, "newest_outcomes": True}
    out = capsys.readouterr().out
    assert out.startswith("plimsoll worker-7  2 of 2 decisions, newest first  from the agent")
    words = ("--limit", "0", "--pod", "web*", "-n", "shop", "--action", "resize,revert", "--outcome", "rejected")
    assert events("--socket", agent, *words, "--since", "10m", "--all") == 0
    assert verbs.asked == {
        "pod": "web*",
        "namespace": "shop",
        "actions": ["resize", "revert"],
        "outcomes": ["rejected"],
        "since_seconds": 600.0,
    }


def test_json_is_the_document_of_the_socket(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(capsys, "--socket", agent) == decisions(decision(2), decision(1))


@pytest.mark.parametrize(("since", "seconds"), [("now", "1"), ("2h", "7200"), ("500d", str(30 * 86_400))])
def test_of_the_cluster_no_more_is_asked_for_than_is_kept(
    monkeypatch: pytest.MonkeyPatch, since: str, seconds: str
) -> None:
    asked: list[Mapping[str, str]] = []

    def answer(_: object, query: Mapping[str, str], __: int) -> object:
        asked.append(query)
        return {}

    monkeypatch.setattr("agent.cli.client.webhook.WebhookReader", lambda _: None)
    monkeypatch.setattr("agent.cli.workloads.cluster_events.asked", answer)
    assert events("--cluster", "--since", since, "-o", "json") == 0
    assert [query["sinceSeconds"] for query in asked] == [seconds]


# From the log


def test_without_an_agent_its_log_is_read_and_that_is_said(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIMSOLL_SERVING_SOCKET", str(state / "none.sock"))
    monkeypatch.setenv("PLIMSOLL_STATE_DIRECTORY", str(state))
    assert events() == 0
    out, err = capsys.readouterr()
    assert "from its log" in out
    assert "no agent at" in err
    assert err.endswith("; reading its log\n")


def test_an_agent_that_answers_strangely_is_not_passed_over(
    agent: str, verbs: Verbs, state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIMSOLL_SERVING_SOCKET", agent)
    monkeypatch.setenv("PLIMSOLL_STATE_DIRECTORY", str(state))
    verbs.answer = {**verbs.answer, "version": 99}
    assert events() == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "decisions.version: 99 is not 1" in err


def test_a_state_directory_is_read_without_asking(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (state / "decisions").read_bytes()
    answer = read(capsys, "--state-dir", str(state))
    assert [entry.action for entry in answer.items] == [Action.PAUSE, Action.RESIZE]
    assert (answer.source, answer.matching) == ("journal", 2)
    assert (state / "decisions").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "sequences"),
    [
        (("--pod", "web-*"), [1]),
        (("--action", "pause, resume"), [2]),
        (("--outcome", "rejected"), [1]),
        (("--since", "1h"), []),
        (("--limit", "1"), [2]),
        (("-n", "shop"), [1]),
        (("--namespace", "s*", "--pod", "web-1"), [1]),
        (("-n", "team"), []),
        (("--since", "2023-11-14T22:13:23Z"), [2]),
    ],
)
def test_the_log_is_chosen_from_as_the_agent_does(
    state: Path, words: tuple[str, ...], sequences: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert [entry.sequence for entry in read(capsys, "--state-dir", str(state), *words).items] == sequences


def test_no_log_is_1_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert events("--state-dir", str(tmp_path)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"no log at {tmp_path / 'decisions'}" in line
    assert events("--state-dir", "none") == 1
    assert "there is no log to read" in capsys.readouterr().err
    assert events("--socket", str(tmp_path / "none.sock")) == 1
    assert "none.sock" in capsys.readouterr().err


def test_a_log_that_cannot_be_read_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "decisions").mkdir()
    assert events("--state-dir", str(tmp_path)) == 1
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--limit", "-1"), "'-1'"),
        (("--limit", "many"), "'many' is not allowed; allowed: a whole number from 0 to 10000"),
        (("--action", "resize,dance"), "'dance' is not allowed; allowed: resize, revert"),
        (("--outcome", "fine"), "'fine' is not allowed; allowed: accepted"),
        (("--since", "later"), "'later' is not a time"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told in error_of(capsys, *words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "nothing was decided so far"),
        (("--pod", "web"), "no decision about a pod called web; a part of a name needs *: --pod 'web*'"),
        (("--pod", "web*"), "no decision about a pod called web*"),
        (("-n", "nowhere"), "no decision about a pod in namespace nowhere"),
        (("--pod", "w*", "-n", "team"), "no decision about a pod called w* in namespace team"),
        (("--action", "pin,unpin", "--since", "10m"), "no decision of action pin or unpin of the last 10m00s"),
        (
            ("--outcome", "deferred"),
            "no decision with outcome deferred; --all has the outcomes before the newest, too",
        ),
        (("--outcome", "deferred", "--all"), "no decision with outcome deferred"),
    ],
)
def test_no_decision_says_what_was_asked_for(
    agent: str, verbs: Verbs, words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs.answer = DECISIONS.to_json(decisions())
    assert events("--socket", agent, *words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == told


def test_a_resize_is_one_line_and_all_of_it_with_all_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Journal(tmp_path / "decisions")
    about: dict[str, Any] = {"action": Action.RESIZE, "pod": ref("web-1"), "changes": (change(),)}
    log.add(unix_seconds=1000.0, outcome=Outcome.ACCEPTED, reason="it is short now", **about)
    log.add(unix_seconds=1001.5, outcome=Outcome.APPLIED, reason="applied", seconds=1.5, **about)
    log.close()

    def rows(*words: str) -> list[str]:
        assert events("--state-dir", str(tmp_path), "--width", "200", *words) == 0
        return capsys.readouterr().out.splitlines()[3:]

    (row,) = rows()
    for part in ("1.5s", "applied", "it is short now"):
        assert part in row
    assert len(rows("--all")) == 2
    assert len(rows("--outcome", "accepted", "--all")) == 1
    assert rows("--outcome", "accepted") == []
    assert [entry.outcome for entry in read(capsys, "--state-dir", str(tmp_path)).items] == ["applied", "accepted"]


# View


def text_of(*items: Any, width: int = 240, **fields: Any) -> str:
    lines = page_lines(decisions(*items, **fields), width=width, glyphs=UNICODE)
    return "\n".join(line_text(line) for line in lines)


def test_a_line_tells_when_who_what_and_what_came_of_it() -> None:
    (row,) = text_of(decision(detail="as planned")).splitlines()[3:]
    assert row.split()[0] == "12s"
    for part in ("shop/web-7d9c5b8f4-x2x9k", "app CPU 500m → 200m", "applied", "1.5s", "node's spike", "as planned"):
        assert part in row


def test_repeats_are_shown_and_once_is_not() -> None:
    assert "x14" in text_of(decision(repeats=14))
    assert "x1" not in text_of(decision(pod=ref("a"), changes=()))


def test_eighty_columns_keep_what_was_done_what_came_of_it_and_how_long_it_took() -> None:
    titles, row = text_of(decision(), width=80).splitlines()[2:]
    assert titles.split() == ["AGE", "POD", "WHAT", "OUTCOME", "TOOK", "REASON"]
    for part in ("app CPU 500m → 200m", "applied", "1.5s"):
        assert part in row
    assert "infeasible 1.5s" in text_of(decision(outcome=Outcome.INFEASIBLE, detail="no room"), width=80)
    assert "TIMES" in text_of(decision(repeats=2))


def test_a_reason_of_an_enum_has_words() -> None:
    assert "node is full" in text_of(decision(reason=KeptReason.NODE_FULL, outcome=Outcome.WITHHELD))


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("unknown_annotation", "unknown annotation"),
        ("taint_cap", "enough nodes are tainted"),
        ("webhook_away", "webhook away"),
    ],
)
def test_a_reason_that_has_words_is_told_in_them(reason: str, words: str) -> None:
    text = text_of(decision(reason=reason, action=Action.NOTICE, outcome=Outcome.WITHHELD, changes=()))
    assert words in text
    assert reason not in text


def test_what_is_about_the_node_says_so() -> None:
    row = text_of(decision(pod=None, action=Action.PAUSE, outcome=Outcome.DONE, changes=(), seconds=None))
    assert "(node)" in row
    assert "pause" in row


def test_a_revert_is_told_apart_from_a_resize() -> None:
    assert "revert app CPU 500m → 200m" in text_of(decision(action=Action.REVERT))
    assert "pod limits" in text_of(decision(action=Action.POD_LIMITS, changes=()))


def test_days_ago_have_a_date() -> None:
    assert "11-19 " in text_of(decision(age_seconds=2 * 86400.0 - 60))


def test_a_reason_that_only_repeats_the_outcome_is_left_out() -> None:
    assert text_of(decision(reason="applied")).count("applied") == 1


def test_nothing_is_said() -> None:
    assert "nothing was decided so far" in text_of()
    assert "note the log" in text_of(notes=("the log is full",))


def test_more_than_asked_for_is_counted() -> None:
    assert "1 of 90 decisions" in text_of(decision(), matching=90)


def test_every_outcome_has_a_tone() -> None:
    assert set(OUTCOME_TONES) == set(Outcome)


@pytest.mark.parametrize("width", [20, 60, 80, 120, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    whole = decisions(decision(detail="d " * 90), decision(2, pod=None), decision(3, 90_000.0, repeats=3))
    for glyphs in (UNICODE, ASCII):
        for line in page_lines(whole, width=width, glyphs=glyphs):
            assert display_width(line_text(line)) <= width


@given(st.text(max_size=20))
def test_texts_cannot_steer_a_terminal(text: str) -> None:
    strange = decision(reason=text, detail=text, pod=ref(text, text))
    for line in page_lines(decisions(strange, node=text, notes=(text,)), width=300, glyphs=UNICODE):
        assert harmless(line_text(line)) == line_text(line)
