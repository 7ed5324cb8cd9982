"""Real runtimes with a fixed heap, resized while they idle and loaded after that: with their profile they live on."""

from __future__ import annotations

import os
import subprocess
from base64 import b64decode
from collections.abc import Sequence
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

# Hold.java, compiled by javac --release 8 -g:none, so that a runtime without a compiler is enough:
#     class Hold {
#         public static void main(String[] mebibytes) throws Exception {
#             byte[][] held = new byte[Integer.parseInt(mebibytes[0])][];
#             System.out.println("ready");
#             System.in.read();
#             for (int i = 0; i < held.length; i++) {
#                 held[i] = new byte[1 << 20];
#             }
#             System.out.println("full " + held.length);
#             System.in.read();
#         }
#     }
HOLD_CLASS: Final = b64decode(
    "yv66vgAAADQAQwoAAgADBwAEDAAFAAYBABBqYXZhL2xhbmcvT2JqZWN0AQAGPGluaXQ+AQADKClWCgAIAAkHAAoMAAsADAEAEWphdmEvbGFuZy"
    "9JbnRlZ2VyAQAIcGFyc2VJbnQBABUoTGphdmEvbGFuZy9TdHJpbmc7KUkHAA4BAAJbQgkAEAARBwASDAATABQBABBqYXZhL2xhbmcvU3lzdGVt"
    "AQADb3V0AQAVTGphdmEvaW8vUHJpbnRTdHJlYW07CAAWAQAFcmVhZHkKABgAGQcAGgwAGwAcAQATamF2YS9pby9QcmludFN0cmVhbQEAB3ByaW"
    "50bG4BABUoTGphdmEvbGFuZy9TdHJpbmc7KVYJABAAHgwAHwAgAQACaW4BABVMamF2YS9pby9JbnB1dFN0cmVhbTsKACIAIwcAJAwAJQAmAQAT"
    "amF2YS9pby9JbnB1dFN0cmVhbQEABHJlYWQBAAMoKUkDABAAAAcAKQEAF2phdmEvbGFuZy9TdHJpbmdCdWlsZGVyCgAoAAMIACwBAAVmdWxsIA"
    "oAKAAuDAAvADABAAZhcHBlbmQBAC0oTGphdmEvbGFuZy9TdHJpbmc7KUxqYXZhL2xhbmcvU3RyaW5nQnVpbGRlcjsKACgAMgwALwAzAQAcKEkp"
    "TGphdmEvbGFuZy9TdHJpbmdCdWlsZGVyOwoAKAA1DAA2ADcBAAh0b1N0cmluZwEAFCgpTGphdmEvbGFuZy9TdHJpbmc7BwA5AQAESG9sZAEABE"
    "NvZGUBAARtYWluAQAWKFtMamF2YS9sYW5nL1N0cmluZzspVgEADVN0YWNrTWFwVGFibGUHAD8BAANbW0IBAApFeGNlcHRpb25zBwBCAQATamF2"
    "YS9sYW5nL0V4Y2VwdGlvbgAgADgAAgAAAAAAAgAAAAUABgABADoAAAARAAEAAQAAAAUqtwABsQAAAAAACQA7ADwAAgA6AAAAbgADAAMAAABQKg"
    "MyuAAHvQANTLIADxIVtgAXsgAdtgAhVwM9HCu+ogAQKxwSJ7wIU4QCAaf/8LIAD7sAKFm3ACoSK7YALSu+tgAxtgA0tgAXsgAdtgAhV7EAAAAB"
    "AD0AAAAMAAL9ABsHAD4B+gASAEAAAAAEAAEAQQAA"
)
HOLD_SCRIPT: Final = """
const held = [];
const fill = () => {
    for (let i = 0; i < COUNT; i += 1) held.push(new Array(1 << 17).fill(i + 0.5));
    console.log(`full ${held.length}`);
};
process.stdin.once('data', fill);
console.log('ready');
""".replace("COUNT", str(HELD_MIB))
"""An array of 2^17 numbers of 8 bytes is a MiB of V8's heap."""

GO_ENVIRONMENT: Final = {"GOMEMLIMIT": f"{HEAP_MIB}MiB"}


def java(folder: Path, *flags: str) -> list[str]:
    """Return a Java virtual machine that waits for a line, then holds so many MiB in its heap."""
    (folder / "Hold.class").write_bytes(HOLD_CLASS)
    # One collector thread, no second compiler: it starts quickly in emulation. Nearly all of the heap is old space.
    quick = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmn16m", "-Xms24m")
    return ["java", *flags, *quick, "-cp", str(folder), "Hold", str(HELD_MIB)]


def node(*flags: str) -> list[str]:
    """Return the same of Node."""
    return ["node", *flags, "-e", HOLD_SCRIPT]


def go() -> list[str]:
    """Return the same of Go, told of its limit by its environment."""
    return ["env", *(f"{name}={value}" for name, value in GO_ENVIRONMENT.items()), str(go_load()), str(HELD_MIB)]


class Held:
    """A runtime in a container of 512 MiB, and how it goes on."""

    def __init__(self, tree: FullTree, path: str, words: Sequence[str], folder: Path) -> None:
        self.tree, self.path = tree, path
        self._line, self.output = folder / "line", folder / "output"
        os.mkfifo(self._line)
        tree.make(path)
        self.set_limit(LIMIT_BYTES)
        program = f"exec {join(words)} <>{self._line} >{self.output} 2>&1"
        self.process: subprocess.Popen[bytes] = tree.spawn(path, ["sh", "-c", program])
        self.wait_until("ready")

    def wait_until(self, word: str) -> None:
        """Wait until it says a word, or is gone."""
        wait_for(lambda: word in self.said() or self.process.poll() is not None, f"{self.path} says {word}")

    def said(self) -> str:
        """Return what it said until now."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def set_limit(self, limit_bytes: int) -> None:
        """Resize its memory limit in place, as a kubelet does."""
        (self.tree.absolute(self.path) / "memory.max").write_text(str(limit_bytes), encoding="ascii")

    def load(self) -> None:
        """Let it fill its heap."""
        self._line.write_text("\n", encoding="ascii")
        self.wait_until("full")

    @property
    def kills(self) -> int:
        """Return how often the kernel killed in it for want of memory."""
        return self.tree.read_flat(self.path, "memory.events")["oom_kill"]

    def recommended(self, runtime: RuntimeProfile | None) -> Advice:
        """Return what is recommended by what it uses now: its working set, and twice that as the limit."""
        with watching(self.tree, self.path, "native") as watched:
            watched.sweep(slow=True)
            row = watched.newest_memory()
        used_bytes, current_bytes = int(row["working_set_peak_bytes"]), int(row["memory_current_bytes"])
        stated = UnitResources(memory_request_bytes=LIMIT_BYTES // 2, memory_limit_bytes=LIMIT_BYTES)
        window = memory_window(used_bytes, working_set_bytes=used_bytes, current_bytes=current_bytes)
        named = {"memory_limit_bytes": floats(2.0 * used_bytes), "has_memory_limit": bools(True)}
        (answer,) = recommend(
            [subject(resources=stated, memory=window, runtime=runtime)],
            TimesPolicy(1.0, rule=LimitRule.RAISE, **named),
            now_unix_seconds=1e9,
            conditions=Conditions(min_span_seconds=0.0, max_age_seconds=60.0),
            options=BoundsOptions(),
        )
        print(f"{self.path}: in use {used_bytes / MIB:.1f} MiB; {answer.memory_bytes}; {answer.runtime_advice}")
        return answer.memory_bytes


def after_load(held: Held, runtime: RuntimeProfile | None) -> Advice:
    """Resize a runtime to what is recommended, then load it."""
    advice = held.recommended(runtime)
    held.set_limit(advice.limit or LIMIT_BYTES)
    held.load()
    return advice


def assert_lives_and_is_asked_for(held: Held, advice: Advice) -> None:
    """Check that it was not killed, and that the request holds its heap and what is beside it."""
    assert (held.kills, held.process.poll()) == (0, None), held.said()
    assert f"full {HELD_MIB}" in held.said()
    used_bytes = held.tree.read_flat(held.path, "memory.stat")["anon"]
    print(f"{held.path}: {used_bytes / MIB:.1f} MiB of its own once loaded, request {(advice.request or 0) / MIB} MiB")
    assert used_bytes >= HELD_MIB * MIB
    # Beside what is held of the heap the rest of it may be filled as well.
    assert advice.request is not None
    assert advice.request >= HEAP_MIB * MIB + max(HEAP_MIB * MIB // 4, used_bytes - HEAP_MIB * MIB)


def test_java_with_a_fixed_heap_lives_through_a_resize(tree: FullTree, tmp_path: Path) -> None:
    words = java(tmp_path, f"-Xmx{HEAP_MIB}m")
    held = Held(tree, "known", words, tmp_path)

    advice = after_load(held, profile_of(Launch(command=words), None))

    assert_lives_and_is_asked_for(held, advice)
    assert advice.limit is not None
    assert HEAP_MIB * MIB * 5 // 4 <= advice.limit < LIMIT_BYTES


def test_java_without_its_profile_is_killed_after_the_resize(tree: FullTree, tmp_path: Path) -> None:
    held = Held(tree, "control", java(tmp_path, f"-Xmx{HEAP_MIB}m"), tmp_path)

    advice = after_load(held, None)

    wait_for(lambda: held.process.poll() is not None, "the kernel's kill")
    assert (held.kills, held.process.returncode) == (1, -9)
    assert advice.limit is not None
    assert advice.limit < HEAP_MIB * MIB


def test_java_that_read_its_limit_at_start_is_not_lowered(tree: FullTree, tmp_path: Path) -> None:
    words = java(tmp_path, "-XX:MaxRAMPercentage=50")
    held = Held(tree, "share", words, tmp_path)

    advice = after_load(held, profile_of(Launch(command=words), None))

    assert advice.limit is None
    assert (held.kills, held.process.poll()) == (0, None)
    assert f"full {HELD_MIB}" in held.said()


def test_node_with_a_fixed_heap_lives_through_a_resize(tree: FullTree, tmp_path: Path) -> None:
    words = node(f"--max-old-space-size={HEAP_MIB}")
    held = Held(tree, "known", words, tmp_path)

    advice = after_load(held, profile_of(Launch(command=words), None))

    assert_lives_and_is_asked_for(held, advice)


def test_node_without_its_profile_is_killed_after_the_resize(tree: FullTree, tmp_path: Path) -> None:
    held = Held(tree, "control", node(f"--max-old-space-size={HEAP_MIB}"), tmp_path)

    after_load(held, None)

    wait_for(lambda: held.process.poll() is not None, "the kernel's kill")
    assert (held.kills, held.process.returncode) == (1, -9)


def test_go_with_a_limit_of_its_own_lives_through_a_resize(tree: FullTree, tmp_path: Path) -> None:
    held = Held(tree, "known", go(), tmp_path)

    advice = after_load(held, profile_of(Launch(command=go()[2:], environment=GO_ENVIRONMENT), None))

    assert_lives_and_is_asked_for(held, advice)


def test_go_without_its_profile_is_killed_after_the_resize(tree: FullTree, tmp_path: Path) -> None:
    held = Held(tree, "control", go(), tmp_path)

    after_load(held, None)

    wait_for(lambda: held.process.poll() is not None, "the kernel's kill")
    assert (held.kills, held.process.returncode) == (1, -9)
