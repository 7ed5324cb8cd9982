"""A bounded run of the fuzz target on the seeds; longer ones by hand, see native/fuzz/fuzz_parsers.c."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.native.compiling import NATIVE, SANITIZED, SEEDS, compile_c, require, run

RUNS = 200_000


@pytest.fixture
def fuzzer(tmp_path: Path) -> Path:
    """The target, built with libFuzzer; skipped where clang has none."""
    runtimes = Path(run([require("clang"), "-print-resource-dir"]).strip())
    if not list(runtimes.glob("lib/**/*fuzzer*")):
        pytest.skip("clang has no libFuzzer (Debian: libclang-rt-14-dev)")
    flags = [*SANITIZED, "-fsanitize=fuzzer"]
    return compile_c("clang", NATIVE / "fuzz" / "fuzz_parsers.c", tmp_path / "fuzz_parsers", flags)


def test_parsers_survive_any_bytes(fuzzer: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for seed in SEEDS:
        shutil.copy(seed, corpus / f"{seed.parent.name}-{seed.name}")
    limits = [f"-runs={RUNS}", "-max_total_time=20", "-max_len=4096", "-seed=1"]
    said = run([str(fuzzer), *limits, f"-artifact_prefix={tmp_path}/", str(corpus)])
    done = re.search(r"Done (\d+) runs", said)
    assert done is not None, said
    assert int(done[1]) > 1000  # a slow machine may reach the time first
