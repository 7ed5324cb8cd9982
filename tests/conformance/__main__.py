"""The command: ``python -m tests.conformance [--functions a,b] [--entry-points] FILE.json...``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.conformance.entry_points import known_reason
from tests.conformance.runner import Outcome, VectorFile, VectorFileError, case_entry_points, read_vectors, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run vector files; print each failing case, then the count.

    Returns:
        The exit code: 0 all passed or skipped, 1 some failed, 2 a file or a name that cannot be run.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json", help="vectors, as in shared/vectors")
    parser.add_argument("--functions", metavar="A,B", help="run only the cases of these functions")
    parser.add_argument(
        "--entry-points", action="store_true", help="run nothing, print which functions of agent/ each goes through"
    )
    options = parser.parse_args(arguments)
    wanted = {name.strip() for name in options.functions.split(",") if name.strip()} if options.functions else None
    try:
        files = [read_vectors(path) for path in options.files]
    except VectorFileError as error:
        print(error, file=sys.stderr)
        return 2
    known = set().union(*(vectors.functions for vectors in files))
    if wanted is not None and not wanted <= known:
        unknown = ", ".join(sorted(wanted - known))
        print(f"--functions: {unknown}: in none of these files ({', '.join(sorted(known))})", file=sys.stderr)
        return 2
    if options.entry_points:
        for vectors in files:
            _print_entry_points(vectors, wanted)
        return 0
    counts: Counter[Outcome] = Counter()
    for vectors in files:
        for result in run(vectors, wanted):
            counts[result.outcome] += 1
            if result.outcome is Outcome.FAILED:
                print(f"FAIL {result.report}")
    print(f"{counts[Outcome.PASSED]} passed, {counts[Outcome.FAILED]} failed, {counts[Outcome.SKIPPED]} skipped")
    return 1 if counts[Outcome.FAILED] else 0


def _print_entry_points(vectors: VectorFile, wanted: Collection[str] | None) -> None:
    first = {case["input"]["fn"]: case for case in reversed(vectors.cases)}
    for function, case in sorted(first.items()):
        if wanted is None or function in wanted:
            for place in sorted(case_entry_points(case, vectors.suite)):
                reason = known_reason(place)
                print(f"{function}: {place}" + ("" if reason is None else f" (no verb reaches it: {reason})"))


if __name__ == "__main__":
    sys.exit(main())
