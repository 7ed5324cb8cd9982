"""The composition root of the agent's process: what watches, and the thread ``serving`` that answers for it.

Node. Order of start: watch, then serve; the reverse at the end. A scrape or a ``top`` never delays a sample.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from agent.core.recommender.unit_names import NoSuchUnit, chosen_by
from agent.core.resize.why import whys_of
from agent.node.assembly import Watch
from agent.node.files.documents import RECOMMENDATIONS, SNAPSHOT, WHYS
from agent.node.history.learner import is_sized
from agent.node.sockets.control import ControlEndpoint, ControlError, Unable, Verb, open_control_listener
from agent.node.sockets.http import Heartbeat, HttpEndpoint, HttpSources, open_listener
from agent.node.sockets.loop import Endpoint, ListeningLoop
from agent.settings import Settings
from agent.settings.sections import default_socket
from agent.version import installed_version

log = logging.getLogger(__name__)

OLDEST_AT_SECONDS: Final = 24 * 3600.0
"""Minute rows reach back this far."""
LONGEST_TRAIL: Final = 7 * 24 * 3600.0
"""The history reaches back this far."""


ACTING_VERBS: Final = ("plan", "events", "pause", "resume", "pin", "unpin", "holds", "restore", "cluster")
"""What only an agent with an API server answers to."""


def _has_no_api(arguments: Mapping[str, object]) -> Mapping[str, object]:
    raise Unable(
        "this agent neither plans nor acts: it has no API server to ask; "
        "start plimsoll agent in a pod, or with --node NAME --kubeconfig FILE"
    )


class Agent:
    """Everything of the node's process: a context manager that serves between enter and exit."""

    def __init__(
        self,
        settings: Settings,
        *,
        source: str,  # What answers say of where they come from
        acts: bool = False,  # Ask the API server where there is one, plan, and resize what is enforced
    ) -> None:
        """Build and bind; nothing runs yet.

        Raises:
            CredentialsError: There is no way to the API server as the settings name it.
            ServingError: The address or port cannot be had.
            ControlError: The socket's path is taken, or may not be used.
            MachineError, DiscoveryError, RingError, PodsFileError: As ``Watch`` says.
        """
        with ExitStack() as self._stack:
            self.watch = Watch(settings, source=source, acts=acts)
            self._stack.callback(self.watch.stop)
            self._http = HttpEndpoint(
                open_listener(settings.serving.address, settings.serving.port),
                HttpSources(
                    page=self.watch.gauges.page,
                    heartbeat=self._heartbeat,
                    ready=self._ready,
                    scrape_rejected=self.watch.metrics.count_rejected_scrape,
                ),
            )
            self._stack.callback(self._http.close)
            endpoints: list[Endpoint] = [self._http]
            if settings.serving.socket is not None:
                path = settings.serving.socket
                is_usual = path == default_socket(os.environ, uid=os.geteuid())
                control = ControlEndpoint(open_control_listener(path, makes_parents=is_usual), self._verbs())
                self._stack.callback(control.close)
                endpoints.append(control)
            self._serving = ListeningLoop(endpoints)
            self._stack = self._stack.pop_all()
        self._settings = settings

    @property
    def metrics_url(self) -> str:
        """Where Prometheus finds this agent."""
        return f"{self._http.url}/metrics"

    def __enter__(self) -> Self:
        self.watch.heap.give_back_code()  # before any thread starts
        with ExitStack() as undone:
            undone.callback(self._stack.close)
            self.watch.start()
            self._serving.start()
            undone.pop_all()
        self._stack.callback(self._serving.close)
        # What is loaded by now stays for good: the collector need not walk it again and again.
        gc.collect()
        gc.freeze()
        self.watch.heap.give_back()
        settings = self._settings
        log.info(
            "serving",
            extra={
                "version": installed_version(),
                "metrics": self.metrics_url,
                "socket": None if settings.serving.socket is None else str(settings.serving.socket),
                "settings": settings.to_dict(),
            },
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        log.info("stopped")

    def _heartbeat(self) -> Heartbeat:
        beat = self.watch.sampling.loop.heartbeat
        newest_ns = beat.last_sweep_monotonic_ns
        return Heartbeat(
            age_seconds=None if newest_ns is None else (time.monotonic_ns() - newest_ns) / 1e9,
            interval_seconds=beat.interval_seconds,
        )

    def _ready(self) -> tuple[bool, str]:
        if self.watch.observer.has_full_rate_window():
            return True, "the first rate window is full"
        seconds = self._settings.windows.rate_window_seconds
        return False, f"the sampler has not yet run for a whole rate window ({seconds:g} s)"

    # -- verbs of the control socket -------------------------------------------------------------------------------

    def _verbs(self) -> dict[str, Verb]:
        verbs: dict[str, Verb] = {
            "snapshot": self._snapshot,
            "recommend": self._recommend,
            "why": self._why,
            "ping": self._ping,
        }
        acting = self.watch.acting
        if acting is None:
            return {**verbs, **dict.fromkeys(ACTING_VERBS, _has_no_api)}
        return {**verbs, **acting.answers.verbs(self.watch.sampling.machine.name)}

    def _ping(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        if arguments:
            raise ControlError(f"ping takes no arguments, not {', '.join(arguments)}")
        # With the settings, a command may try another policy on the agent's state just as the agent would.
        return {
            "version": installed_version(),
            "metrics": self.metrics_url,
            "settings": self._settings.to_dict(),
            "directory": str(Path.cwd()),
        }

    def _snapshot(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        unknown = set(arguments) - {"at_age_seconds"}
        if unknown:
            raise ControlError(f"snapshot: unknown argument {min(unknown)}; allowed: at_age_seconds")
        age = arguments.get("at_age_seconds", 0.0)
        if isinstance(age, bool) or not isinstance(age, (int, float)) or not 0 <= age <= OLDEST_AT_SECONDS:
            raise ControlError(f"snapshot: at_age_seconds is {age!r}; allowed: 0 to {OLDEST_AT_SECONDS:g}")
        return SNAPSHOT.to_json(self.watch.snapshot(float(age)))

    def _recommend(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        if arguments:
            raise ControlError(f"recommend takes no arguments, not {', '.join(arguments)}")
        watch = self.watch
        statuses = watch.observer.statuses(watch.sampling.units.all())
        return RECOMMENDATIONS.to_json(watch.decider.listing(statuses, watch.notes.sentences()))

    def _why(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        unknown = set(arguments) - {"name", "trail_seconds"}
        if unknown:
            raise ControlError(f"why: unknown argument {min(unknown)}; allowed: name, trail_seconds")
        name, seconds = arguments.get("name"), arguments.get("trail_seconds", 0.0)
        if not isinstance(name, str):
            raise ControlError(f"why: name is {name!r}; allowed: a pod, pod/container, namespace/pod[/container]")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= LONGEST_TRAIL:
            raise ControlError(f"why: trail_seconds is {seconds!r}; allowed: 0 to {LONGEST_TRAIL:g}")
        watch = self.watch
        units = [unit for unit in watch.sampling.units.all() if is_sized(unit.identity)]
        try:
            identities = chosen_by(
                name,
                (unit.identity for unit in units),
                workload_of=lambda identity: watch.learner.place_of(identity).belonging.workload,
            )
        except NoSuchUnit as error:
            raise ControlError(f"why: {error}") from error
        chosen = {identity.cgroup_path for identity in identities}
        statuses = watch.observer.statuses(unit for unit in units if unit.identity.cgroup_path in chosen)
        pods = {identity.pod_uid for identity in identities if identity.pod_uid is not None}
        beside = (unit for unit in units if unit.identity.pod_uid in pods and unit.identity.cgroup_path not in chosen)
        explanations = watch.decider.explain(
            statuses,
            beside=watch.observer.statuses(beside),
            trail_seconds=float(seconds),
            minutes_of=watch.observer.minutes_of,
            notes=watch.notes.sentences(),
        )
        if watch.acting is not None:
            answers = watch.acting.answers
            return WHYS.to_json(whys_of(explanations, answers.acted))
        return WHYS.to_json(whys_of(explanations))
