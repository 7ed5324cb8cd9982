"""How posts beside the reports end, and how long is waited after them."""

from __future__ import annotations

from typing import cast

from agent.node.reports.client import WebhookAnswer, WebhookAway, WebhookClient
from agent.node.reports.patient_posts import REFUSED_SECONDS, PatientPosts, PostEnd, PostWaits


class Client:
    """Answers with statuses in turn; None = nobody answers."""

    def __init__(self, *answers: tuple[int | None, float | None]) -> None:
        self.answers = list(answers)
        self.open = 0

    def post(self, _path: str, _text: str) -> WebhookAnswer:
        self.open += 1
        status, retry_after_seconds = self.answers.pop(0)
        if status is None:
            raise WebhookAway
        return WebhookAnswer(status=status, body=b"no JSON", retry_after_seconds=retry_after_seconds)

    def close(self) -> None:
        self.open -= 1


def ends(*answers: tuple[int | None, float | None]) -> list[tuple[PostEnd, float]]:
    client = Client(*answers)
    waits = PostWaits(again_seconds=5.0, longest_again_seconds=15.0)
    posts = PatientPosts(cast(WebhookClient, client), "/v1/runs", what="runs", waits=waits)
    post_ends = [posts.post("{}") for _ in answers]
    assert client.open == 0, "no connection is kept"
    return post_ends


def test_waits_double_up_to_their_bound_and_begin_anew_with_what_is_taken() -> None:
    away = (None, None)
    waits = [(PostEnd.AWAY, seconds) for seconds in (5.0, 10.0, 15.0, 15.0)]
    assert ends(away, away, (503, None), away, (200, None), (403, None)) == [
        *waits,
        (PostEnd.TAKEN, 0.0),
        (PostEnd.AWAY, 5.0),
    ]


def test_who_is_asked_to_wait_longer_does() -> None:
    assert ends((429, 60.0), (429, 1.0)) == [(PostEnd.AWAY, 60.0), (PostEnd.AWAY, 10.0)]


def test_what_is_never_taken_and_who_does_not_know_the_path_are_told_apart() -> None:
    assert ends((400, None), (413, None)) == [(PostEnd.SPOILT, 5.0), (PostEnd.SPOILT, 10.0)]
    assert ends((404, None), (405, 9.0), (None, None)) == [
        (PostEnd.UNKNOWN, REFUSED_SECONDS),
        (PostEnd.UNKNOWN, REFUSED_SECONDS),
        (PostEnd.AWAY, 5.0),
    ]
