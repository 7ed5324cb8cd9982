"""What ``launch`` reads from a spec, against the runtimes themselves: real Java, Node and Go, started as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from agent.core.cluster.launch import Launch, profile_of

MIB: Final = 1 << 20
ALIGNED_BYTES: Final = 2 * MIB
"""HotSpot rounds its heap up to regions of that at most."""
_JAVA_HEAP: Final = re.compile(r"size_t MaxHeapSize +:?= (\d+)")
_NODE_HEAP: Final = "console.log(require('v8').getHeapStatistics().heap_size_limit)"
NODE_YOUNG_MIB: Final = 64
"""Of its young generation at most, which the statistics count and the flag does not."""


def said(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run a program with this environment; return what it printed."""
    plain = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    done = subprocess.run(words, env=plain | dict(environment), capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def read(words: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """Return the heap that the spec shows."""
    profile = profile_of(Launch(command=words[:1], args=words[1:], environment=environment), None)
    assert profile is not None
    assert not profile.hidden
    return None if profile.fault else profile.heap_bytes


@pytest.mark.skipif(shutil.which("java") is None, reason="no java here: apt-get install default-jre-headless")
@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        ("-Xmx300m", {"JAVA_TOOL_OPTIONS": "-Xmx100m", "JDK_JAVA_OPTIONS": "-Xmx200m"}),
        ("", {"JAVA_TOOL_OPTIONS": "-Xmx100m", "JDK_JAVA_OPTIONS": "-Xmx200m"}),
        ("-Xmx300m", {"_JAVA_OPTIONS": "-Xmx400m"}),
        ("-Xmx1g -XX:MaxHeapSize=500m", {}),
        ("-mx512m", {"JAVA_OPTS": "-Xmx2g"}),
        ("-Xmx0x10000000", {}),
        ("-XX:MaxRAM=4g", {}),
        ("-XX:MaxRAM=4g -XX:MaxRAMPercentage=50 -XX:MaxRAMFraction=1", {}),
        ("-XX:MaxRAM=200m -XX:MaxRAMPercentage=70", {}),
        ("-XX:MaxRAM=300m", {}),
        ("-Xmx1g -XX:MaxRAMPercentage=50", {}),
        ("", {"JAVA_TOOL_OPTIONS": "-Dx='a -Xmx64m' -Xmx'80'm"}),
        ("", {"JAVA_TOOL_OPTIONS": "-Dx=a\\ -Xmx64m"}),
        ("", {"JDK_JAVA_OPTIONS": '-Dx="a\\" -Xmx64m'}),
        ("-Xmx1gb", {}),
        ("-XX:MaxRAMPercentage=5e1", {}),
    ],
)
def test_java_takes_the_heap_that_is_read_from_its_flags(flags: str, environment: dict[str, str]) -> None:
    words = ["java", *flags.split(), "-XX:+PrintFlagsFinal", "-version"]
    match = _JAVA_HEAP.search(said(words, environment))

    expected = read(words, environment)
    if expected is None:
        assert match is None, "it does not start"
    else:
        assert match is not None
        assert 0 <= int(match[1]) - expected <= ALIGNED_BYTES


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here: apt-get install nodejs")
@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ("--max-old-space-size=300", "--max-old-space-size=500"),
        ("--max_old_space_size=300 --max-old-space-size=400", ""),
        ("-max-old-space-size=300", ""),
        ("", '--title="a b" "--max-old-space-size=500"'),
        ("--max-old-space-size=500m", ""),
        ("--max-old-space-size", ""),
    ],
)
def test_node_takes_the_heap_that_is_read_from_its_flags(flags: str, options: str) -> None:
    words = ["node", *flags.split(), "-e", _NODE_HEAP]
    heap = said(words, {"NODE_OPTIONS": options}).strip()

    expected = read(words, {"NODE_OPTIONS": options})
    if expected is None:
        assert not heap.isdigit(), "it does not start"
    else:
        assert 0 <= int(heap) - expected <= NODE_YOUNG_MIB * MIB


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="no go here")
def test_go_takes_the_limit_that_is_read_from_its_environment(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text(
        'package main\nimport "runtime/debug"\nfunc main() { print(debug.SetMemoryLimit(-1)) }\n'
    )
    build = ["go", "build", "-o", str(tmp_path / "limit"), str(tmp_path / "main.go")]
    subprocess.run(build, env=os.environ | {"GOFLAGS": "", "CGO_ENABLED": "0"}, check=True, capture_output=True)
    for text in ("900MiB", "1GiB", "1024", "1024B", "1KiB", "1TiB"):
        assert int(said([str(tmp_path / "limit")], {"GOMEMLIMIT": text})) == read(["/limit"], {"GOMEMLIMIT": text})
    for text in ("1kib", "1MB", "1M", "OFF", " 900MiB", "-1", "1.5GiB", "0x100", "9223372036854775808"):
        assert "malformed GOMEMLIMIT" in said([str(tmp_path / "limit")], {"GOMEMLIMIT": text})
        assert read(["/limit"], {"GOMEMLIMIT": text}) is None
