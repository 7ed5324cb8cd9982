"""Which ticket a pod holds, and so whether it is in the enforced share of its workload. Core, pure.

The webhook gives a ticket to each pod that it admits under a share, and writes it down with it, as it knows no uid yet
and often no final name. Of a pod without one, which was there before or was admitted without the webhook, the ticket
is the hash of its uid. Both never change, so every agent and every replica of the webhook says the same of a pod,
before a restart and after it.

What is promised. Pods that one replica of the webhook admits in a row are counted out: of 20 pods 10 % are two, and
other shares are met to within one pod. Several replicas count by themselves, so that there may be one more or less for
each. Pods of a StatefulSet are counted out by their number, those of a DaemonSet are in or out by their node. Of pods
that were there before, each is in the share with that chance: of 20 pods 10 % are two on the average, none of them in
one case of eight, and more than four in one of 23.
"""

from __future__ import annotations

import json
import re
from typing import Final

from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import DAEMON_SET_KIND, STATEFUL_SET_KIND, Workload
from agent.core.orders.annotations import SHARE_TICKET
from agent.core.orders.enforce_share import TICKETS, counted_ticket, hashed_ticket
from agent.core.plan.needs.given_boost import WRITTEN_WITHIN_SECONDS

_ORDINAL: Final = re.compile(r".+-(?P<number>\d{1,9})", re.ASCII)


def share_ticket(pod: Pod) -> int:
    """Return a pod's ticket: the one that it was given, else the hash of its uid."""
    given = given_ticket(pod)
    return hashed_ticket(pod.uid) if given is None else given


def given_ticket(pod: Pod, *, within_seconds: float = WRITTEN_WITHIN_SECONDS) -> int | None:
    """Return the ticket that this very pod was given when it was admitted; None = it was given none.

    What was written at another time than the pod was made is of another pod, a template made of one as a rule. Who
    writes one by hand chooses for his own pod what he may choose by its mode as well.
    """
    text, created = pod.annotations.get(SHARE_TICKET), pod.created_unix_seconds
    if text is None or created is None:
        return None
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    ticket, written = document.get("ticket"), document.get("unixSeconds")
    if type(ticket) is not int or type(written) is not int or not 0 <= ticket < TICKETS:
        return None
    # Compared, not subtracted: whoever writes it may write a number that no float holds.
    return ticket if created - within_seconds <= written <= created + within_seconds else None


def ticket_text(ticket: int, *, unix_seconds: float) -> str:
    """Write a ticket as the annotation has it; ``given_ticket`` reads it back."""
    return json.dumps({"ticket": ticket, "unixSeconds": int(unix_seconds)}, separators=(",", ":"))


def next_ticket(workload: Workload, pod_name: str, *, node: str | None, before: int) -> int:
    """Return the ticket of a pod that is being created.

    Args:
        workload: Whose pod it is. Each begins to count elsewhere, so that the first pods of a cluster's workloads are
            not all in their shares.
        pod_name: Its name, or what a name is made of.
        node: The one node that it can go to; None = it may go to several.
        before: Pods of the workload that came before it.
    """
    if workload.kind == DAEMON_SET_KIND and node is not None:
        return hashed_ticket(f"{workload} {node}")
    ordinal = _ORDINAL.fullmatch(pod_name) if workload.kind == STATEFUL_SET_KIND else None
    return counted_ticket(hashed_ticket(str(workload)) + (before if ordinal is None else int(ordinal["number"])))
