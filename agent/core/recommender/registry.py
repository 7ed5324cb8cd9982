"""The policies by name. Core, pure. A policy's module is imported when it is made, so an agent loads only its own."""

from __future__ import annotations

from typing import Protocol

from agent.core.orders.policy_options import CraneOptions, CruiseOptions, PolicyName, SizingOptions, VpaOptions
from agent.core.recommender.policy import Policy


class PolicyOptions(Protocol):
    """The options of every policy; the settings are such."""

    @property
    def cruise(self) -> CruiseOptions:
        """Of ``cruise``."""

    @property
    def vpa(self) -> VpaOptions:
        """Of ``vpa``."""

    @property
    def crane(self) -> CraneOptions:
        """Of ``crane``."""

    @property
    def sizing(self) -> SizingOptions:
        """Of ``plimsoll``."""


class UnknownPolicyError(ValueError):
    """There is no policy of this name; the message lists those there are."""


def policy_name(text: str) -> PolicyName:
    """Return the policy of this name, or raise ``UnknownPolicyError``."""
    try:
        return PolicyName(text)
    except ValueError:
        raise UnknownPolicyError(f"{text!r} is no policy; allowed: {', '.join(PolicyName)}") from None


def remembered_days(name: PolicyName) -> int | None:
    """Return from how many past days a policy answers, where that is fixed; what is older need not be folded."""
    return 7 if name is PolicyName.PLIMSOLL else None


def make(name: PolicyName, options: PolicyOptions, rows: int, *, requests_only: bool = False) -> Policy:
    """Return a policy that knows nothing yet.

    With ``requests_only`` nobody will read ``Proposals.extra``: a policy may leave out what only stands there.
    """
    match name:
        case PolicyName.CRUISE:
            from agent.core.recommender.cruise.policy import CruisePolicy

            return CruisePolicy(options.cruise, rows)
        case PolicyName.VPA:
            from agent.core.recommender.vpa.policy import VpaPolicy

            return VpaPolicy(options.vpa, rows, with_bounds=not requests_only)
        case PolicyName.CRANE:
            from agent.core.recommender.crane.policy import CranePolicy

            return CranePolicy(options.crane, rows)
    # PLIMSOLL: the last there is
    from agent.core.recommender.plimsoll.policy import PlimsollPolicy

    return PlimsollPolicy(options.sizing, rows)
