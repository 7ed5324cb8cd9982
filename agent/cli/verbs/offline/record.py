"""``plimsoll record``: writes what a node measures into a compact file, for ``replay`` and ``simulate``."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.client.sizing_sources import SizingError, settings_of_agent
from agent.cli.options.row_options import add_filter_options, filter_text
from agent.cli.options.settings_options import CGROUP_OPTIONS, SAMPLING_OPTIONS, add_options, fail, settings_from
from agent.cli.options.shutdown import Ending, Stop
from agent.cli.text.output_files import OutputError, check_output
from agent.cli.words.moments import ALLOWED_SPANS, span_argument

if TYPE_CHECKING:
    from agent.node.offline.recorder import Recorder
    from agent.node.offline.recorder_sources import MeasuredNode, StateDirectory
    from agent.settings import Settings

_POLL_SECONDS: Final = 5.0
"""The rings hold eleven minutes; a slot that was freed may be given away sooner."""
_SILENT_SECONDS: Final = 10.0
_DRAW_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 30 * 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        required=True,
        help="the file to write; its name should end in .plimsoll; an existing file is replaced at the end",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        type=_span,
        help=f"record for so long, for instance {ALLOWED_SPANS}; Ctrl-C ends it sooner (default: what the agent holds "
        "now: eleven minutes of readings, a day of minutes, the history of seven days)",
    )
    parser.add_argument(
        "--self", action="store_true", dest="samples_itself", help="sample in this process even if an agent runs"
    )
    add_filter_options(parser)
    add_options(parser, CGROUP_OPTIONS, SAMPLING_OPTIONS)
    parser.epilog = "Exit code: 0 written, 1 there was nothing to record, 2 bad input, 3 it could not be written."


def _span(text: str) -> float:
    seconds = span_argument(text)
    if seconds > _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is too long; allowed: up to 30d")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    """Record."""
    from agent.cli.options.unit_filter import FilterError, parse_filter

    settings = settings_from(arguments)
    try:
        parse_filter(filter_text(arguments))
    except FilterError as error:
        fail(f"record: {error}")
    if arguments.samples_itself and arguments.seconds is None:
        fail("record: --self starts sampling now and has nothing to record yet; allowed: with --for TIME")
    try:
        check_output(arguments.output)
    except OutputError as error:
        fail(f"record: -o {error}")
    if not arguments.samples_itself and getattr(arguments, "setting state.directory", None) is None:
        try:
            settings = settings_of_agent(arguments, settings) or settings
        except SizingError as error:
            print(f"plimsoll record: {error}", file=sys.stderr)
            return 1
    with _measured(arguments, settings) as measured:
        return _record(measured, arguments, settings)


@contextlib.contextmanager
def _measured(arguments: argparse.Namespace, settings: Settings) -> Iterator[MeasuredNode]:
    """Open the state of the agent, or sample here where there is none."""
    from agent.node.offline.recorder_sources import StateDirectory
    from agent.sensing.state_file import RingError

    directory = settings.state.directory
    why_not = "the state is kept in memory only (state.directory none)"
    if directory is not None and not arguments.samples_itself:
        try:
            silent_seconds = max(_SILENT_SECONDS, 3 * settings.sampling.interval_seconds)
            state = StateDirectory(directory, rings=settings.state.directory_of_rings, silent_seconds=silent_seconds)
        except RingError as error:
            why_not = str(error)
        else:
            with contextlib.closing(state):
                if state.source == "agent" or arguments.seconds is None:
                    _tell_age(state)
                    yield state
                    return
            why_not = f"no agent writes to {directory}"
    if arguments.seconds is None:
        fail(f"record: {why_not}; allowed: the state directory of an agent (--state-dir), or --for TIME to sample here")
    if not arguments.samples_itself:
        print(f"plimsoll record: {why_not}; sampling here", file=sys.stderr)
    with _own_sampling(settings) as own:
        yield own


def _tell_age(state: StateDirectory) -> None:
    if state.source != "agent":
        age = state.age_seconds()
        when = "of an earlier boot" if age is None else f"of {age / 60:.0f} min ago"
        print(f"plimsoll record: no agent is writing here: this is the state {when}", file=sys.stderr)


@contextlib.contextmanager
def _own_sampling(settings: Settings) -> Iterator[MeasuredNode]:
    from agent.cli.options.startup import started
    from agent.node.assembly import Watch
    from agent.node.offline.recorder_sources import OwnSampling

    in_memory = replace(settings, state=replace(settings.state, directory=None))
    with started(lambda: Watch(in_memory, source="self")) as watch:
        yield OwnSampling(watch)


def _record(measured: MeasuredNode, arguments: argparse.Namespace, settings: Settings) -> int:
    from agent.cli.options.unit_filter import parse_filter
    from agent.kube.objects.pods_file import PodsFileError
    from agent.node.history.file import HistoryError
    from agent.node.offline.recorder import NothingToRecord, RecordedMachine, Recorder
    from agent.node.offline.recording_format import RecordingError
    from agent.node.offline.recording_writer import RecordingWriter
    from agent.node.sampling.pods_file import NoPods, PodsFile
    from agent.sensing.machine import Machine, node_name
    from agent.sensing.state_file import RingError

    try:
        pods = PodsFile(settings.pods_file) if settings.pods_file else NoPods()
        machine = Machine(settings.node_name or node_name())
        with RecordingWriter(arguments.output) as writer, Ending(signal.SIGINT, signal.SIGTERM) as stop:
            recorder = Recorder(
                writer=writer,
                measured=measured,
                settings=settings,
                pods=pods,
                holds=parse_filter(filter_text(arguments)),
                machine=RecordedMachine(name=machine.name, cpus=machine.cpus),
            )
            if arguments.seconds is not None:
                _follow(recorder, arguments, stop)
            size = recorder.finish()
    except (PodsFileError, RingError, HistoryError) as error:
        fail(f"record: {error}")
    except NothingToRecord as error:
        print(f"plimsoll record: {error}", file=sys.stderr)
        return 1
    except RecordingError as error:
        print(f"plimsoll record: {error}", file=sys.stderr)
        return 3
    print(_summary(recorder, arguments.output, size))
    return 0


def _follow(recorder: Recorder, arguments: argparse.Namespace, stop: Stop) -> None:
    from agent.cli.text.progress import progress
    from agent.cli.text.spans import harmless

    begun = polled = time.monotonic()
    with progress(sys.stderr, f"recording to {harmless(arguments.output.name)}, Ctrl-C ends it") as bar:
        while (left := arguments.seconds - (time.monotonic() - begun)) > 0:
            bar.show(1.0 - left / arguments.seconds)
            if stop.wait(min(left, _DRAW_SECONDS)):
                return
            if time.monotonic() - polled >= _POLL_SECONDS:
                polled = time.monotonic()
                recorder.poll()


def _summary(recorder: Recorder, path: Path, size_bytes: int) -> str:
    from agent.cli.text.figures import age_text, bytes_text
    from agent.cli.text.spans import harmless

    span = age_text((recorder.ended_ns - (recorder.begun_ns or 0)) / 1e9)
    return (
        f"{harmless(str(path))}: {recorder.units} units, {recorder.samples:,} samples over {span}, "
        f"{bytes_text(size_bytes)}"
    )
