"""How much one node's word counts."""

from __future__ import annotations

import random

from agent.core.cluster.facts import NodeAmounts, WrittenContainer
from agent.core.history.workloads.node_claims import ANY, Most, NodeClaim, claim_of, code_within, most_of
from agent.core.history.workloads.node_peaks import Leaders, amount_of, code_of

MIB = 1 << 20


def cpu(millicores: int) -> int:
    return code_of(millicores * 8)


def memory(size: int) -> int:
    return code_of(size // 1024)


def test_a_node_that_is_alone_is_believed_up_to_the_largest_node() -> None:
    alone = NodeClaim(cpu(8000), 0)
    assert (most_of(alone, NodeClaim()).cpu, most_of(alone, NodeClaim()).memory) == (ANY, ANY)
    largest = NodeAmounts(cpu_millicores=3900, memory_bytes=100 * MIB)
    most = most_of(alone, NodeClaim(), largest=largest)
    assert (most.cpu_millicores, most.memory_bytes, most.kill_bytes(7)) == (3900, 100 * MIB, 100 * MIB)


def test_a_kill_counts_up_to_four_times_what_nodes_other_than_the_one_that_tells_of_it_saw() -> None:
    alone = most_of(NodeClaim(), NodeClaim(memory(100 * MIB), 0, node=7))
    # Its own word; another one beside it; and of earlier hours nobody knows who told.
    assert alone.kill_bytes(7) == Most().kill_bytes(7) > 1 << 50
    assert (alone.kill_bytes(9), alone.kill_bytes(0)) == (400 * MIB, 400 * MIB)
    two = most_of(NodeClaim(), NodeClaim(memory(100 * MIB), memory(10 * MIB), node=7))
    assert (two.kill_bytes(7), two.kill_bytes(9), two.kill_bytes(0)) == (40 * MIB, 400 * MIB, 40 * MIB)
    # It is at the limit as written that containers are killed.
    written = WrittenContainer(name="app", memory_limit_bytes=1024 * MIB)
    two = most_of(NodeClaim(), NodeClaim(memory(100 * MIB), memory(10 * MIB), node=7), written=written)
    assert two.kill_bytes(7) == two.kill_bytes(9) == two.kill_bytes(0) == 1024 * MIB


def test_beside_others_it_is_believed_four_times_as_much_as_they_saw_or_what_was_written() -> None:
    written = WrittenContainer(
        name="app", cpu_request_millicores=1000, memory_request_bytes=64 * MIB, memory_limit_bytes=256 * MIB
    )
    claims = NodeClaim(cpu(8000), cpu(100)), NodeClaim(memory(900 * MIB), memory(10 * MIB))
    bare = most_of(*claims)
    assert (bare.cpu_millicores, bare.memory_bytes, bare.kill_bytes(0)) == (400, 40 * MIB, 40 * MIB)
    most = most_of(*claims, written=written)
    assert (most.cpu_millicores, most.memory_bytes, most.kill_bytes(0)) == (1000, 64 * MIB, 256 * MIB)
    assert most_of(*claims, written=WrittenContainer(name="app")) == bare
    small = NodeAmounts(cpu_millicores=500, memory_bytes=32 * MIB)
    assert most_of(*claims, written=written, largest=small).cpu_millicores == 500


def test_bounds_are_never_rounded_up() -> None:
    lots = random.Random(1)
    for _ in range(2000):
        amount = int(2 ** lots.uniform(0, 40))
        code = code_within(amount)
        assert (amount_of(code) or 0) <= amount < (amount_of(code + 1) or 0)
        second = code_of(amount)
        most = most_of(NodeClaim(ANY, second), NodeClaim())
        assert most.cpu == ANY or amount_of(most.cpu) == 4 * (amount_of(second) or 0)
    nothing = Most(cpu=0, memory=0, kill_most_kib=0)
    assert nothing.memory_bytes == nothing.kill_bytes(0) == nothing.cpu_millicores == 0


def test_the_claim_is_that_of_the_node_with_the_largest_value_whatever_class_it_is_of() -> None:
    assert claim_of([], by_size=False) == NodeClaim()
    alone = Leaders(900, 7, 0)
    assert claim_of([(alone, 4)], by_size=False) == NodeClaim(900, 0, 7)
    several = [(alone, 4), (Leaders(500, 8, 300), 4), (Leaders(400, 7, 20), 2)]
    assert claim_of(several, by_size=False) == NodeClaim(900, 500, 7)
    assert claim_of([(Leaders(900, 7, 900), 4)], by_size=False) == NodeClaim(900, 900, 7)


def test_what_smaller_nodes_saw_of_a_daemon_set_counts_in_proportion() -> None:
    large, small = (Leaders(cpu(600), 7, 0), 16), (Leaders(cpu(100), 8, cpu(90)), 2)
    assert claim_of([large, small], by_size=True) == NodeClaim(cpu(600), cpu(800), 7)
    assert claim_of([large, small], by_size=False) == NodeClaim(cpu(600), cpu(100), 7)
    assert claim_of([(large[0], 2), (small[0], 16)], by_size=True) == NodeClaim(cpu(600), cpu(100), 7)
