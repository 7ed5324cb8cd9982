"""What a real server will not do on demand; the rest is tests/cluster/test_watching.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from agent.kube.client.errors import ApiError, Cause, KubeError, TooLong, Unreachable
from agent.kube.objects.json_reader import Reader
from agent.kube.watch.reflector import Reflector, WatchPace, WatchSource, pace_within
from agent.turns import Turns

PATH = "/api/v1/things"


class Script(list[bytes]):
    """The lines of one answer; ends with an error where one is given, after a silence where one is."""

    def __init__(
        self, *lines: bytes, error: KubeError | None = None, holds: bool = False, silent_seconds: float = 0.0
    ) -> None:
        super().__init__(lines)
        self.error = error
        self.holds = holds
        self.silent_seconds = silent_seconds


class FakeStream:
    def __init__(
        self, script: Script, pass_time: Callable[[float], None], on_held: Callable[[], None] = lambda: None
    ) -> None:
        self._script = script
        self._pass_time = pass_time
        self._on_held = on_held
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        yield from self._script
        self._pass_time(self._script.silent_seconds)
        if self._script.error is not None:
            raise self._script.error
        if self._script.holds:
            self._on_held()
            self._closed.wait()

    def close(self) -> None:
        self._closed.set()


class FakeApi:
    """Answers from a script, in its order; at its end it holds the watch open."""

    def __init__(self, *answers: Script | KubeError | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.patience: list[float | None] = []
        """Of each watch: how long it may be silent; whole seconds."""
        self.pass_time: Callable[[float], None] = lambda _: None
        self.is_done = threading.Event()

    def call(self, method: str, path: str, **_: object) -> object:
        raise AssertionError(f"{method} {path} was not expected")

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "",
        timeout_seconds: float | None = None,
    ) -> FakeStream:
        assert path == PATH
        self.asked.append(dict(query or {}))
        if "watch" in self.asked[-1]:
            self.patience.append(timeout_seconds and round(timeout_seconds))
        if not self.answers:
            # Done is who reads: who has only asked has not seen yet that the watch is open.
            return FakeStream(Script(holds=True), self.pass_time, self.is_done.set)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return FakeStream(answer, self.pass_time)

    @property
    def versions(self) -> list[tuple[str, str | None]]:
        """Of each request: list or watch, and from which version."""
        return [("watch" if "watch" in query else "list", query.get("resourceVersion")) for query in self.asked]


def thing(name: str, say: str = "x", version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version}, "say": say}


def listed(*things: object, version: str = "10") -> Script:
    document = {"kind": "ThingList", "metadata": {"resourceVersion": version}, "items": list(things)}
    return Script(json.dumps(document).encode())


def event(kind: str, document: object) -> bytes:
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


def bookmark(version: str) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": version}})


def expired() -> bytes:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


class Waits:
    """Stands for the loop's wait between two turns: takes down how long it was to be, and does not wait."""

    def __init__(self, turns: Turns) -> None:
        self.seconds: list[float] = []
        self._turns = turns
        turns._wait = self._wait  # type: ignore[method-assign]

    def _wait(self, seconds: float | None, *, is_wakeable: bool) -> bool:
        assert seconds is not None
        self.seconds.append(seconds)
        return not self._turns.is_stopping


class Run:
    """One reflector over one script, run to the script's end."""

    def __init__(self, api: FakeApi, *, on_connect: Callable[[], None] | None = None) -> None:
        self.api = api
        self.news = 0
        self.now = 0.0
        self.reflector = Reflector(
            api,
            WatchSource(
                name="things",
                path=PATH,
                read=lambda document: Reader(document, "").required_text("say"),
                is_same=lambda text, other: text == other,
                query={"fieldSelector": "a=b"},
            ),
            clock=self._clock,
            random=lambda: 0.5,
            on_news=self._count,
            on_connect=on_connect,
            pace=WatchPace(start_spread_seconds=2.0, first_wait_seconds=1.0, longest_wait_seconds=8.0),
        )
        self.waits = Waits(self.reflector._turns)
        self.step_seconds = 0.75
        """So that a watch that opened and ended has lived for more than a second."""
        api.pass_time = self._pass

    def _clock(self) -> float:
        self.now += self.step_seconds
        return self.now

    def _pass(self, seconds: float) -> None:
        self.now += seconds

    def _count(self) -> None:
        self.news += 1

    def __enter__(self) -> Run:
        self.reflector.start()
        assert self.api.is_done.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.reflector.stop()
        assert self.reflector.join(60)


def values(run: Run) -> tuple[str, ...]:
    return run.reflector.kept.values()


def test_the_first_list_takes_any_cache_and_the_watch_goes_on_from_it() -> None:
    with Run(FakeApi(listed(thing("a"), thing("b", "y")))) as run:
        assert run.api.versions == [("list", "0"), ("watch", "10")]
        assert run.api.asked[0] == {"fieldSelector": "a=b", "resourceVersion": "0"}
        # timeoutSeconds: half way between 240 and 480
        assert run.api.asked[1] == {
            "fieldSelector": "a=b",
            "watch": "true",
            "resourceVersion": "10",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "360",
        }
        assert values(run) == ("x", "y")
        assert run.news == 1
        assert run.waits.seconds == [1.0]  # the start, spread over 2 s


def test_events_are_followed_and_a_new_watch_goes_on_after_the_last_of_them() -> None:
    script = Script(
        event("ADDED", thing("b", "y", "11")),
        event("MODIFIED", thing("a", "z", "12")),
        event("DELETED", thing("b", "y", "13")),
        bookmark("20"),
    )
    with Run(FakeApi(listed(thing("a")), script)) as run:
        assert run.api.versions == [("list", "0"), ("watch", "10"), ("watch", "20")]
        assert values(run) == ("z",)
        assert run.news == 4
        assert run.reflector.counts.events == 4


def page(*things: object, version: str = "10", next_page: str | None = None) -> Script:
    metadata = {"resourceVersion": version} | ({} if next_page is None else {"continue": next_page})
    return Script(json.dumps({"kind": "ThingList", "metadata": metadata, "items": list(things)}).encode())


def test_a_list_that_is_too_long_to_be_held_comes_in_pages_that_can_be() -> None:
    api = FakeApi(
        Script(error=TooLong("a list")),
        page(thing("a"), next_page="p1"),
        Script(error=TooLong("a page")),  # what came of the larger pages counts for nothing
        page(thing("a", "y"), next_page="p2"),
        page(thing("b", "z")),
    )
    with Run(api) as run:
        lists = [query for query in run.api.asked if "watch" not in query]
        asked = [(query.get("resourceVersion"), query.get("limit"), query.get("continue")) for query in lists]
        assert asked == [
            ("0", None, None),
            (None, "20", None),
            (None, "20", "p1"),
            (None, "5", None),
            (None, "5", "p2"),
        ]
        assert values(run) == ("y", "z")
        assert run.reflector.counts.failures == 0
        assert run.waits.seconds == [1.0]


def test_an_answer_to_a_patch_stays_where_pages_are_of_the_moment_before_it() -> None:
    pages = [Script(error=TooLong("a list")), page(thing("a", "x", "5"), next_page="p1"), page(thing("b", "x", "6"))]

    def patch_before_the_second_list() -> None:
        if len(run.api.answers) == len(pages):
            entry = run.reflector.kept.entry(thing("a", "patched", "7"))
            run.reflector.kept.put_answer(entry, now_seconds=run.now)

    api = FakeApi(listed(thing("a", "x", "5")), Script(expired()), *pages)
    run = Run(api, on_connect=patch_before_the_second_list)
    with run:
        assert values(run) == ("patched", "x")


def test_one_object_that_is_too_long_to_be_held_is_a_failure_like_others() -> None:
    api = FakeApi(*(Script(error=TooLong("a list")) for _ in range(4)), listed(thing("a")))
    with Run(api) as run:
        limits = [query.get("limit") for query in run.api.asked if "watch" not in query]
        assert limits == [None, "20", "5", "1", None]
        assert run.reflector.counts.failures == 1
        assert values(run) == ("x",)


def test_an_event_that_is_too_long_to_be_held_leads_to_a_new_list() -> None:
    with Run(FakeApi(listed(), Script(error=TooLong("an event")), listed(thing("a"), version="20"))) as run:
        assert run.api.versions == [("list", "0"), ("watch", "10"), ("list", "10"), ("watch", "20")]
        assert values(run) == ("x",)


def test_half_a_line_is_left_and_asked_for_again() -> None:
    whole = event("ADDED", thing("b", "y", "12"))
    with Run(FakeApi(listed(), Script(event("ADDED", thing("a", "x", "11")), whole[:-1]))) as run:
        assert run.api.versions[-1] == ("watch", "11")
        assert values(run) == ("x",)
        assert run.waits.seconds == [1.0]


@pytest.mark.parametrize("line", [b"garbage\n", b"[]\n", b'{"type":"ADDED"}\n', b'{"type":1,"object":{}}\n', b"\xff\n"])
def test_a_line_that_is_no_event_leads_to_a_new_list_after_a_wait(line: bytes) -> None:
    again = listed(thing("a"), thing("lost", "y"), version="20")
    with Run(FakeApi(listed(thing("a")), Script(line), again)) as run:
        # not older than what is known: no other server's cache may take the view back
        assert run.api.versions == [("list", "0"), ("watch", "10"), ("list", "10"), ("watch", "20")]
        assert values(run) == ("x", "y")
        assert run.waits.seconds == [1.0, 1.0]
        assert run.reflector.counts.failures == 1


def test_an_object_that_is_malformed_affects_only_itself() -> None:
    script = Script(event("MODIFIED", {"metadata": {"name": "a", "uid": "a", "resourceVersion": "11"}, "say": 7}))
    with Run(FakeApi(listed(thing("a"), thing("b", "y")), script)) as run:
        assert values(run) == ("y",)
        assert run.reflector.kept.faults() == ("a: say: 7 is not allowed (a text)",)
        assert run.api.versions[-1] == ("watch", "11")


@pytest.mark.parametrize("odd", [b'"\xff"', b"1e999", b'"\\ud800"', b"NaN"])
def test_an_event_with_an_odd_value_in_it_is_an_event(odd: bytes) -> None:
    line = event("ADDED", {**thing("b", "y", "11"), "odd": "here"}).replace(b'"here"', odd)
    with Run(FakeApi(listed(thing("a")), Script(line))) as run:
        assert run.api.versions == [("list", "0"), ("watch", "10"), ("watch", "11")]
        assert values(run) == ("x", "y")


def test_blank_lines_and_kinds_of_later_servers_are_passed_over() -> None:
    with Run(FakeApi(listed(thing("a")), Script(b"\n", event("NOVELTY", thing("a", "z", "11"))))) as run:
        assert values(run) == ("x",)
        assert run.api.versions[-1] == ("watch", "11")


def test_expired_within_the_watch_lists_anew_at_once_and_a_second_time_waits() -> None:
    api = FakeApi(listed(), Script(expired()), listed(version="20"), Script(expired()), listed(version="30"))
    with Run(api) as run:
        kinds = [kind for kind, _ in run.api.versions]
        assert kinds == ["list", "watch", "list", "watch", "list", "watch"]
        assert run.reflector.counts.expired == 2
        assert run.waits.seconds[1:] == [2.0]


def test_a_new_list_that_says_the_same_is_no_news_but_an_empty_first_one_is() -> None:
    with Run(FakeApi(listed(thing("a")), Script(expired()), listed(thing("a"), version="20"))) as run:
        assert run.news == 1
    with Run(FakeApi(listed())) as run:
        assert run.news == 1  # now it is known that there is nothing


def test_expired_as_the_answer_to_the_watch_lists_anew() -> None:
    with Run(FakeApi(listed(), ApiError("w", status=410, reason="Expired"), listed(version="20"))) as run:
        assert run.api.versions == [("list", "0"), ("watch", "10"), ("list", "10"), ("watch", "20")]


@pytest.mark.parametrize(
    "refusal",
    [
        ApiError("l", status=410, reason="Expired"),
        ApiError("l", status=504, causes=(Cause(reason="ResourceVersionTooLarge"),)),
        ApiError("l", status=504, message="Too large resource version: 10, current: 5"),
    ],
)
def test_a_version_that_no_server_has_leads_to_a_list_from_etcd(refusal: ApiError) -> None:
    restored = listed(thing("a", "restored"), version="5")
    with Run(FakeApi(listed(thing("a")), Script(expired()), refusal, restored)) as run:
        assert run.api.versions == [("list", "0"), ("watch", "10"), ("list", "10"), ("list", None), ("watch", "5")]
        assert values(run) == ("restored",)


def test_a_bookmark_from_the_past_says_that_the_data_were_put_back() -> None:
    restored = listed(thing("a", "restored"), version="5")
    with Run(FakeApi(listed(thing("a")), Script(bookmark("4")), restored)) as run:
        assert run.api.versions == [("list", "0"), ("watch", "10"), ("list", None), ("watch", "5")]
        assert values(run) == ("restored",)


def test_failures_are_waited_for_longer_and_longer_and_keep_the_state() -> None:
    away = [Unreachable("away") for _ in range(5)]
    seen: list[tuple[object, ...]] = []
    api = FakeApi(listed(thing("a")), *away)
    run = Run(api, on_connect=lambda: seen.append((run.reflector.trouble, values(run))))
    with run:
        # 1, 2, 4, 8, and no more than 8 seconds, each spread by 0.5 + 0.5
        assert run.waits.seconds == [1.0, 1.0, 2.0, 4.0, 8.0, 8.0]
        assert seen[-1] == ("away", ("x",))
        assert run.reflector.counts.failures == 5


@pytest.mark.parametrize(("asked", "waited"), [(3.0, 3.0), (0.2, 1.0), (86_400.0, 300.0)])
def test_a_server_that_asks_to_be_left_alone_is(asked: float, waited: float) -> None:
    busy = ApiError("l", status=429, reason="TooManyRequests", retry_after_seconds=asked)
    with Run(FakeApi(busy, listed(thing("a")))) as run:
        assert run.waits.seconds == [1.0, waited]
        assert values(run) == ("x",)


def test_an_error_within_the_watch_that_is_no_410_goes_on_from_where_it_was() -> None:
    fault = event("ERROR", {"kind": "Status", "code": 500, "message": "storage is (re)initializing"})
    with Run(FakeApi(listed(thing("a")), Script(fault))) as run:
        assert run.api.versions == [("list", "0"), ("watch", "10"), ("watch", "10")]
        assert run.waits.seconds == [1.0, 1.0]


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"kind":"Thing"}', b'{"kind":"ThingList","metadata":{},"items":[]}']
)
def test_an_answer_that_is_no_list_changes_nothing(body: bytes) -> None:
    api = FakeApi(listed(thing("a")), Script(expired()), Script(body), listed(thing("a", "new"), version="20"))
    with Run(api) as run:
        assert run.waits.seconds[1:] == [2.0]
        assert values(run) == ("new",)


def test_a_list_that_breaks_off_changes_nothing() -> None:
    torn = Script(b'{"kind":"ThingList","items":[', error=Unreachable("cut"))
    with Run(FakeApi(torn, listed(thing("a")))) as run:
        assert values(run) == ("x",)
        assert run.news == 1


def test_a_watch_that_ends_at_once_is_not_asked_for_in_a_loop() -> None:
    api = FakeApi(listed(), Script(), Script(), Script())
    run = Run(api)
    run.reflector._clock = lambda: 0.0
    with run:
        assert run.waits.seconds == [1.0, 1.0, 2.0, 4.0]


def test_a_fault_of_the_program_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    with Run(FakeApi(listed(thing("a")), RuntimeError("bug"), listed(thing("a", "y"), version="20"))) as run:
        assert values(run) == ("y",)
    assert "watch failed" in caplog.text


def test_trouble_and_its_end_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with Run(FakeApi(Unreachable("away"), Unreachable("away"), listed(thing("a")))) as run:
        assert run.reflector.trouble is None
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["the API server is not heard; the last state stays", "the API server is heard again"]


# A server that says nothing


def quiet(seconds: float) -> Script:
    """A watch that is cut off after so long, with nothing in it."""
    return Script(error=Unreachable("timed out"), silent_seconds=seconds)


def run_of(api: FakeApi, step_seconds: float = 0.001) -> Run:
    run = Run(api)
    run.step_seconds = step_seconds
    return run


def test_a_watch_that_is_merely_open_is_no_sign_of_life() -> None:
    ages: list[float | None] = []
    api = FakeApi(listed(), quiet(60.0), quiet(60.0))
    run = run_of(api)
    run.reflector._on_connect = lambda: ages.append(run.reflector.age_seconds)
    with run:
        assert api.versions == [("list", "0"), ("watch", "10"), ("watch", "10"), ("watch", "10")]
        assert [age and round(age) for age in ages] == [None, 60, 120]
        assert round(run.reflector.age_seconds or 0.0) == 120
        # What is left of 150 s, however many watches share them.
        assert api.patience == [150, 90, 30]


def test_a_server_that_accepts_watches_and_says_nothing_is_asked_for_lists() -> None:
    api = FakeApi(listed(thing("a")), quiet(150.0), listed(thing("a", "z"), version="20"), quiet(150.0), listed())
    with run_of(api) as run:
        assert api.versions == [
            ("list", "0"),
            ("watch", "10"),
            ("list", "10"),
            ("watch", "20"),
            ("list", "20"),
            ("watch", "10"),
        ]
        assert api.patience == [150, 150, 150]
        assert values(run) == ()
        assert run.reflector.counts.failures == 0
        assert run.waits.seconds == [1.0]


def test_a_server_that_was_away_for_long_is_asked_for_a_list_first() -> None:
    api = FakeApi(listed(thing("a")), quiet(100.0), quiet(50.0), Unreachable("away"), listed(thing("a", "z")))
    with run_of(api) as run:
        assert api.versions[2:] == [("watch", "10"), ("list", "10"), ("list", "10"), ("watch", "10")]
        assert values(run) == ("z",)


def test_a_watch_begun_on_little_patience_is_begun_anew_once_it_is_heard() -> None:
    # 60 s of silence, then a cut: 90 s are less than a quiet watch takes until its first bookmark.
    api = FakeApi(listed(), quiet(60.0), Script(bookmark("20"), bookmark("30")))
    with run_of(api) as run:
        assert api.versions[1:] == [("watch", "10"), ("watch", "10"), ("watch", "20")]
        assert api.patience == [150, 90, 150]
        assert run.reflector.trouble is None


def test_a_watch_begun_soon_after_it_was_heard_goes_on() -> None:
    api = FakeApi(listed(), quiet(20.0), Script(bookmark("20"), bookmark("30")))
    with run_of(api, 0.25) as run:
        assert api.versions[1:] == [("watch", "10"), ("watch", "10"), ("watch", "30")]
        assert run.reflector.counts.events == 2


def test_trouble_is_over_when_a_watch_opens_though_the_age_goes_on() -> None:
    with run_of(FakeApi(listed(), quiet(60.0))) as run:
        assert run.reflector.trouble is None
        assert round(run.reflector.age_seconds or 0.0) == 60


@pytest.mark.parametrize(
    ("stale_seconds", "silence_seconds"), [(180.0, 150.0), (3600.0, 150.0), (60.0, 50.0), (36.0, 30.0), (1.0, 30.0)]
)
def test_silence_is_ended_before_what_is_known_is_too_old(stale_seconds: float, silence_seconds: float) -> None:
    assert pace_within(stale_seconds).silence_seconds == pytest.approx(silence_seconds)


def test_age_is_none_until_the_server_is_heard() -> None:
    run = run_of(FakeApi(listed()), 0.0)
    before = (run.reflector.age_seconds, run.reflector.is_listed, run.reflector.join(0))
    assert before == (None, False, True)
    with run:
        assert run.reflector.is_listed
        run.now += 7.0
        assert run.reflector.age_seconds == 7.0
