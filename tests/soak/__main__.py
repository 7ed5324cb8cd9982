"""``python -m tests.soak`` (``make soak``): a day of 24 hours in one, with all that happens to a node in it.

A real control plane, real cgroups with loads, the real agent and the real webhook; the kubelets are played. What was
planned, measured and found goes to build/soak (JSON Lines, a page, the logs).
Exit code 0: all holds; 1: something does not; 2: the day could not be played.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from agent.node.files.documents import DECISION
from tests.cluster.binaries import BinaryError, ensure
from tests.cluster.certificates import CertificateError
from tests.cluster.control_plane import control_plane
from tests.cluster.processes import ClusterError
from tests.e2e.steps import Steps
from tests.guest.machine import REPOSITORY
from tests.kernel.cgroups import why_not
from tests.soak import leftovers, memory_hog, verdicts
from tests.soak.agent_lives import AgentLives
from tests.soak.day import APISERVER_ARGUMENTS, CONTROLLERS, Day, as_record, register, stage
from tests.soak.schedule import Event, residents, schedule
from tests.soak.shifted_clock import set_clock
from tests.soak.sources import OLDER, SourcesError, built
from tests.soak.state_disk import state_disk
from tests.soak.webhook_lives import WebhookLives

OUT: Final = REPOSITORY / "build" / "soak"
RECORDS, PAGE, LOGS = "records.jsonl", "page.md", "logs"
PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "helm")
DISK_MIB: Final = 64
"""History, ledger, holds, decisions and the queue of reports; a node's history of 64 rows is 4 MiB."""


class SoakError(Exception):
    """The day cannot be played; one line."""


def main() -> int:
    """Play the day and judge it."""
    arguments = parse()
    reason = why_not()
    if reason is not None:
        print(f"soak: {reason}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        ensure(PROGRAMS, progress=lambda line: say(line) if " found: " not in line else None)
        return run(arguments)
    except (BinaryError, CertificateError, ClusterError, SoakError, SourcesError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("soak: stopped, and everything removed", file=sys.stderr)
        return 2


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=minutes, default=60.0, help="of the run: a day lies on it (default 60)")
    parser.add_argument("--pods", type=count, default=2000, help="that come in all (default 2000)")
    parser.add_argument("--kills", type=count, default=50, help="of the agent (default 50)")
    parser.add_argument("--seed", type=int, default=1, help="another one is another day (default 1)")
    parser.add_argument("--older", default=OLDER, help="commit that runs until it is upgraded (default %(default)s)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for what is found; replaced (default build/soak)")
    return parser.parse_args()


def minutes(text: str) -> float:
    """Read the length of a run."""
    try:
        length_minutes = float(text)
    except ValueError:
        length_minutes = math.nan
    if not 1.0 <= length_minutes <= 1440.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of minutes from 1 to 1440")
    return length_minutes


def count(text: str) -> int:
    """Read how many there are."""
    if not (text.isascii() and text.isdigit() and int(text) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 to 100000")
    return int(text)


def begin(out: Path) -> None:
    """Make the folder of the findings anew; one that holds anything but a soak's is left alone.

    Raises:
        SoakError: It is somebody else's, or cannot be made.
    """
    try:
        if out.is_dir() and not {entry.name for entry in out.iterdir()} <= {RECORDS, PAGE, LOGS}:
            raise SoakError(
                f"soak: --out {out} holds more than a soak's findings; allowed: a new folder or a soak's own"
            )
        if out.is_dir():
            shutil.rmtree(out)
        out.mkdir(parents=True)
    except OSError as error:
        raise SoakError(f"soak: --out {out}: {error.strerror}; allowed: a folder that can be made") from error


def run(arguments: argparse.Namespace) -> int:
    """Bring everything up, play, judge."""
    out: Path = arguments.out
    begin(out)
    seconds = arguments.minutes * 60.0
    events = schedule(seed=arguments.seed, seconds=seconds, pods=arguments.pods, kills=arguments.kills)
    heading = (
        f"make soak: a day in {arguments.minutes:g} minutes, seed {arguments.seed}, "
        f"{max(arguments.pods, len(residents()))} pods, {arguments.kills} kills"
    )
    if memory_hog.why_not() is not None:
        say(str(memory_hog.why_not()))
    for left in leftovers.sweep():
        say(f"removed what a killed run left: {left}")
    folder = leftovers.own_folder()
    try:
        older = built(arguments.older, folder / "older")
        say(f"the control plane starts, in {folder}")
        with (
            control_plane(
                directory=folder / "plane", controllers=CONTROLLERS, apiserver_arguments=APISERVER_ARGUMENTS
            ) as plane,
            stage(plane, folder) as scene,
            state_disk(folder / "state", DISK_MIB) as disk,
        ):
            began = time.monotonic()
            clock = folder / "clock"
            set_clock(clock, 0.0)
            with WebhookLives(plane, folder, scene.webhook_kubeconfig, began=began) as hook:
                hook.hook.process.wait_until(hook.hook.is_ready, "the webhook is ready")
                register(plane, hook.port)
                settings = {**scene.agent_settings, "report.url": f"https://127.0.0.1:{hook.port}"}
                began = time.monotonic()
                agent = AgentLives(
                    folder, state=disk.folder, clock=clock, words=scene.agent_words, settings=settings, began=began
                )
                hook.began = began
                day = Day(
                    plane=plane,
                    tree=scene.tree,
                    folder=folder,
                    disk=disk,
                    agent=agent,
                    hook=hook,
                    clock=clock,
                    sources=(older, REPOSITORY),
                    rings=scene.rings,
                    say=lambda line: say(f"{day.second / seconds * 24.0:5.1f} h  {line}"),
                    began=began,
                )
                try:
                    day.play(events, seconds)
                    say("the day is over")
                    steps = Steps(heading)
                    counts = verdicts.Evening(day=day, stage=scene, events=events, seconds=seconds, steps=steps).run(
                        out / LOGS
                    )
                finally:
                    day.close()
                    agent.end(kill=True)
                write(out, events, day, steps, counts, heading)
    finally:
        keep_logs(folder, out / LOGS)
        shutil.rmtree(folder, ignore_errors=True)
    print()
    for row in steps.rows:
        print(f"{'PASS' if row.outcome == 'ok' else 'FAIL'} {row.title}")
    print(f"\n{json.dumps(counts)}\nrecords, page and logs: {out}", flush=True)
    return 1 if steps.failures() else 0


def write(out: Path, events: Sequence[Event], day: Day, steps: Steps, counts: dict[str, Any], heading: str) -> None:
    """Write records and page."""
    with (out / RECORDS).open("w") as file:
        for event in events:
            file.write(as_record("event", {**dataclasses.asdict(event), "what": event.kind}) + "\n")
        for who, lives in (("agent", day.agent.lives), ("webhook", day.hook.lives)):
            for number, life in enumerate(lives, 1):
                for sample in life:
                    file.write(as_record("sample", {"who": who, "life": number, **dataclasses.asdict(sample)}) + "\n")
        for _, decision in sorted(day.agent.decisions.items()):
            file.write(as_record("decision", DECISION.to_json(decision)) + "\n")
        for row in steps.rows:
            file.write(as_record("verdict", dataclasses.asdict(row)) + "\n")
        file.write(as_record("counts", counts) + "\n")
    (out / PAGE).write_text(verdicts.page(steps, counts, heading) + "\n")


def keep_logs(folder: Path, logs: Path) -> None:
    """Keep what programs wrote, of the parts that are ours and of the API server."""
    logs.mkdir(parents=True, exist_ok=True)
    for file in [*folder.glob("*.log"), *(folder / "plane").glob("*.log")]:
        if file.name != "audit.log" or os.stat(file).st_size < 1 << 28:
            shutil.copyfile(file, logs / file.name)


def say(line: str) -> None:
    """Tell how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
