"""The command: ``python -m tests.conformance [--functions a,b] FILE.json...``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.runner import Outcome, VectorFileError, read_vectors, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run vector files; print each failing case, then the count.

    Returns:
        The exit code: 0 all passed or skipped, 1 some failed, 2 a file or a name that cannot be run.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json", help="vectors, as in shared/vectors")
    parser.add_argument("--functions", metavar="A,B", help="run only the cases of these functions")
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
    counts: Counter[Outcome] = Counter()
    for vectors in files:
        for result in run(vectors, wanted):
            counts[result.outcome] += 1
            if result.outcome is Outcome.FAILED:
                print(f"FAIL {result.report}")
    print(f"{counts[Outcome.PASSED]} passed, {counts[Outcome.FAILED]} failed, {counts[Outcome.SKIPPED]} skipped")
    return 1 if counts[Outcome.FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
