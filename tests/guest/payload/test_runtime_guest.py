"""Real runtimes through 24 hours of load, resized each hour to what is recommended: with their profile they live on.

An hour is told to the recommender, not waited for: a line says how much the program shall hold in its heap, and when it
holds that it is measured, sized and resized in place, as the agent would. Nights are calm, so that whoever goes by use
alone lowers a limit below the heap, and mornings kill what was lowered so.
"""

from __future__ import annotations

import os
import subprocess
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import Final

import pytest

from agent.core.cluster.launch import Launch, profile_of
from agent.core.cluster.runtime_profile import RuntimeProfile
from agent.core.cluster.unit import UnitResources
from agent.core.orders.policy_options import BoundsOptions
from agent.core.recommender.policy import LimitRule
from agent.core.recommender.recommendation import Advice
from agent.core.recommender.recommender import recommend
from agent.core.recommender.subject import Conditions
from tests.guest.full_tree import FullTree
from tests.guest.go_load import go_load
from tests.guest.waiting import wait_for
from tests.guest.watching import watching
from tests.subjects import TimesPolicy, bools, floats, memory_window, subject

pytestmark = pytest.mark.guest

MIB: Final = 1 << 20
LIMIT_BYTES: Final = 512 * MIB
HEAP_MIB: Final = 256
HELD_MIB: Final = 200
"""What the load takes of the heap."""

DAY_MIB: Final = (*(20,) * 7, 120, HELD_MIB, HELD_MIB, 160, 160, 160, 160, 120, 120, HELD_MIB, 120, *(20,) * 6)
"""What the load takes of the heap, by hour."""

# Hold.java, compiled by javac --release 8 -g:none, so that a runtime without a compiler is enough:
#     class Hold {
#         public static void main(String[] none) throws Exception {
#             java.util.ArrayList<byte[]> held = new java.util.ArrayList<byte[]>();
#             java.io.BufferedReader lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
#             System.out.println("ready");
#             String line;
#             while ((line = lines.readLine()) != null) {
#                 int wanted = Integer.parseInt(line);
#                 while (held.size() > wanted) held.remove(held.size() - 1);
#                 while (held.size() < wanted) held.add(new byte[1 << 20]);
#                 System.out.println("at " + wanted);
#             }
#         }
#     }
HOLD_CLASS: Final = b64decode(
    "yv66vgAAADQAVwoAAgADBwAEDAAFAAYBABBqYXZhL2xhbmcvT2JqZWN0AQAGPGluaXQ+AQADKClWBwAIAQATamF2YS91dGlsL0FycmF5TGlzdAoA"
    "BwADBwALAQAWamF2YS9pby9CdWZmZXJlZFJlYWRlcgcADQEAGWphdmEvaW8vSW5wdXRTdHJlYW1SZWFkZXIJAA8AEAcAEQwAEgATAQAQamF2YS9s"
    "YW5nL1N5c3RlbQEAAmluAQAVTGphdmEvaW8vSW5wdXRTdHJlYW07CgAMABUMAAUAFgEAGChMamF2YS9pby9JbnB1dFN0cmVhbTspVgoACgAYDAAF"
    "ABkBABMoTGphdmEvaW8vUmVhZGVyOylWCQAPABsMABwAHQEAA291dAEAFUxqYXZhL2lvL1ByaW50U3RyZWFtOwgAHwEABXJlYWR5CgAhACIHACMM"
    "ACQAJQEAE2phdmEvaW8vUHJpbnRTdHJlYW0BAAdwcmludGxuAQAVKExqYXZhL2xhbmcvU3RyaW5nOylWCgAKACcMACgAKQEACHJlYWRMaW5lAQAU"
    "KClMamF2YS9sYW5nL1N0cmluZzsKACsALAcALQwALgAvAQARamF2YS9sYW5nL0ludGVnZXIBAAhwYXJzZUludAEAFShMamF2YS9sYW5nL1N0cmlu"
    "ZzspSQoABwAxDAAyADMBAARzaXplAQADKClJCgAHADUMADYANwEABnJlbW92ZQEAFShJKUxqYXZhL2xhbmcvT2JqZWN0OwMAEAAACgAHADoMADsA"
    "PAEAA2FkZAEAFShMamF2YS9sYW5nL09iamVjdDspWgcAPgEAF2phdmEvbGFuZy9TdHJpbmdCdWlsZGVyCgA9AAMIAEEBAANhdCAKAD0AQwwARABF"
    "AQAGYXBwZW5kAQAtKExqYXZhL2xhbmcvU3RyaW5nOylMamF2YS9sYW5nL1N0cmluZ0J1aWxkZXI7CgA9AEcMAEQASAEAHChJKUxqYXZhL2xhbmcv"
    "U3RyaW5nQnVpbGRlcjsKAD0ASgwASwApAQAIdG9TdHJpbmcHAE0BAARIb2xkAQAEQ29kZQEABG1haW4BABYoW0xqYXZhL2xhbmcvU3RyaW5nOylW"
    "AQANU3RhY2tNYXBUYWJsZQcAUwEAEGphdmEvbGFuZy9TdHJpbmcBAApFeGNlcHRpb25zBwBWAQATamF2YS9sYW5nL0V4Y2VwdGlvbgAgAEwAAgAA"
    "AAAAAgAAAAUABgABAE4AAAARAAEAAQAAAAUqtwABsQAAAAAACQBPAFAAAgBOAAAApAAFAAUAAAB7uwAHWbcACUy7AApZuwAMWbIADrcAFLcAF02y"
    "ABoSHrYAICy2ACZZTsYAUi24ACo2BCu2ADAVBKQAESsrtgAwBGS2ADRXp//sK7YAMBUEogAPKxI4vAi2ADlXp//usgAauwA9WbcAPxJAtgBCFQS2"
    "AEa2AEm2ACCn/6uxAAAAAQBRAAAAFwAF/QAiBwAHBwAK/QAOBwBSARYU+gAcAFQAAAAEAAEAVQAA"
)
HOLD_SCRIPT: Final = """
let held = [];
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const wanted = Number(line);
    held = held.slice(0, wanted);
    while (held.length < wanted) held.push(new Array(1 << 17).fill(held.length + 0.5));
    console.log(`at ${held.length}`);
});
console.log('ready');
"""
"""An array of 2^17 numbers of 8 bytes is a MiB of V8's heap."""

GO_ENVIRONMENT: Final = {"GOMEMLIMIT": f"{HEAP_MIB}MiB"}


def java(folder: Path, *flags: str) -> list[str]:
    """Return a Java virtual machine that holds in its heap what it is told."""
    (folder / "Hold.class").write_bytes(HOLD_CLASS)
    # One collector thread, no second compiler: it starts quickly in emulation. Nearly all of the heap is old space.
    quick = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmn16m", "-Xms24m")
    return ["java", *flags, *quick, "-cp", str(folder), "Hold"]


def node(*flags: str) -> list[str]:
    """Return the same of Node."""
    return ["node", *flags, "-e", HOLD_SCRIPT]


def go() -> list[str]:
    """Return the same of Go, told of its limit by its environment."""
    return ["env", *(f"{name}={value}" for name, value in GO_ENVIRONMENT.items()), str(go_load())]


@dataclass(frozen=True, slots=True)
class Hour:
    """What was recommended at the end of an hour, and what of memory no file stands behind."""

    advice: Advice
    own_bytes: int


class Held:
    """A runtime in a container of 512 MiB, and how it goes on."""

    def __init__(self, tree: FullTree, path: str, words: Sequence[str], folder: Path) -> None:
        self.tree, self.path = tree, path
        self._line, self.output = folder / "line", folder / "output"
        os.mkfifo(self._line)
        tree.make(path)
        self._request_bytes = LIMIT_BYTES // 2
        self.limits = [LIMIT_BYTES]
        self._put_limit()
        program = f"exec {join(words)} <>{self._line} >{self.output} 2>&1"
        self.process: subprocess.Popen[bytes] = tree.spawn(path, ["sh", "-c", program])
        self._wait_for_lines("ready", 1)

    def lives_through(self, runtime: RuntimeProfile | None) -> list[Hour]:
        """Load it for a day, resize it each hour by what is recommended; return the hours that it came through."""
        hours: list[Hour] = []
        for number, wanted in enumerate(DAY_MIB):
            self._line.write_text(f"{wanted}\n", encoding="ascii")
            if not self._wait_for_lines("at ", number + 1):
                break
            own_bytes = self.tree.read_flat(self.path, "memory.stat")["anon"]
            advice = self._recommended(runtime, number)
            hours.append(Hour(advice, own_bytes))
            self._request_bytes = advice.request or self._request_bytes
            if advice.limit is not None:
                self.limits.append(advice.limit)
                self._put_limit()
        inner = f"{len(hours)} hours, limits {[limit // MIB for limit in self.limits]} MiB"
        print(f"{self.path}: {inner}, kills {self.kills}, own {[hour.own_bytes // MIB for hour in hours]} MiB")
        return hours

    @property
    def kills(self) -> int:
        """Return how often the kernel killed in it for want of memory."""
        return self.tree.read_flat(self.path, "memory.events")["oom_kill"]

    def _put_limit(self) -> None:
        """Resize its memory limit in place, as a kubelet does."""
        (self.tree.absolute(self.path) / "memory.max").write_text(str(self.limits[-1]), encoding="ascii")

    def _wait_for_lines(self, word: str, count: int) -> bool:
        """Wait until it has said a word so often, or is gone; return whether it has."""

        def said() -> bool:
            text = self.output.read_text(errors="replace") if self.output.exists() else ""
            return sum(line.startswith(word) for line in text.splitlines()) >= count

        wait_for(lambda: said() or self.process.poll() is not None, f"{self.path} says {word} {count} times")
        return said()

    def _recommended(self, runtime: RuntimeProfile | None, hour: int) -> Advice:
        """Return what is recommended by what it uses now: its working set, and twice that as the limit."""
        with watching(self.tree, self.path, "native") as watched:
            watched.sweep(slow=True)
            row = watched.newest_memory()
        used_bytes, current_bytes = int(row["working_set_peak_bytes"]), int(row["memory_current_bytes"])
        stated = UnitResources(memory_request_bytes=self._request_bytes, memory_limit_bytes=self.limits[-1])
        window = memory_window(used_bytes, working_set_bytes=used_bytes, current_bytes=current_bytes)
        named = {"memory_limit_bytes": floats(2.0 * used_bytes), "has_memory_limit": bools(True)}
        (answer,) = recommend(
            [subject(resources=stated, memory=window, runtime=runtime)],
            TimesPolicy(1.0, rule=LimitRule.RAISE, **named),
            now_unix_seconds=1e9 + hour * 3600.0,
            conditions=Conditions(min_span_seconds=0.0, max_age_seconds=60.0),
            options=BoundsOptions(),
        )
        return answer.memory_bytes


def assert_lives_on_its_heap(held: Held, hours: Sequence[Hour], beside_parts: int) -> None:
    """Check that no hour killed it though its limit was lowered, and that requests hold its heap and what is beside.

    Args:
        beside_parts: Beside the heap there is one such part of it at least.
    """
    assert (len(hours), held.kills, held.process.poll()) == (len(DAY_MIB), 0, None)
    assert len(held.limits) > 1, "it was never resized"
    assert min(held.limits) < LIMIT_BYTES, "its limit was never lowered"
    assert min(held.limits) >= HEAP_MIB * MIB * (beside_parts + 1) // beside_parts
    assert max(hour.own_bytes for hour in hours) >= HELD_MIB * MIB
    for hour in hours:
        # What is more than its heap can hold is beside it.
        beside_bytes = max(HEAP_MIB * MIB // beside_parts, hour.own_bytes - HEAP_MIB * MIB)
        assert hour.advice.request is None or hour.advice.request >= HEAP_MIB * MIB + beside_bytes
    assert any(hour.advice.request is not None for hour in hours)


def assert_is_killed(held: Held, hours: Sequence[Hour]) -> None:
    """Check that a limit went below the heap, and that the load which the heap is for was the end."""
    wait_for(lambda: held.process.poll() is not None, "the kernel's kill")
    assert (held.kills, held.process.returncode) == (1, -9)
    assert len(hours) < len(DAY_MIB)
    assert held.limits[-1] < HEAP_MIB * MIB


def test_java_with_a_fixed_heap_lives_through_a_day_of_resizes(tree: FullTree, tmp_path: Path) -> None:
    words = java(tmp_path, f"-Xmx{HEAP_MIB}m")
    held = Held(tree, "known", words, tmp_path)

    assert_lives_on_its_heap(held, held.lives_through(profile_of(Launch(command=words), None)), 4)


def test_java_without_its_profile_is_killed_after_a_resize(tree: FullTree, tmp_path: Path) -> None:
    held = Held(tree, "control", java(tmp_path, f"-Xmx{HEAP_MIB}m"), tmp_path)

    assert_is_killed(held, held.lives_through(None))


def test_java_that_read_its_limit_at_start_is_not_lowered_all_day(tree: FullTree, tmp_path: Path) -> None:
    words = java(tmp_path, "-XX:MaxRAMPercentage=50")
    held = Held(tree, "share", words, tmp_path)

    hours = held.lives_through(profile_of(Launch(command=words), None))

    assert (len(hours), held.kills, held.process.poll()) == (len(DAY_MIB), 0, None)
    assert min(held.limits) == LIMIT_BYTES


def test_node_with_a_fixed_heap_lives_through_a_day_of_resizes(tree: FullTree, tmp_path: Path) -> None:
    words = node(f"--max-old-space-size={HEAP_MIB}")
    held = Held(tree, "known", words, tmp_path)

    assert_lives_on_its_heap(held, held.lives_through(profile_of(Launch(command=words), None)), 4)


def test_node_without_its_profile_is_killed_after_a_resize(tree: FullTree, tmp_path: Path) -> None:
    held = Held(tree, "control", node(f"--max-old-space-size={HEAP_MIB}"), tmp_path)

    assert_is_killed(held, held.lives_through(None))


def test_node_that_is_told_nothing_goes_by_its_limit_and_is_not_lowered(tree: FullTree, tmp_path: Path) -> None:
    held = Held(tree, "itself", node(), tmp_path)

    hours = held.lives_through(profile_of(Launch(command=node()), None))

    assert (len(hours), held.kills, held.process.poll()) == (len(DAY_MIB), 0, None)
    assert min(held.limits) == LIMIT_BYTES


def test_go_with_a_limit_of_its_own_lives_through_a_day_of_resizes(tree: FullTree, tmp_path: Path) -> None:
    held = Held(tree, "known", go(), tmp_path)

    profile = profile_of(Launch(command=go()[2:], environment=GO_ENVIRONMENT), None)
    assert_lives_on_its_heap(held, held.lives_through(profile), 9)


def test_go_without_its_profile_is_killed_after_a_resize(tree: FullTree, tmp_path: Path) -> None:
    held = Held(tree, "control", go(), tmp_path)

    assert_is_killed(held, held.lives_through(None))
