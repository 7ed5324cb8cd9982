"""The annotations of Plimsoll on pods and namespaces: their names, and how a value of each is read. Core, pure.

A value is read strictly: what is not understood is a fault of that pod, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from agent.core.cluster.pod import Pod
from agent.core.cluster.runtime_profile import LanguageRuntime
from agent.core.numbers.quantity import QuantityError, parse_quantity
from agent.core.numbers.units import INT64_MAX, MIB, NANOS_PER_MILLI, NANOS_PER_UNIT, to_millis, to_units
from agent.core.orders.container_policies import (
    CONTAINER_POLICIES_ALLOWED,
    ContainerPolicies,
    ContainerPoliciesError,
    parse_container_policies,
)
from agent.core.orders.enforce_share import EnforceShare, EnforceShareError, parse_enforce_share
from agent.core.orders.order import Mode, Ranking, RunningJobs
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.startup_boost import (
    STARTUP_BOOST_ALLOWED,
    StartupBoost,
    StartupBoostError,
    parse_startup_boost,
)

PREFIX: Final = "plimsoll.dev/"

MODE: Final = f"{PREFIX}mode"
POLICY: Final = f"{PREFIX}policy"
EVICTION_RANKING: Final = f"{PREFIX}eviction-ranking"
MIN_CPU: Final = f"{PREFIX}min-cpu"
MAX_CPU: Final = f"{PREFIX}max-cpu"
MIN_MEMORY: Final = f"{PREFIX}min-memory"
MAX_MEMORY: Final = f"{PREFIX}max-memory"
ALLOW_RESTART: Final = f"{PREFIX}allow-restart"
GUARANTEED: Final = f"{PREFIX}guaranteed"
CONTAINER_POLICIES: Final = f"{PREFIX}container-policies"
"""How containers are sized one by one, JSON; read by ``container_policies``."""
POD_LIMITS: Final = f"{PREFIX}pod-limits"
"""JSON; read by ``pod_limits``."""
RUNTIME: Final = f"{PREFIX}runtime"
"""The language runtime of its containers, where the spec does not show it; of a pod alone."""
JOBS: Final = f"{PREFIX}jobs"
"""Whether pods that run to an end may grow while they run."""
STARTUP_BOOST: Final = f"{PREFIX}startup-boost"
"""More CPU while a pod starts; read by ``startup_boost``."""
WINDOWS: Final = f"{PREFIX}windows"
"""When a pod may be shrunk, evicted, restarted; read by ``windows``."""
HPA_PRESERVE: Final = f"{PREFIX}hpa-preserve"
"""Written by the webhook on an HPA: its original target, JSON; read by ``preserved_target``."""
SCHEDULE: Final = f"{PREFIX}schedule"
"""On a CapacityBuffer: it is active only then; read by ``schedule``."""
STARTUP_BOOSTED: Final = f"{PREFIX}startup-boosted"
"""Written by the webhook at admission: what was boosted from what, and until when, JSON."""
ENFORCE_SHARE: Final = f"{PREFIX}enforce-share"
"""Of the workload's pods only this share is enforced; read by ``enforce_share``."""
SHARE_TICKET: Final = f"{PREFIX}share-ticket"
"""Written by the webhook at admission: by what the pod is in an enforced share or not, JSON."""
ORIGINAL_RESOURCES: Final = f"{PREFIX}original-resources"
"""Written by the webhook at admission: what the pod came with."""
ADMISSION: Final = f"{PREFIX}admission"
"""Written by the webhook at admission: from what the pod was sized, JSON."""
PLACEHOLDER_SHAPE: Final = f"{PREFIX}placeholder-shape"
"""Written by the webhook onto placeholder pods: what a pod was made like, without the amounts of CPU and memory."""

KNOWN: Final = frozenset(
    {
        MODE,
        POLICY,
        EVICTION_RANKING,
        MIN_CPU,
        MAX_CPU,
        MIN_MEMORY,
        MAX_MEMORY,
        ALLOW_RESTART,
        GUARANTEED,
        CONTAINER_POLICIES,
        POD_LIMITS,
        RUNTIME,
        JOBS,
        STARTUP_BOOST,
        STARTUP_BOOSTED,
        ENFORCE_SHARE,
        SHARE_TICKET,
        WINDOWS,
        ORIGINAL_RESOURCES,
        ADMISSION,
        PLACEHOLDER_SHAPE,
    }
)

_LEAST_MEMORY_BYTES: Final = MIB
"""Below it nothing runs, so a value below it is a slip: ``512``, or ``512m``, which is half a byte."""
_MOST_CPU_NANOS: Final = INT64_MAX * NANOS_PER_MILLI
_MOST_MEMORY_NANOS: Final = INT64_MAX * NANOS_PER_UNIT
"""Kubernetes holds no more; a larger order would be cut to that without a word."""
_LONGEST_QUANTITY: Final = 64
"""No sensible one is longer; an annotation may hold 256 KiB of digits."""
LONGEST_RUNTIMES: Final = 16_384
"""Characters: 250 containers of the longest names take about as many."""
_RUNTIMES: Final = frozenset(LanguageRuntime)
_CPU_ALLOWED: Final = "CPU such as 250m or 1.5"
_MEMORY_ALLOWED: Final = "memory of at least 1Mi such as 256Mi"


class ValueNotAllowed(ValueError):  # noqa: N818  # the reader's answer, as common as a value
    """An annotation's value that is not understood; the message says what is allowed."""


def unknown_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the annotations under Plimsoll's prefix that this version does not know, sorted: slips, or of a newer one.

    They make no pod ``off``: a newer webhook may write some that this agent need not read.
    """
    return tuple(sorted(key for key in keys if key.startswith(PREFIX) and key not in KNOWN))


def mode_from(value: str) -> Mode:
    """Read a mode."""
    return _word(Mode, value)


def policy_from(value: str) -> PolicyName:
    """Read the name of a policy."""
    return _word(PolicyName, value)


def ranking_from(value: str) -> Ranking:
    """Read a ranking."""
    return _word(Ranking, value)


def jobs_from(value: str) -> RunningJobs:
    """Read what may be done with a Job that runs."""
    return _word(RunningJobs, value)


def flag_from(value: str) -> bool:
    """Read ``true`` or ``false``, spelt as YAML writes them."""
    return _word(_Flag, value) is _Flag.TRUE


def least_cpu_from(value: str) -> int:
    """Read a least CPU request, millicores, rounded up; 0 = no bound below."""
    return to_millis(_nanos(value, 0, _CPU_ALLOWED, _MOST_CPU_NANOS))


def most_cpu_from(value: str) -> int:
    """Read a most CPU request, millicores, rounded up; at least 1."""
    return to_millis(_nanos(value, 1, f"{_CPU_ALLOWED}, more than 0", _MOST_CPU_NANOS))


def least_memory_from(value: str) -> int:
    """Read a least memory request, bytes, rounded up; 0 = no bound below, else at least 1 MiB."""
    allowed = f"0, or {_MEMORY_ALLOWED}"
    nanos = _nanos(value, 0, allowed)
    return to_units(_nanos(value, _LEAST_MEMORY_BYTES * NANOS_PER_UNIT, allowed)) if nanos else 0


def most_memory_from(value: str) -> int:
    """Read a most memory request, bytes, rounded up; at least 1 MiB."""
    return to_units(_nanos(value, _LEAST_MEMORY_BYTES * NANOS_PER_UNIT, _MEMORY_ALLOWED))


def runtimes_from(value: str) -> Mapping[str, LanguageRuntime]:
    """Read language runtimes by the containers' names; that of all others stands under no name.

    ``java``; or ``web=java,proxy=go``; or both.
    """
    if len(value) > LONGEST_RUNTIMES:
        raise ValueNotAllowed(f"{len(value)} characters, of at most {LONGEST_RUNTIMES}")
    runtimes: dict[str, LanguageRuntime] = {}
    for part in value.split(","):
        name, separator, word = (text.strip() for text in part.rpartition("="))
        if name in runtimes or bool(name) != bool(separator) or word not in _RUNTIMES:
            raise ValueNotAllowed(f"{', '.join(LanguageRuntime)}, or CONTAINER=one of these, by commas")
        runtimes[name] = LanguageRuntime(word)
    return runtimes


def runtimes_ordered(annotations: Mapping[str, str]) -> Mapping[str, LanguageRuntime]:
    """Return the language runtimes that a pod's annotations name, as ``runtimes_from``; empty = none understood."""
    value = annotations.get(RUNTIME)
    if value is None:
        return {}
    try:
        return runtimes_from(value)
    except ValueNotAllowed:
        return {}  # the pod is off for it: ``resolution`` says so


def container_policies_from(value: str) -> ContainerPolicies:
    """Read how containers are sized one by one."""
    try:
        return parse_container_policies(value)
    except ContainerPoliciesError as error:
        raise ValueNotAllowed(f"{error}; allowed: {CONTAINER_POLICIES_ALLOWED}") from None


def startup_boost_from(value: str) -> StartupBoost | None:
    """Read a boost of CPU while a pod starts; None = none is wanted."""
    try:
        return parse_startup_boost(value)
    except StartupBoostError as error:
        raise ValueNotAllowed(f"{error}; allowed: {STARTUP_BOOST_ALLOWED}") from None


def enforce_share_from(value: str) -> EnforceShare:
    """Read a share of a workload's pods."""
    try:
        return parse_enforce_share(value)
    except EnforceShareError as error:
        raise ValueNotAllowed(str(error)) from None


class _Flag(StrEnum):
    TRUE = "true"
    FALSE = "false"


_Word = TypeVar("_Word", bound=StrEnum)


def _word(words: type[_Word], value: str) -> _Word:
    try:
        return words(value.strip())
    except ValueError:
        raise ValueNotAllowed(", ".join(words)) from None


def _nanos(value: str, least: int, allowed: str, most: int = _MOST_MEMORY_NANOS) -> int:
    """Read a quantity of so many nanos."""
    if len(value) > _LONGEST_QUANTITY:
        raise ValueNotAllowed(allowed)
    try:
        nanos = parse_quantity(value)
    except QuantityError:
        raise ValueNotAllowed(allowed) from None
    if not least <= nanos <= most:
        raise ValueNotAllowed(allowed)
    return nanos


PLACEHOLDER: Final = f"{PREFIX}placeholder"
"""Label of placeholder pods."""


def is_placeholder(pod: Pod) -> bool:
    """Return whether a pod keeps room for others, or says so of itself, whatever the label's value."""
    return PLACEHOLDER in pod.labels
