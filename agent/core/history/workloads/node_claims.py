"""How much one node's word counts for a workload on all nodes. Core, pure.

What one node alone claims of a container counts up to four times what any other node saw of it, and never more than the
largest node can allocate. Where no other node saw it, the workload lives on that node alone, and its word is all there
is: it counts up to that node's capacity (which bounded its rows).

The second largest node may have seen an idle replica, beside one that is busy. So the bound is never below what the
workload's author requests for the container: a pod that needs no more than was asked for it is not kept short by a
neighbour without work. It is the request as written, not as sized: a resize, which a node's agent can make, moves it
for nobody.

Between a DaemonSet's pods on nodes of different classes the bound grows with the proportion of their CPUs. A kill
counts up to the limit as written, too: it is there that containers are killed, however little they used before. Its
bound goes by what nodes other than the one that tells of it saw of memory; of hours kept without who told, by the
second largest.

Codes are those of ``node_peaks``: they rise with their amounts, and four times an amount has a code of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.facts import NodeAmounts, WrittenContainer
from agent.core.history.minute.minutes import CPU_STEPS, KIB
from agent.core.history.workloads.node_peaks import Leaders, amount_of, code_of

TIMES_SECOND: Final = 4
"""What a node alone claims counts up to so many times the second largest node's. Pods of one workload differ by how
they are chosen by clients and keys: two to three times is common, ten is not."""
ANY: Final = code_of(1 << 62)
"""The largest code there is."""


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """The largest value of one resource over some time, and the largest that any other node saw; codes, 0 = none."""

    top: int = 0
    others: int = 0
    node: int = 0
    """Of the largest value, as the leaders number it; 0 = not known."""


def claim_of(seen: Iterable[tuple[Leaders, int]], *, by_size: bool) -> NodeClaim:
    """Return the claim of the node with the largest value of all.

    Args:
        by_size: A DaemonSet's pod does more where its node has more: what nodes of a smaller class saw counts in the
            proportion of their CPUs. False = all pods are alike.
    """
    every = list(seen)
    if len(every) == 1:  # most workloads are on nodes of one class
        only = every[0][0]
        return NodeClaim(only.top, only.second, only.node)
    top, top_cpus = max(every, key=lambda pair: pair[0].top, default=(Leaders(), 1))
    others = 0
    for leaders, cpus in every:
        # Only the node with the largest value of a class is known by name, and no other is above it.
        code = leaders.second if leaders.node == top.node else leaders.top
        amount = amount_of(code)
        if amount is not None and by_size and cpus < top_cpus:
            code = code_of(amount * top_cpus // max(cpus, 1))
        others = max(others, code)
    return NodeClaim(top.top, others, top.node)


@dataclass(frozen=True, slots=True)
class Most:
    """Up to what values of a container count; codes."""

    cpu: int = ANY
    memory: int = ANY
    memory_claim: NodeClaim = NodeClaim()
    """By which kills are bounded."""
    kill_floor_kib: int = 0
    """What the container may use by what is written: it may have been killed there."""
    kill_most_kib: int | None = None
    """What the largest node has; None = not known."""

    @property
    def cpu_millicores(self) -> float:
        """Return the bound of CPU."""
        return (amount_of(self.cpu) or 0) / CPU_STEPS

    @property
    def memory_bytes(self) -> int:
        """Return the bound of memory."""
        return (amount_of(self.memory) or 0) * KIB

    def kill_bytes(self, node: int) -> int:
        """Return the bound of memory at a kill that a node tells of; 0 = it is not known which."""
        claim = self.memory_claim
        if not node:  # it may be a node that tells of no memory beside the one that does
            claim = NodeClaim(claim.top, claim.others or claim.top)
        elif node != claim.node:
            claim = NodeClaim(claim.top, claim.top)
        return (amount_of(_most(claim, self.kill_floor_kib, self.kill_most_kib)) or 0) * KIB


def most_of(
    cpu: NodeClaim, memory: NodeClaim, *, written: WrittenContainer | None = None, largest: NodeAmounts | None = None
) -> Most:
    """Return the bounds of a container."""
    cpu_floor = memory_floor = kill_floor = 0
    if written is not None:
        cpu_floor = (written.cpu_request_millicores or 0) * CPU_STEPS
        memory_floor = (written.memory_request_bytes or 0) // KIB
        kill_floor = max(memory_floor, (written.memory_limit_bytes or 0) // KIB)
    most_memory = None if largest is None else largest.memory_bytes // KIB
    return Most(
        cpu=_most(cpu, cpu_floor, None if largest is None else largest.cpu_millicores * CPU_STEPS),
        memory=_most(memory, memory_floor, most_memory),
        memory_claim=memory,
        kill_floor_kib=kill_floor,
        kill_most_kib=most_memory,
    )


def code_within(amount: int) -> int:
    """Return the largest code whose amount is not above this, at least that of 0."""
    code = code_of(amount)
    return code - 1 if (amount_of(code) or 0) > amount else code


def _most(claim: NodeClaim, floor: int, largest: int | None) -> int:
    most = ANY
    second = amount_of(claim.others)
    if second is not None:
        most = code_within(max(TIMES_SECOND * second, floor))
    return most if largest is None else min(most, code_within(largest))
