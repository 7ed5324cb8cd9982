"""For which workloads policies other than cruise are asked, and what they answered.

Webhook. Such a policy is worked out in the background (``estimating``), for those that somebody asks about: here is the
list of them, bounded, and the newest answers. The caller holds the lock.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from agent.core.policies.options import PolicyName
from agent.core.recommendation import Workload
from agent.webhook.workload_answers import Answer

MAX_ASKED: Final = 2_000
"""Workloads for which policies other than cruise are worked out at most."""
ASKED_SECONDS: Final = 3600.0
"""Once there are so many, one that nobody asked about for so long makes room for another."""

Key = tuple[PolicyName, Workload]


class Asked:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._answers: dict[Key, Mapping[str, Answer]] = {}
        self._asked: dict[Key, float] = {}
        """With when, Unix seconds; who was asked longest ago comes first."""

    def note(self, policy: PolicyName, workload: Workload, now_unix_seconds: float) -> None:
        """Take note that somebody asks; who was not asked about for long makes room."""
        key = policy, workload
        if self._asked.pop(key, None) is None and len(self._asked) >= MAX_ASKED:
            oldest, asked_unix_seconds = next(iter(self._asked.items()))
            if now_unix_seconds - asked_unix_seconds < ASKED_SECONDS:
                return
            del self._asked[oldest]
            self._answers.pop(oldest, None)
        self._asked[key] = now_unix_seconds

    def keep(self, known: Container[Workload]) -> tuple[Key, ...]:
        """Forget workloads that are known no longer, and give what is asked."""
        for key in [key for key in self._asked if key[1] not in known]:
            del self._asked[key]
            self._answers.pop(key, None)
        return tuple(self._asked)

    def take(self, policy: PolicyName, workload: Workload, answers: Mapping[str, Answer]) -> None:
        """Take what a policy answered, by container."""
        self._answers[policy, workload] = answers

    def answer_of(self, policy: PolicyName, workload: Workload, container: str) -> Answer | None:
        """Give what it answered for one container; None = nothing yet."""
        return self._answers.get((policy, workload), {}).get(container)
