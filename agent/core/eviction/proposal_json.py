"""Proposals and their answers as they go over the wire, seen from the node. Core, pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.core.eviction.proposal import PodAmounts, Proposal, Verdict

EVICTIONS_PATH: Final = "/v1/evictions"
PROPOSALS_VERSION: Final = 1
_LONGEST_REASON: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalAnswer:
    """The answer to one proposal, as the webhook worded it."""

    verdict: Verdict
    reason: str
    detail: str
    """One line; may be empty."""


def proposals_text(node: str, proposals: Sequence[Proposal]) -> str:
    """Write the body of a call."""
    return json.dumps(
        {
            "schema": PROPOSALS_VERSION,
            "node": node,
            "proposals": [
                {
                    "namespace": proposal.ref.namespace,
                    "pod": proposal.ref.name,
                    "podUid": proposal.ref.uid,
                    "reason": proposal.want.value,
                    "ranking": proposal.ranking,
                    "order": proposal.order,
                    "requested": _amounts(proposal.requested),
                    "needed": _amounts(proposal.needed),
                }
                for proposal in proposals
            ],
        },
        separators=(",", ":"),
    )


def answers_of(text: bytes) -> Mapping[str, ProposalAnswer] | None:
    """Read the answers, by the pod's uid; None = this is no answer. One that is not understood is left out."""
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    answers = document.get("answers") if isinstance(document, Mapping) else None
    if not isinstance(answers, list):
        return None
    by_uid = {}
    for answer in answers:
        if not isinstance(answer, Mapping):
            continue
        uid, verdict, reason = (answer.get(key) for key in ("podUid", "verdict", "reason"))
        if isinstance(uid, str) and isinstance(reason, str) and isinstance(verdict, str) and verdict in _VERDICTS:
            word, _, detail = " ".join(reason.split())[:_LONGEST_REASON].partition(": ")
            by_uid[uid] = ProposalAnswer(verdict=Verdict(verdict), reason=word, detail=detail)
    return by_uid


_VERDICTS: Final = frozenset(verdict.value for verdict in Verdict)


def _amounts(amounts: PodAmounts) -> dict[str, int]:
    stated = {"cpuMillicores": amounts.cpu_millicores, "memoryBytes": amounts.memory_bytes}
    return {key: amount for key, amount in stated.items() if amount is not None}
