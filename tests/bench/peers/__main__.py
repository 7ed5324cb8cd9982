"""``make bench-peers``: what the agent costs beside others that read the same cgroups, in one boot.

``python -m tests.bench.peers [--on guest|host] [--count N...]``. In the guest (the default) time is the count of
instructions, so that the host's own load changes nothing; on the host each figure is as good as the machine is quiet,
and says so. cAdvisor and below are compared where a program of theirs is given by path. Writes a page and build/
bench-peers.json, also of a run that is interrupted; ``--put`` puts the page into agent/README.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.bench.machine_load import LoadMeter, MachineLoad
from tests.bench.peers.comparison import Measured, Terms, compare
from tests.bench.peers.table import Run, page
from tests.guest.kernel import GuestError, ensure
from tests.guest.machine import EXCHANGE, REPOSITORY, booted, python_command
from tests.kernel.cgroups import why_not

OUT: Final = REPOSITORY / "build" / "bench-peers"
README: Final = REPOSITORY / "agent" / "README.md"
BEGIN, END = "<!-- bench-peers: written by make bench-peers -->", "<!-- bench-peers: end -->"
GUEST_TIMEOUT_SECONDS: Final = 4 * 3600.0
LINES, TERMS, PREADS, PAGE = "measured.jsonl", "terms.json", "preads", "page.md"
MOST_CONTAINERS: Final = 2000
"""As many as an agent is told to watch at most (`sampling.maxContainers`)."""


def main() -> int:
    """Measure each count, then write the page of what there is."""
    arguments = parse()
    reason = why_not() if arguments.on == "host" else None
    if reason is not None:
        print(f"peers: {reason}", file=sys.stderr)
        return 2
    out: Path = arguments.out
    if out != OUT and out.exists() and not (out / PAGE).is_file():
        print(
            f"peers: {out} is there and holds no page of this bench; allowed: one that does, or none", file=sys.stderr
        )
        return 2
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    runs: list[Run] = []
    try:
        for count in arguments.count:
            with _kept(runs, arguments.out / str(count), terms_of(arguments, count), arguments.on) as run:
                (in_guest if arguments.on == "guest" else on_host)(*run)
    except (GuestError, RuntimeError) as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    finally:
        write(runs, arguments.out, is_put=arguments.put)
    return 0


def containers(text: str) -> int:
    """Read how many containers: at most as many as an agent watches."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CONTAINERS:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {MOST_CONTAINERS}")
    return int(text)


def seconds(text: str) -> float:
    """Read how long something takes."""
    try:
        duration_seconds = float(text)
    except ValueError:
        duration_seconds = math.nan
    if not 0.0 < duration_seconds <= 86_400.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0, to 86400")
    return duration_seconds


def program(text: str) -> Path:
    """Read the path of a program of the user's."""
    path = Path(text)
    if not path.is_file() or not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"{text!r} is no file that can be run")
    return path


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--on", choices=("guest", "host"), default="guest", help="where (default: %(default)s)")
    parser.add_argument("--count", type=containers, nargs="+", default=[100, 250], metavar="N", help="containers")
    parser.add_argument("--warm-up", type=seconds, default=60.0, metavar="SECONDS", help="default: %(default)s")
    parser.add_argument("--window", type=seconds, default=180.0, metavar="SECONDS", help="default: %(default)s")
    parser.add_argument("--scraped", type=seconds, default=60.0, metavar="SECONDS", help="default: %(default)s")
    parser.add_argument("--cadvisor", type=program, metavar="PATH", help="its program, to be compared too")
    parser.add_argument("--below", type=program, metavar="PATH", help="its program, to be compared too")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="made anew (default: build/bench-peers)")
    parser.add_argument("--put", action="store_true", help="put the page into agent/README.md")
    return parser.parse_args()


def terms_of(arguments: argparse.Namespace, count: int) -> Terms:
    """Return what a run is told."""
    return Terms(
        count=count,
        warm_up_seconds=arguments.warm_up,
        window_seconds=arguments.window,
        scraped_seconds=arguments.scraped,
        preads=str(arguments.out.resolve() / str(count) / PREADS),
        cadvisor=None if arguments.cadvisor is None else str(arguments.cadvisor.resolve()),
        below=None if arguments.below is None else str(arguments.below.resolve()),
    )


@contextmanager
def _kept(runs: list[Run], folder: Path, terms: Terms, where: str) -> Iterator[tuple[Path, Terms]]:
    """Have a folder for a run, and at its end, whatever it is, keep what it measured."""
    folder.mkdir()
    source = REPOSITORY / "tests" / "bench" / "preads.c"
    subprocess.run(["cc", "-O2", "-std=c11", "-o", terms.preads, str(source)], check=True)
    meter, of_versions = LoadMeter(), versions(terms)
    try:
        yield folder, terms
    finally:
        lines = folder / ("exchange/" if where == "guest" else "") / LINES
        measured = [Measured(**json.loads(line)) for line in lines.read_text().splitlines()] if lines.exists() else []
        if measured:
            here = machine(where)
            runs.append(
                Run(
                    terms=terms,
                    where=here,
                    versions=of_versions,
                    host_load=host_load(meter.load(), where),
                    measured=measured,
                )
            )


def in_guest(folder: Path, terms: Terms) -> None:
    """Boot the guest, whose clock counts instructions, and measure there."""
    (folder / TERMS).write_text(json.dumps(asdict(terms)))
    module = "tests.bench.peers.comparison"
    command = python_command("-m", module, str((folder / TERMS).resolve()), str(EXCHANGE / LINES))
    with booted(
        ensure(print), command, timeout_seconds=GUEST_TIMEOUT_SECONDS, is_counted=True, exchange=folder / "exchange"
    ) as run:
        print(run.output, end="")
        if run.exit_code != 0:
            raise RuntimeError(f"the guest's command ended with {run.exit_code}")


def on_host(folder: Path, terms: Terms) -> None:
    """Measure on this machine's cgroups."""
    compare(terms, folder / LINES)


def machine(where: str) -> str:
    """Return the conditions of the place."""
    if where == "guest":
        return (
            f"guest with kernel {ensure().release}, one emulated CPU whose clock counts instructions (4 ns each), "
            "all controllers"
        )
    return f"{platform.node()}, kernel {platform.release()}"


def host_load(load: MachineLoad, where: str) -> str:
    """Return what others did on the host meanwhile; a clock that counts instructions does not feel it."""
    return str(load) if where == "host" else f"{load.taken()} meanwhile, which the guest's clock does not feel"


def versions(terms: Terms) -> str:
    """Return the versions of what was compared."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.strip()
    version_texts = [f"Plimsoll {commit or 'without a commit'}", f"Python {platform.python_version()}"]
    for program in (terms.cadvisor, terms.below):
        if program is not None:
            asked = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
            version_texts.append(" ".join((asked.stdout or asked.stderr).split()) or program)
    return ", ".join([*version_texts, datetime.now(UTC).date().isoformat()])


def write(runs: list[Run], out: Path, *, is_put: bool) -> None:
    """Write page and JSON of what was measured."""
    if not runs:
        return
    text = page(runs)
    (out / PAGE).write_text(text)
    (out.parent / f"{out.name}.json").write_text(json.dumps([asdict(run) for run in runs], indent=2) + "\n")
    print(f"\n{text}")
    if is_put:
        put(text)


def put(text: str) -> None:
    """Put the page between its marks in agent/README.md."""
    before = README.read_text()
    begin, end = before.find(BEGIN), before.find(END)
    if not 0 <= begin < end:
        raise RuntimeError(f"{README}: {BEGIN} and {END} are not there")
    README.write_text(f"{before[:begin]}{BEGIN}\n{text}{before[end:]}")


if __name__ == "__main__":
    sys.exit(main())
