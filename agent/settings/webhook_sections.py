"""What can be set of the webhook's server: frozen dataclasses; the docstring under each field is its documentation."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from agent.core.cost.price_sheet import PriceSheet, parse_sheet
from agent.core.cost.prices import Prices, parse_rules
from agent.core.numbers.allowed_range import Between, Unset


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningSettings:
    """Where and how the webhook answers."""

    address: str = "0.0.0.0"  # noqa: S104  API servers call from the nodes' networks
    """IPv4 or IPv6 address of the HTTPS port; :: takes IPv4 too."""
    port: Annotated[int, Between(0, 65_535)] = 8443
    """TCP port; 0 = any free one, told in the log."""
    keep_alive_seconds: Annotated[int, Between(1, 3600)] = 95
    """Seconds that an idle connection is kept: API servers ask again on the one they have, and let go of it after 90;
    were the webhook first, it might close while one asks. Agents' are closed after their report, as five thousand open
    ones would fill the memory."""
    request_seconds: Annotated[float, Between(1, 120)] = 10.0
    """Seconds within which a request must have come whole: head, and then body."""
    connections: Annotated[int, Between(10, 100_000)] = 2000
    """Connections at once. For one more, an idle one is closed, of the address that has most."""
    idle_connections: Annotated[int, Between(10, 100_000)] = 100
    """Connections of one address without a request under way; of more, the one that was idle for longest is closed. An
    API server keeps 25 at most."""
    address_share_ratio: Annotated[float, Between(0.05, 64)] = 0.5
    """Share of one CPU that callers of one address may use up in the long run: some 1,000 small admissions a second.
    Who used it up waits before each request, and a pod is admitted unchanged where that lasts."""
    end_seconds: Annotated[int, Between(1, 300)] = 10
    """Seconds that requests under way have to end after SIGTERM."""
    workers: Annotated[int, Between(1, 64)] = 4
    """Threads for reports, proposals and questions; admissions need none."""
    waiting_requests: Annotated[int, Between(1, 10_000)] = 64
    """Requests that may wait for a thread; those beyond are told 503 and when to come again."""
    switch_interval_seconds: Annotated[float, Between(0.00001, 1)] = 0.0005
    """Seconds after which a thread that computes lets another one go on; shorter makes admissions wait less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """Where history is kept."""

    url: str = "/var/lib/plimsoll/webhook.db"
    """A path or sqlite:///PATH for one replica, postgresql://USER@HOST/NAME for several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Who may report and who may read."""

    audience: str = "plimsoll-webhook"
    """The audience that every token must be for, agents' and people's."""
    agent_account: str = "plimsoll-agent"
    """The service account, in the webhook's own namespace, whose tokens may report."""
    verdict_seconds: Annotated[float, Between(0, 60)] = 30.0
    """Seconds for which a token that was found good is believed without asking again."""
    refusal_seconds: Annotated[float, Between(0, 60)] = 10.0
    """Seconds for which one that was refused is not asked about again."""
    verdicts: Annotated[int, Between(1, 1_000_000)] = 8192
    """Tokens remembered at most; the oldest go first."""
    reviews_per_minute: Annotated[int, Between(1, 1_000_000)] = 6000
    """Questions to the API server about tokens at most; callers beyond are told to come again."""
    strangers_per_minute: Annotated[int, Between(1, 1_000_000)] = 2000
    """Such questions at most about tokens for which nothing speaks: their signature could not be checked, as the API
    server's keys cannot be had, and they were never found good. Without effect on others."""
    requests_per_minute: Annotated[int, Between(1, 100_000)] = 30
    """Reports of one node at most, and as many calls with proposals: a queue of an hour holds twelve."""
    rows: Annotated[int, Between(1, 100_000)] = 2000
    """Rows of one report at most."""
    body_bytes: Annotated[int, Between(1024, 1 << 30)] = 1 << 20
    """Bytes of a report at most as sent."""
    unpacked_bytes: Annotated[int, Between(1024, 1 << 30)] = 8 << 20
    """Bytes of a report at most when unpacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """How the API server is reached, and where the webhook lives."""

    kubeconfig: Annotated[Path | None, Unset("the pod's own service account")] = None
    """A kubeconfig file; its current context is taken."""
    namespace: str = "plimsoll"
    """The namespace of the webhook, its Lease, its ConfigMap and the agents' account."""
    config_map: str = "plimsoll"
    """The ConfigMap with the cluster's rules."""
    lease: str = "plimsoll-webhook"
    """The Lease by which replicas choose who leads."""
    replica: Annotated[str | None, Unset("the host name")] = None
    """This replica's name in the Lease."""
    request_timeout_seconds: Annotated[float, Between(0.5, 60)] = 10.0
    """Seconds for one call; watches last longer."""
    stale_seconds: Annotated[float, Between(1, 3600)] = 180.0
    """Seconds without news after which the API server is asked for lists again."""
    reads_jobs: bool = False
    """Watch Jobs, whose run each is they say themselves; false = a Job's name and time tell. It takes the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSettings:
    """What nodes cost, for people to see; nobody outside is asked, and no decision goes by it."""

    currency: str = "USD"
    """Three capital letters, shown with every figure. Another one than USD takes prices of your own: the list prices
    are in USD."""
    month_hours: Annotated[float, Between(1, 10_000)] = 730.0
    """Hours of a month; figures are told by month."""
    cpu_core_hour: Annotated[float | None, Between(0.000001, 1_000_000), Unset("the list price, 0.031611")] = None
    """What a core costs an hour on nodes without a price of their own, and how a node's price is split between CPU and
    memory. Unset, all is marked as a list price (OpenCost's reference) and not your bill."""
    memory_gib_hour: Annotated[float | None, Between(0.000001, 1_000_000), Unset("the list price, 0.004237")] = None
    """The same of a GiB; both are set or neither."""
    nodes: Annotated[str | None, Unset("no node has a price by its labels")] = None
    """Hourly prices of nodes by their labels, the first that fits, as
    karpenter.sh/capacity-type=spot,node.kubernetes.io/instance-type=c5a.xlarge:0.077;topology.kubernetes.io/zone=a:0.2"""
    file: Annotated[Path | None, Unset("no file")] = None
    """A CSV file of hourly prices in OpenCost's columns, for nodes that no rule of cost.nodes fits."""

    def prices(self, sheet: str | None = None) -> Prices:
        """Return what is set; ``sheet`` is the file's text.

        Raises:
            PriceError, SheetError: It is not understood; one line.
        """
        return Prices(
            currency=self.currency,
            month_hours=_as_written(self.month_hours),
            cpu_core_hour=None if self.cpu_core_hour is None else _as_written(self.cpu_core_hour),
            memory_gib_hour=None if self.memory_gib_hour is None else _as_written(self.memory_gib_hour),
            rules=() if self.nodes is None else parse_rules(self.nodes),
            sheet=PriceSheet() if sheet is None else parse_sheet(sheet, f"cost.file {self.file}"),
        )


def _as_written(number: float) -> Decimal:
    """Return a number as it was written: a float's shortest text is that."""
    return Decimal(repr(number))
