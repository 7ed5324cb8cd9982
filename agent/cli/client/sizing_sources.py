"""Where ``recommend`` and ``why`` get their answers: from the running agent, from its state files or a recording.

Face. The agent answers for its own policy. Another policy, or other options of it, are tried out here, so that asking
costs the agent nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from agent.cli.options.settings_options import Option, fail, overrides_from, settings_from

if TYPE_CHECKING:
    from agent.core.recommender.recommendation import Recommendations
    from agent.core.resize.why import Whys
    from agent.node.offline.replay import ReplayedNode
    from agent.node.offline.state_directory import RestingNode
    from agent.settings import Settings

TRIED_SECTIONS: Final = ("recommend", "bounds", "cruise", "vpa", "crane", "sizing", "windows", "profile")
"""Settings that make the answer another one than the agent's."""
STATE_OPTIONS: Final = (
    Option(
        "--state-dir", "state.directory", "DIR", "the agent's state directory, read for what the agent is not asked"
    ),
    Option("--pods", "podsFile", "FILE", "a PodList as kubectl get pods -o json prints it: names, requests, limits"),
    Option("--socket", "serving.socket", "PATH", "unix socket of the agent"),
)


class SizingError(Exception):
    """No answer came; one line."""


class UnknownName(SizingError):  # noqa: N818
    """Nothing goes by the name asked for, or too much; tells what does."""


class SizingSource(Protocol):
    """Something that recommends."""

    def recommendations(self) -> Recommendations:
        """Recommend for all units, or raise SizingError."""

    def explanations(self, name: str, trail_seconds: float) -> Whys:
        """Return everything behind what is recommended for a name; UnknownName = nothing has it, or several pods."""


class AgentSizing:
    """The running agent, one request each."""

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path

    def recommendations(self) -> Recommendations:
        """Ask the agent."""
        from agent.node.files.documents import RECOMMENDATIONS, DocumentFormatError

        try:
            return RECOMMENDATIONS.from_json(self._ask("recommend", {}))
        except DocumentFormatError as error:
            raise SizingError(f"agent at {self._socket_path}: {error}") from error

    def explanations(self, name: str, trail_seconds: float) -> Whys:
        """Ask the agent."""
        from agent.node.files.documents import WHYS, DocumentFormatError
        from agent.node.sockets.control import Refused

        try:
            return WHYS.from_json(self._ask("why", {"name": name, "trail_seconds": trail_seconds}))
        except SizingError as error:
            if isinstance(error.__cause__, Refused):
                raise UnknownName(error.__cause__.reason) from error
            raise
        except DocumentFormatError as error:
            raise SizingError(f"agent at {self._socket_path}: {error}") from error

    def _ask(self, verb: str, arguments: dict[str, object]) -> dict[str, object]:
        from agent.node.sockets.control import ControlError, request

        try:
            return request(self._socket_path, verb, arguments)
        except ControlError as error:
            raise SizingError(str(error)) from error


class _NodeSizing:
    """A node that is read here, with whichever policy the settings name."""

    _node: RestingNode | ReplayedNode

    def recommendations(self) -> Recommendations:
        """Compute them."""
        return self._node.recommendations()

    def explanations(self, name: str, trail_seconds: float) -> Whys:
        """Compute them."""
        from agent.core.recommender.unit_names import NoSuchUnit
        from agent.core.resize.why import whys_of

        try:
            return whys_of(self._node.explanations(name, trail_seconds))
        except NoSuchUnit as error:
            raise UnknownName(str(error)) from error

    def close(self) -> None:
        """Close files and release memory."""
        self._node.close()


class RecordingSizing(_NodeSizing):
    """A recording, as of a moment of it."""

    def __init__(self, path: Path, arguments: argparse.Namespace) -> None:
        from agent.cli.words.moments import TimeWordError, parse_age_seconds
        from agent.node.offline.recording import Recording
        from agent.node.offline.recording_format import RecordingError
        from agent.node.offline.replay import ReplayedNode, recorded_settings, utc

        given = _given(arguments) & {"state.directory", "podsFile", "serving.socket"}
        if given:
            fail(f"replay: {min(given)} is for an agent only; allowed: policy, its options, bounds and windows")
        try:
            with Recording(path) as recording:
                ended = recording.manifest.ended_unix_seconds
                at = None
                if arguments.at is not None:
                    try:
                        at = ended - parse_age_seconds(arguments.at, now_unix_seconds=ended)
                    except TimeWordError as error:
                        fail(f"replay: --at {error}; the newest reading is of {utc(ended)}")
                try:
                    recorded = recorded_settings(recording.manifest)
                except ValueError as error:
                    fail(f"replay: recording {path}: damaged: {error}")
                settings = settings_from(arguments, **recorded)
                self._node = ReplayedNode(recording, settings, at_unix_seconds=at)
        except RecordingError as error:
            fail(f"replay: {error}")


class StateSizing(_NodeSizing):
    """The state files."""

    def __init__(self, settings: Settings, verb: str) -> None:
        from agent.kube.objects.pods_file import PodsFileError
        from agent.node.offline.state_directory import RestingNode, StateError

        try:
            self._node = RestingNode(settings)
        except PodsFileError as error:
            fail(f"{verb}: {error}")
        except StateError as error:
            raise SizingError(str(error)) from error
        self._verb = verb

    def recommendations(self) -> Recommendations:
        """Compute them; where pods have no names, that is said on stderr."""
        answer = super().recommendations()
        if any(item.identity.pod_uid is not None and item.identity.pod is None for item in answer.items):
            print(
                f"plimsoll {self._verb}: the state files have no names and no requests of pods, which vpa and crane "
                "need; allowed: --pods FILE (kubectl get pods -A -o json)",
                file=sys.stderr,
            )
        return answer


@contextmanager
def sizing_source(arguments: argparse.Namespace, verb: str) -> Iterator[SizingSource]:
    """Open what answers, a recording where ``replay`` named one; say on stderr when that is not the agent."""
    recording: Path | None = getattr(arguments, "recording", None)
    if recording is not None:
        with closing(RecordingSizing(recording, arguments)) as replayed:
            yield replayed
        return
    settings = settings_from(arguments)
    given = _given(arguments)
    tried = any(key.partition(".")[0] in TRIED_SECTIONS for key in given) or "podsFile" in given
    socket_path = settings.serving.socket
    if "state.directory" not in given and socket_path is not None:
        answer, why_not = _asked(socket_path)
        if answer is None:
            if "serving.socket" in given:
                raise SizingError(why_not)
            print(f"plimsoll {verb}: no agent at {socket_path}; reading its state", file=sys.stderr)
        elif not tried or _is_its_own(arguments, answer, socket_path, given):
            yield AgentSizing(socket_path)
            return
        else:
            settings = _own_settings(arguments, answer, socket_path)
            if settings.state.directory is None:
                raise SizingError(
                    f"the agent at {socket_path} keeps its state in memory only (as a demo does): nothing else can be "
                    "tried on it; allowed: an agent with a state directory, or plimsoll record and replay"
                )
    source = StateSizing(settings, verb)
    try:
        yield source
    finally:
        source.close()


def settings_of_agent(arguments: argparse.Namespace, settings: Settings) -> Settings | None:
    """Return the settings of the agent that answers, with what the command line says otherwise; None = none answers.

    Raises:
        SizingError: An agent is there and does not tell.
    """
    if settings.serving.socket is None:
        return None
    answer, _ = _asked(settings.serving.socket)
    return None if answer is None else _own_settings(arguments, answer, settings.serving.socket)


def _asked(socket_path: Path) -> tuple[Mapping[str, object] | None, str]:
    """Ask an agent who it is: its answer, or None and why there is none."""
    from agent.node.sockets.control import ControlError, NoAgent, request

    try:
        return request(socket_path, "ping", {}), ""
    except NoAgent as error:
        return None, str(error)
    except ControlError as error:
        raise SizingError(str(error)) from error


def _own_settings(arguments: argparse.Namespace, answer: Mapping[str, object], socket_path: Path) -> Settings:
    settings, directory = answer.get("settings"), answer.get("directory")
    if not isinstance(settings, dict) or not isinstance(directory, str):
        raise SizingError(f"agent at {socket_path}: of another release; allowed: the plimsoll command of that release")
    own: dict[str, object] = {}
    for name, value in settings.items():
        parts = {f"{name}__{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
        own.update({key: inner for key, inner in parts.items() if inner is not None})
    if "podsFile" in own:
        own["podsFile"] = str(Path(directory, str(own["podsFile"])))
    if overrides_from(arguments).get("profile") not in (None, own.get("profile")):
        own = _without_profile(own)  # what the agent's profile set is no setting of its own: another is tried
    merged = settings_from(arguments, **own)
    if "state__directory" in own:
        return merged
    return replace(merged, state=replace(merged.state, directory=None))


def _without_profile(own: Mapping[str, object]) -> dict[str, object]:
    """Return an agent's settings without those that are as its profile, or the default, has them."""
    from agent.core.orders.profile import PROFILE_VALUES, Profile
    from agent.settings import Settings

    usual = Settings().to_dict()
    of_own = PROFILE_VALUES[Profile(str(own.get("profile", Profile.DEFAULT)))]
    settings = dict(own)
    for key in {key for values in PROFILE_VALUES.values() for key in values}:
        section, _, name = key.partition(".")
        values = usual.get(section)
        if isinstance(values, dict) and own.get(f"{section}__{name}") == of_own.get(key, values[name]):
            settings.pop(f"{section}__{name}", None)
    return settings


def _is_its_own(
    arguments: argparse.Namespace, answer: Mapping[str, object], socket_path: Path, given: Set[str]
) -> bool:
    """Return whether what is tried is what the agent does anyway: it knows the pods' names, its state files do not."""
    if "podsFile" in given:
        return False
    plain = argparse.Namespace(
        **{name: value for name, value in vars(arguments).items() if not name.startswith("setting ")}
    )
    plain.assignments = []
    wanted, own = (_own_settings(words, answer, socket_path) for words in (arguments, plain))
    return all(getattr(wanted, name) == getattr(own, name) for name in TRIED_SECTIONS)


def _given(arguments: argparse.Namespace) -> set[str]:
    named = {
        name.removeprefix("setting ")
        for name, value in vars(arguments).items()
        if name.startswith("setting ") and value is not None
    }
    return named | {str(text).partition("=")[0] for text in arguments.assignments}
