"""How a container is started, as its spec says; and what that tells of its language runtime. Core, pure.

The runtime is the one that the pod's annotation names, else the one of the command line, else of the environment, else
of the image's name. Its flags are read as the runtime itself reads them, the last one wins: of Java JAVA_TOOL_OPTIONS,
JDK_JAVA_OPTIONS, the command line, _JAVA_OPTIONS; of Node NODE_OPTIONS, the command line. What the image sets by itself
is not in a spec, and not known. Values of the environment may be secrets: no text of them leaves this module.

Source:
    ``Arguments::parse`` and ``Arguments::set_heap_size`` of HotSpot (src/hotspot/share/runtime/arguments.cpp) and the
    java launcher (JDK_JAVA_OPTIONS stand before the command line's); Go's runtime/debug.SetMemoryLimit; node --help.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.numbers.units import INT64_MAX, MIB

_JAVA_DEFAULT_RATIO: Final = 0.25
"""MaxRAMPercentage where nothing is stated."""
_JAVA_SIZE: Final = "a size such as 512m or 4g that the spec itself states"
_JAVA_PERCENT: Final = "a number above 0, at most 100, that the spec itself states"
_GO_SIZE: Final = "bytes such as 900MiB or 2GiB, or off, that the spec itself states"
_NODE_SIZE: Final = "MiB such as 1024 that the spec itself states"
_COMMAND_LINE: Final = "the command line"
_UNITS: Final = {"": 1, "B": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40} | {
    f"{letter}iB": 1 << shift for letter, shift in (("K", 10), ("M", 20), ("G", 30), ("T", 40))
}
_JAVA_FORM: Final = re.compile(r"(\d{1,19}|\$\(\w+\))([kKmMgGtT]?)", re.ASCII)
_GO_FORM: Final = re.compile(r"(\d{1,19}|\$\(\w+\))(|B|[KMGT]iB)", re.ASCII)
_NODE_FORM: Final = re.compile(r"(\d{1,19}|\$\(\w+\))()", re.ASCII)
_PERCENT_FORM: Final = re.compile(r"\d{1,3}(\.\d{0,9})?", re.ASCII)
_REFERENCE: Final = re.compile(r"\$\$|\$\((\w+)\)", re.ASCII)
"""As Kubernetes fills in names in command, args and environment; two dollars are one that stays."""
_SHELL_REFERENCE: Final = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))", re.ASCII)

_JAVA_CONVENTIONS: Final = ("JAVA_OPTS", "JVM_OPTS", "CATALINA_OPTS", "KAFKA_HEAP_OPTS", "ES_JAVA_OPTS")
"""Of start scripts, not of the runtime; they put them onto the command line."""
_ENVIRONMENT: Final = {
    LanguageRuntime.JAVA: ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", *_JAVA_CONVENTIONS),
    LanguageRuntime.GO: ("GOMEMLIMIT", "GOGC"),
    LanguageRuntime.NODE: ("NODE_OPTIONS", "NODE_ENV"),
    LanguageRuntime.PYTHON: ("PYTHONUNBUFFERED", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"),
}
WATCHED_NAMES: Final = frozenset(name for names in _ENVIRONMENT.values() for name in names)
_PROGRAMS: Final = {
    "java": LanguageRuntime.JAVA,
    "node": LanguageRuntime.NODE,
    "nodejs": LanguageRuntime.NODE,
    "npm": LanguageRuntime.NODE,
    "npx": LanguageRuntime.NODE,
    "yarn": LanguageRuntime.NODE,
    "python": LanguageRuntime.PYTHON,
    "gunicorn": LanguageRuntime.PYTHON,
    "uvicorn": LanguageRuntime.PYTHON,
    "celery": LanguageRuntime.PYTHON,
}
_PYTHON_PROGRAM: Final = re.compile(r"python[23](\.\d+)?", re.ASCII)
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
_JAVA_FLAG: Final = re.compile(r"-Xm[sx]\S|-XX:[+-]?\w", re.ASCII)
_JAVA_WITH_VALUE: Final = frozenset(
    {
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--upgrade-module-path",
        "--add-modules",
        "--limit-modules",
        "--add-exports",
        "--add-opens",
        "--add-reads",
        "--patch-module",
        "--enable-native-access",
        "-d",
        "--describe-module",
    }
)
_JAVA_PROGRAM: Final = frozenset({"-jar", "-m", "--module"})
"""What follows is the program, and all after that its own."""
_NODE_WITH_VALUE: Final = frozenset({"-r", "--require", "--import", "-C", "--conditions", "--loader", "--env-file"})
_IMAGES: Final = (
    (LanguageRuntime.JAVA, re.compile(r"(openjdk|.*-jre|.*-jdk|jdk|jre|java\d*(-.*)?|eclipse-temurin|amazoncorretto)")),
    (
        LanguageRuntime.JAVA,
        re.compile(r"(ibmjava|zulu-openjdk|sapmachine|tomcat|jetty|wildfly|elasticsearch|cassandra)"),
    ),
    (LanguageRuntime.NODE, re.compile(r"(node|nodejs\d*(-.*)?)")),
    (LanguageRuntime.GO, re.compile(r"golang")),
    (LanguageRuntime.PYTHON, re.compile(r"(python|python[23](-.*)?|pypy)")),
)
_PLAIN: Final = {runtime: RuntimeProfile(runtime=runtime) for runtime in LanguageRuntime}
"""Of those of whom nothing more is known: one object for all."""
_JAVA_BY_DEFAULT: Final = RuntimeProfile(runtime=LanguageRuntime.JAVA, limit_share_ratio=_JAVA_DEFAULT_RATIO)


@dataclass(frozen=True, slots=True)
class LimitReference:
    """An environment variable that is the container's own memory limit (resourceFieldRef limits.memory)."""

    divisor_bytes: int = 1
    """It is the limit in so many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a container is started. It is read and let go: it may hold secrets."""

    command: Sequence[str] = ()
    args: Sequence[str] = ()
    environment: Mapping[str, str | LimitReference | None] = field(default_factory=dict)
    """In the spec's order; None = it comes from elsewhere, and is not known."""
    image: str | None = None


def profile_of(launch: Launch, ordered: LanguageRuntime | None) -> RuntimeProfile | None:
    """Return what a container's spec says of its runtime; None = no runtime that is known, or ``none`` is ordered.

    Args:
        ordered: By the pod's annotation, which wins; None = it does not say.
    """
    if ordered is LanguageRuntime.NONE:
        return None
    environment = _filled_in(launch.environment)
    words = _words(launch, environment)
    runtime = ordered or _runtime_of(words, launch)
    if runtime is None:
        return None
    settings = _Settings(runtime, launch.environment)
    if runtime is LanguageRuntime.JAVA:
        return _java(words, environment, settings)
    if runtime is LanguageRuntime.NODE:
        return _node(words, environment, settings)
    if runtime is LanguageRuntime.GO:
        limit = environment.get("GOMEMLIMIT")
        if limit and limit != "off":
            settings.take_size(limit, _GO_FORM, 1, _GO_SIZE, "GOMEMLIMIT")
        return settings.profile(_PLAIN[runtime])
    return _PLAIN[runtime]


class _Settings:
    """Takes flags in the order in which the runtime reads them."""

    def __init__(self, runtime: LanguageRuntime, environment: Mapping[str, str | LimitReference | None]) -> None:
        self._runtime, self._environment = runtime, environment
        self._heap_bytes: int | None = None
        self._share_ratio: float | None = None
        self._source = ""
        self._fault = ""
        self.has_size = False

    def take_size(self, text: str, form: re.Pattern[str], unit_bytes: int, allowed: str, source: str) -> None:
        """Record the size of the heap; one that is the limit's is a share of that."""
        self._fault = ""  # the last one wins, and one before it is no matter
        found = form.fullmatch(text)
        amount, unit = found.groups() if found is not None else ("", "")
        scale = unit_bytes * _UNITS[unit if unit in _UNITS else unit.lower()]
        limit = self._environment.get(amount[2:-1]) if amount.startswith("$(") else None
        self.has_size, self._source = True, source
        self._heap_bytes = self._share_ratio = None
        if isinstance(limit, LimitReference):
            self._share_ratio = scale / limit.divisor_bytes
        elif not amount.isdecimal() or int(amount) * scale > INT64_MAX:
            self._fault = f"{source} is not understood ({allowed})"
        else:
            self._heap_bytes = int(amount) * scale or None

    def take_share(self, ratio: float | None, allowed: str, source: str) -> None:
        """Record the share of the limit that is heap; None = it is not understood."""
        self._share_ratio, self._source = ratio, source
        self._fault = "" if ratio is not None else f"{source} is not understood ({allowed})"

    def profile(self, otherwise: RuntimeProfile) -> RuntimeProfile:
        """Return what comes of them, else what holds where nothing is stated."""
        if not self._source or (self._heap_bytes is None and self._share_ratio is None and not self._fault):
            return otherwise
        return RuntimeProfile(
            runtime=self._runtime,
            heap_bytes=None if self._fault else self._heap_bytes,
            heap_source=self._source,
            limit_share_ratio=None if self._fault else self._share_ratio,
            fault=self._fault,
        )


def _java(words: Sequence[str], environment: Mapping[str, str], settings: _Settings) -> RuntimeProfile:
    """Return the profile of a Java virtual machine: -Xmx wins over shares, wherever both stand."""
    sizes: tuple[str, str] | None = None
    share: tuple[str, str, str] | None = None
    memory: tuple[str, str] | None = None
    knows_container = True
    for flag, place in _java_flags(words, environment):
        name, _, value = flag.partition("=")
        if flag.startswith("-Xmx"):
            sizes = (flag.removeprefix("-Xmx"), f"-Xmx in {place}")
        elif name == "-XX:MaxHeapSize":
            sizes = (value, f"{name} in {place}")
        elif name in ("-XX:MaxRAMPercentage", "-XX:MaxRAMFraction"):
            share = (name, value, f"{name} in {place}")
        elif name == "-XX:MaxRAM":
            memory = (value, f"{name} in {place}")
        elif flag in ("-XX:-UseContainerSupport", "-XX:+UseContainerSupport"):
            knows_container = "+" in flag
    if sizes is not None:
        settings.take_size(sizes[0], _JAVA_FORM, 1, _JAVA_SIZE, sizes[1])
        return settings.profile(_PLAIN[LanguageRuntime.JAVA])
    ratio: float | None = _JAVA_DEFAULT_RATIO
    if share is not None:
        ratio = _share(*share[:2])
        settings.take_share(ratio, _JAVA_PERCENT, share[2])
    if memory is not None and ratio is not None:
        # A share of what is stated, not of the limit.
        settings.take_size(memory[0], _JAVA_FORM, 1, _JAVA_SIZE, memory[1])
        stated = settings.profile(_PLAIN[LanguageRuntime.JAVA])
        heap_bytes, limit_share = stated.heap_bytes, stated.limit_share_ratio
        return replace(
            stated,
            heap_bytes=None if heap_bytes is None else int(heap_bytes * ratio),
            limit_share_ratio=None if limit_share is None else limit_share * ratio,
        )
    if not knows_container and ratio is not None:
        return _PLAIN[LanguageRuntime.JAVA]  # a share of the node's memory
    return settings.profile(_JAVA_BY_DEFAULT)


def _share(name: str, value: str) -> float | None:
    """Return the share of a flag of Java, 0..1; None = it is not understood."""
    number = float(value) if _PERCENT_FORM.fullmatch(value) else 0.0
    if name == "-XX:MaxRAMFraction":
        return 1.0 / number if number >= 1 else None
    return number / 100.0 if 0 < number <= 100 else None


def _java_flags(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return the flags that a Java virtual machine takes, in its order, and where each stands."""
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", *_JAVA_CONVENTIONS):
        yield from ((flag, name) for flag in _split(environment.get(name, "")))
    yield from ((flag, _COMMAND_LINE) for flag in _own_flags(words, ("java",), _JAVA_WITH_VALUE, _JAVA_PROGRAM))
    yield from ((flag, "_JAVA_OPTIONS") for flag in _split(environment.get("_JAVA_OPTIONS", "")))


def _node(words: Sequence[str], environment: Mapping[str, str], settings: _Settings) -> RuntimeProfile:
    """Return the profile of a Node process; the percentage wins over the size, wherever both stand."""
    sizes: tuple[str, str] | None = None
    share: tuple[str, str] | None = None
    flags = [(flag, "NODE_OPTIONS") for flag in _split(environment.get("NODE_OPTIONS", ""))]
    flags += [(flag, _COMMAND_LINE) for flag in _own_flags(words, ("node", "nodejs"), _NODE_WITH_VALUE, frozenset())]
    for flag, place in flags:
        name, _, value = flag.partition("=")
        name = name.replace("_", "-")  # V8 takes both
        if name == "--max-old-space-size":
            sizes = (value, f"{name} in {place}")
        elif name == "--max-old-space-size-percentage":
            share = (value, f"{name} in {place}")
    if share is not None:
        settings.take_share(_share("", share[0]), _JAVA_PERCENT, share[1])
    elif sizes is not None:
        settings.take_size(sizes[0], _NODE_FORM, MIB, _NODE_SIZE, sizes[1])
    return settings.profile(_PLAIN[LanguageRuntime.NODE])


def _own_flags(
    words: Sequence[str], programs: Iterable[str], with_value: frozenset[str], last: frozenset[str]
) -> Iterator[str]:
    """Return the flags of a runtime itself on a command line: those of the program that it runs come after them.

    Where its own name does not stand there (the image's entry point has it, or a script) all up to the program count.
    """
    start = next((place + 1 for place, word in enumerate(words) if _program(word) in programs), None)
    rest = iter(words if start is None else words[start:])
    for word in rest:
        if word in last:
            return
        if word in with_value:
            next(rest, None)
        elif word.startswith("-"):
            yield word
        elif start is not None and not word.startswith("@"):  # a file of arguments: what it holds is not known
            return


def _runtime_of(words: Sequence[str], launch: Launch) -> LanguageRuntime | None:
    """Return the runtime that the command line names, else the one that the environment is for, else the image's."""
    for word in words:
        program = _program(word)
        runtime = LanguageRuntime.PYTHON if _PYTHON_PROGRAM.fullmatch(program) else _PROGRAMS.get(program)
        if runtime is not None:
            return runtime
        if _JAVA_FLAG.match(word):
            return LanguageRuntime.JAVA
        if word.replace("_", "-").startswith("--max-old-space-size"):
            return LanguageRuntime.NODE
    known = [runtime for runtime, names in _ENVIRONMENT.items() if any(name in launch.environment for name in names)]
    if len(known) == 1:
        return known[0]
    name = (launch.image or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
    return next((runtime for runtime, form in _IMAGES if form.fullmatch(name)), None)


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _words(launch: Launch, environment: Mapping[str, str]) -> list[str]:
    """Return the command line word by word, a shell's script among them, with names filled in as far as known."""
    words = [_expanded(word, environment) for word in (*launch.command, *launch.args)]
    if not words or _program(words[0]) not in _SHELLS:
        return words
    script = next((place + 1 for place, word in enumerate(words) if re.fullmatch(r"-[a-z]*c", word)), len(words))
    if script >= len(words):
        return words

    def filled(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return environment.get(name, f"$({name})")

    return _split(_SHELL_REFERENCE.sub(filled, words[script]))


def _filled_in(stated: Mapping[str, str | LimitReference | None]) -> dict[str, str]:
    """Return the texts of an environment with names filled in as Kubernetes does: those that stand before.

    A memory limit is its own name, as a reference that is left to who reads a size.
    """
    environment: dict[str, str] = {}
    for name, value in stated.items():
        if isinstance(value, LimitReference):
            environment[name] = f"$({name})"
        elif value is not None:
            environment[name] = _expanded(value, environment)
    return environment


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    if "$" not in text:
        return text
    return _REFERENCE.sub(lambda found: "$" if found[1] is None else environment.get(found[1], found[0]), text)


def _split(text: str) -> list[str]:
    """Split options as a shell does; at blanks alone where quotes do not match."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
