"""May this agent write at all? Rights and the node's name in the token, asked at the start and again now and then.

Node. Without an answer it may not. What is missing is named, one by one; the agent then only recommends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent.kube.client.api import Api
from agent.kube.client.errors import KubeError
from agent.kube.client.own_rights import NEEDED, MissingPermission, Purpose, missing_permissions, node_claim

log = logging.getLogger(__name__)

ASK_AGAIN_SECONDS: Final = 600.0
"""Between two askings while all is well: rights may be taken away."""
ASK_MISSING_SECONDS: Final = 60.0
"""... and while something is missing: somebody may be mending it."""
ASK_UNREACHABLE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsStanding:
    """What the API server says this agent may do."""

    missing: tuple[MissingPermission, ...]
    claim: str | None
    """The node's name in the token; None = it has none."""


class Rights:
    """Asks, remembers, says. One thread."""

    def __init__(
        self,
        api: Api,
        *,
        node: str,
        needs_claim: bool,  # A token that does not name this node may not write
        unused: frozenset[Purpose] = frozenset(),  # What this agent is not to do: the rights for it are not asked for
        # Is told a sentence for each thing that is missing, whenever something else is than before
        tell: Callable[[str], None],
    ) -> None:
        self._api, self._node, self._needs_claim, self._tell = api, node, needs_claim, tell
        self._needed = tuple(permission for permission in NEEDED if permission.purpose not in unused)
        self._standing: RightsStanding | None = None
        self._due_seconds = 0.0
        self._told: tuple[str, ...] = ()

    def ask(self, now_seconds: float) -> None:
        """Ask where it is time to; never raises for the API's sake."""
        if now_seconds < self._due_seconds:
            return
        try:
            standing = RightsStanding(missing=missing_permissions(self._api, self._needed), claim=node_claim(self._api))
        except KubeError as error:
            self._due_seconds = now_seconds + ASK_UNREACHABLE_SECONDS
            log.debug("rights not known", extra={"cause": str(error)})
            return
        self._standing = standing
        lacks = (*(str(lack) for lack in standing.missing), *self._claim_faults(standing))
        self._due_seconds = now_seconds + (ASK_MISSING_SECONDS if lacks else ASK_AGAIN_SECONDS)
        if lacks != self._told:
            self._told = lacks
            for sentence in lacks:
                log.warning("a right is missing", extra={"cause": sentence})
                self._tell(sentence)

    def ask_soon(self) -> None:
        """Ask at the next turn: something was refused."""
        self._due_seconds = 0.0

    @property
    def standing(self) -> RightsStanding | None:
        """Return what the API server said last; None = nothing yet."""
        return self._standing

    @property
    def is_known(self) -> bool:
        """Return whether the API server has answered."""
        return self._standing is not None

    def faults(self) -> tuple[str, ...]:
        """Return what stands in the way of resizing, one sentence each; also while nothing is known."""
        if self._standing is None:
            return ("the API server has not said yet what this agent may do",)
        lacks = (str(lack) for lack in self._standing.missing if lack.permission.purpose is Purpose.RESIZE)
        return (*lacks, *self._claim_faults(self._standing))

    def may(self, purpose: Purpose) -> bool:
        """Return whether nothing is missing for a purpose, as far as is known."""
        standing = self._standing
        return standing is not None and all(lack.permission.purpose is not purpose for lack in standing.missing)

    def _claim_faults(self, standing: RightsStanding) -> tuple[str, ...]:
        if standing.claim is None:
            if not self._needs_claim:
                return ()
            how = "a pod's own does from Kubernetes 1.32 on; or allow it by kubernetes.requireNodeClaim=false"
            return (f"the agent's token names no node, so nothing is written ({how})",)
        if standing.claim != self._node:
            return (f"the agent's token is of node {standing.claim}, but it is told to be on {self._node}",)
        return ()
