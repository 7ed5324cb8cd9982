"""What was asked of the API server: by its audit log, by caller and node; and what its flow control did, by metrics."""

from __future__ import annotations

import http.client
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tests.cluster.audit import AuditLog, Call
from tests.cluster.control_plane import ControlPlane
from tests.cluster.webhook_process import ACCOUNT, NAMESPACE

AGENT: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
WEBHOOK: Final = f"system:serviceaccount:{NAMESPACE}:plimsoll-webhook"
LEVEL: Final = "plimsoll"
CONFIG_MAP: Final = "plimsoll"
"""With the cluster's pause, which agents watch by its name."""
_SAMPLE: Final = re.compile(r"^(apiserver_flowcontrol_\w+)\{([^}]*)\} (\S+)$", re.M)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class Calls:
    """The calls of a stretch of time."""

    def __init__(self, log: AuditLog) -> None:
        calls = log.calls()
        self.of_agents: Final = [call for call in calls if call.user == AGENT]
        self.of_webhook: Final = [call for call in calls if call.user == WEBHOOK]

    def by_node(self) -> Counter[str]:
        """Count the agents' by the node that the token names, but for those put off."""
        return Counter(call.node or "?" for call in self.of_agents if not _is_put_off(call))

    def most_of_a_node(self, kind: str) -> int:
        """Return the most calls of a kind (``watch pods``) by any node."""
        return max(Counter(call.node for call in self.of_agents if kind_of(call) == kind).values(), default=0)

    def elsewhere(self) -> list[Call]:
        """Return the agents' calls that reach past their own node: all pods, all nodes, other ConfigMaps."""
        held = ("pods", "nodes", "configmaps")
        return [call for call in self.of_agents if call.resource in held and not _is_of_own_node(call)]

    def put_off(self) -> list[Call]:
        """Return the agents' calls that were told to come again, by flow control or by a server that was too slow."""
        return [call for call in self.of_agents if _is_put_off(call)]

    def refused(self) -> list[Call]:
        """Return what was answered with an error.

        Not so: what was put off; versions that are too old (410), which a list mends; and the questions whether there
        are kinds here that need not be (404).
        """
        return [
            call
            for call in (*self.of_agents, *self.of_webhook)
            if call.code >= 400
            and call.code != 410
            and not _is_put_off(call)
            and (call.code, call.resource) != (404, "")
        ]


def kind_of(call: Call) -> str:
    """Return ``list pods`` and the like."""
    return f"{call.verb} {call.resource or urlsplit(call.uri).path}"


def table(calls: Iterable[Call]) -> Iterator[tuple[str, int]]:
    """Count by kind, most first."""
    yield from Counter(map(kind_of, calls)).most_common()


def _is_put_off(call: Call) -> bool:
    """Return whether flow control, or a server or etcd that is too busy, told the caller to come again."""
    return call.code == 429 or call.code >= 500


def _is_of_own_node(call: Call) -> bool:
    selector = parse_qs(urlsplit(call.uri).query).get("fieldSelector", [""])[0]
    own = {
        "pods": f"spec.nodeName={call.node}",
        "nodes": f"metadata.name={call.node}",
        "configmaps": f"metadata.name={CONFIG_MAP}",
    }[call.resource]
    return call.verb in ("list", "watch") and selector == own


class FlowControl:
    """The API server's own counts of how it queued and refused."""

    def __init__(self, plane: ControlPlane) -> None:
        connection, answer = plane.admin.open("GET", "/metrics", None, "", None)
        try:
            text = answer.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(f"/metrics: the answer broke off ({error!r})") from error
        finally:
            connection.close()
        self._samples = [
            (name, dict(_LABEL.findall(labels)), float(value)) for name, labels, value in _SAMPLE.findall(text)
        ]

    def sum(self, name: str, **labels: str) -> float:
        """Sum one family over the series with these labels."""
        wanted = labels.items()
        return sum(value for family, has, value in self._samples if family == name and wanted <= has.items())

    def dispatched(self) -> float:
        """Return how many requests of Plimsoll's level were served."""
        return self.sum("apiserver_flowcontrol_dispatched_requests_total", priority_level=LEVEL)

    def rejected(self) -> float:
        """Return how many were refused with 429."""
        return self.sum("apiserver_flowcontrol_rejected_requests_total", priority_level=LEVEL)

    def rejected_of_others(self) -> float:
        """Return how many of everybody else's were."""
        return self.sum("apiserver_flowcontrol_rejected_requests_total") - self.rejected()

    def seats(self) -> float:
        """Return how many requests of the level may be served at once, nominally."""
        return self.sum("apiserver_flowcontrol_nominal_limit_seats", priority_level=LEVEL)
