"""How a container is started, as its spec says; and what that tells of its language runtime. Core, pure.

The runtime is the one that the pod's annotation names, else the one of the command line, else of the environment, else
of the image's name. Its flags are read as the runtime itself reads them, the last one wins: of Java JAVA_TOOL_OPTIONS,
JDK_JAVA_OPTIONS, the command line, _JAVA_OPTIONS; of Node NODE_OPTIONS, the command line. What the image sets by itself
is not in a spec, and not known. Values of the environment may be secrets: no text of them leaves this module.

Source:
    ``Arguments::parse`` and ``Arguments::set_heap_size`` of HotSpot (src/hotspot/share/runtime/arguments.cpp) and the
    java launcher (JDK_JAVA_OPTIONS stand before the command line's); Go's runtime/debug.SetMemoryLimit; node --help.
    Each was tried on OpenJDK 17.0.15 (-XX:+PrintFlagsFinal), Node 20.20 (v8.getHeapStatistics) and Go 1.26.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.numbers.units import INT64_MAX, MIB

_JAVA_DEFAULT_RATIO: Final = 0.25
"""MaxRAMPercentage where nothing is stated."""
_JAVA_SMALL_BYTES: Final = 126 * MIB
"""HotSpot's MaxHeapSize by default: a smaller share is raised to it, and of a limit below twice that it takes half."""
_NODE_DEFAULT_RATIO: Final = 0.5
"""V8 takes so much of the limit, which Node tells it of, ..."""
_NODE_SMALL_BYTES: Final = 256 * MIB
_NODE_MOST_BYTES: Final = 2048 * MIB
"""... within these; of 16 GiB and more it takes four, and there a heap of two is taken to need no larger limit."""
_JAVA_SIZE: Final = "a size such as 512m or 4g that the spec itself states"
_JAVA_PERCENT: Final = "a number above 0, at most 100, that the spec itself states"
_GO_SIZE: Final = "bytes such as 900MiB or 2GiB, or off, that the spec itself states"
_NODE_SIZE: Final = "MiB such as 1024 that the spec itself states"
_COMMAND_LINE: Final = "the command line"
MOST_CHARACTERS: Final = 128 << 10
"""Of names filled in, in one pod: as long as Linux lets one argument be (MAX_ARG_STRLEN). A chain of thirty short
variables can stand for gigabytes."""
MOST_SPLIT: Final = 16 << 10
"""Of texts split with heed to quotes, in one pod: it takes 7 ms at most. shlex copies a word for each letter of it."""
_LONGEST_OF_SHELL: Final = 4096
_UNITS: Final = {"": 1, "B": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40} | {
    f"{letter}iB": 1 << shift for letter, shift in (("K", 10), ("M", 20), ("G", 30), ("T", 40))
}
_JAVA_FORM: Final = re.compile(r"(\d{1,19}|0[xX][0-9a-fA-F]{1,16}|\$\(\w+\))([kKmMgGtT]?)", re.ASCII)
_GO_FORM: Final = re.compile(r"(\d{1,19}|\$\(\w+\))(|B|[KMGT]iB)", re.ASCII)
_NODE_FORM: Final = re.compile(r"(\d{1,19}|\$\(\w+\))()", re.ASCII)
_PERCENT_FORM: Final = re.compile(r"\d{1,3}(\.\d{0,9})?", re.ASCII)
_REFERENCE: Final = re.compile(r"\$\$|\$\((\w+)\)", re.ASCII)
"""As Kubernetes fills in names in command, args and environment; two dollars are one that stays."""
_SHELL_REFERENCE: Final = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?(?:\}|\Z)|([A-Za-z_]\w*))", re.ASCII)
"""A brace that nothing closes is of all the rest: a script of many would be read to its end again for each of them."""
_UNKNOWN: Final = re.compile(r"\$\((\w+)\)|\$\{(\w+)\}|\$\*|\$@", re.ASCII)
"""A word that nothing here fills in: there may be flags in it."""
_NO_TEXT: Final = re.compile(r"\\\r?\n|^[ \t]*#.*$", re.MULTILINE)
"""Of a script: the end of a line that goes on in the next one, and remarks."""
_QUOTES: Final = "\"'"
_SHELL_OPERATORS: Final = ";<>|&"
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_SCRIPT_ASSIGNMENT: Final = re.compile(r"(?<![^\s;&])([A-Za-z_]\w*)=(\"[^\"]*\"|'[^']*'|[^\s;&]*)", re.ASCII)

_JAVA_CONVENTIONS: Final = ("JAVA_OPTS", "JVM_OPTS", "CATALINA_OPTS", "KAFKA_HEAP_OPTS", "ES_JAVA_OPTS")
"""Of start scripts, not of the runtime; they put them onto the command line."""
_ENVIRONMENT: Final = {
    LanguageRuntime.JAVA: ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", *_JAVA_CONVENTIONS),
    LanguageRuntime.GO: ("GOMEMLIMIT", "GOGC"),
    LanguageRuntime.NODE: ("NODE_OPTIONS", "NODE_ENV"),
    LanguageRuntime.PYTHON: ("PYTHONUNBUFFERED", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"),
}
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
_BY_DEFAULT: Final = {
    **_PLAIN,
    LanguageRuntime.JAVA: RuntimeProfile(
        runtime=LanguageRuntime.JAVA, limit_share_ratio=_JAVA_DEFAULT_RATIO, small_heap_bytes=_JAVA_SMALL_BYTES
    ),
    LanguageRuntime.NODE: RuntimeProfile(
        runtime=LanguageRuntime.NODE,
        limit_share_ratio=_NODE_DEFAULT_RATIO,
        small_heap_bytes=_NODE_SMALL_BYTES,
        most_heap_bytes=_NODE_MOST_BYTES,
    ),
}
"""Of those that are told nothing."""


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


class Budget:
    """How many characters may still be worked on."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def spend(self, characters: int) -> bool:
        """Spend so many; False = there are fewer left, and none is spent."""
        if characters > self._left:
            return False
        self._left -= characters
        return True


class TextBudget:
    """What may still be done with one pod's texts."""

    def __init__(self) -> None:
        self.filling = Budget(MOST_CHARACTERS)
        self.splitting = Budget(MOST_SPLIT)


def profile_of(
    launch: Launch, ordered: LanguageRuntime | None, budget: TextBudget | None = None
) -> RuntimeProfile | None:
    """Return what a container's spec says of its runtime; None = no runtime that is known, or ``none`` is ordered.

    Args:
        ordered: By the pod's annotation, which wins; None = it does not say.
        budget: Of the container's pod; None = the container is by itself.
    """
    if ordered is LanguageRuntime.NONE:
        return None
    start = _Start.of(launch, budget or TextBudget())
    runtime = ordered or _runtime_of(start, launch)
    if runtime is None:
        return None
    settings = _Settings(runtime, launch.environment)
    if runtime is LanguageRuntime.JAVA:
        return _java(start, settings)
    if runtime is LanguageRuntime.NODE:
        return _node(start, settings)
    if runtime is LanguageRuntime.GO:
        limit = start.environment.get("GOMEMLIMIT")
        if limit and limit != "off":
            settings.take_size(limit, _GO_FORM, 1, _GO_SIZE, "GOMEMLIMIT")
        elif "GOMEMLIMIT" in start.hidden:
            settings.hide("GOMEMLIMIT")
        return settings.profile()
    return _PLAIN[runtime]


@dataclass(frozen=True, slots=True)
class _Start:
    """A command line word by word, a shell's script among them, and the environment, filled in as far as known."""

    words: Sequence[str]
    environment: Mapping[str, str]
    hidden: frozenset[str]
    """Names of the environment whose texts come from elsewhere."""
    is_split: bool
    """With heed to quotes; else the script has some and is too long for it: flags may be missing behind a blank."""
    budget: TextBudget

    @classmethod
    def of(cls, launch: Launch, budget: TextBudget) -> _Start:
        environment = _filled_in(launch.environment, budget)
        words = [_expanded(word, environment, budget) for word in (*launch.command, *launch.args)]
        script, is_split = _script(words), True
        if script is not None:
            environment |= {match[1]: match[2].strip("\"'") for match in _SCRIPT_ASSIGNMENT.finditer(script)}
            script = _SHELL_REFERENCE.sub(lambda match: _of_shell(match, environment, launch, budget), script)
            split = _split(script, budget, operators=_SHELL_OPERATORS)
            words = _split_at_blanks(script) if split is None else split
            is_split = split is not None or not _has_quotes(script)
        elif words and _program(words[0]) == "env":
            for word in words[1:]:
                if (match := _ASSIGNMENT.fullmatch(word)) is None:
                    break
                environment[match[1]] = match[2]
        hidden = {name for name, value in launch.environment.items() if value is None and name not in environment}
        return cls(words, environment, frozenset(hidden), is_split, budget)


class _Settings:
    """Takes flags in the order in which the runtime reads them."""

    def __init__(self, runtime: LanguageRuntime, environment: Mapping[str, str | LimitReference | None]) -> None:
        self._runtime, self._environment = runtime, environment
        self._profile = _BY_DEFAULT[runtime]

    def take_size(self, text: str, form: re.Pattern[str], unit_bytes: int, allowed: str, source: str) -> None:
        """Record the size of the heap; one that is the limit's is a share of that."""
        match = form.fullmatch(text)
        amount, unit = match.groups() if match is not None else ("", "")
        scale = unit_bytes * _UNITS[unit if unit in _UNITS else unit.lower()]
        limit = self._environment.get(amount[2:-1]) if amount.startswith("$(") else None
        if isinstance(limit, LimitReference):
            share = scale / limit.divisor_bytes
            self._profile = RuntimeProfile(runtime=self._runtime, limit_share_ratio=share, heap_source=source)
            return
        size_bytes = _whole(amount) * scale if amount and not amount.startswith("$") else INT64_MAX + 1
        if size_bytes > INT64_MAX:
            self._fail(source, allowed)
        elif size_bytes:
            self._profile = RuntimeProfile(runtime=self._runtime, heap_bytes=size_bytes, heap_source=source)

    def take_share(self, ratio: float | None, allowed: str, source: str) -> None:
        """Record the share of the limit that is heap; None = it is not understood."""
        if ratio is None:
            self._fail(source, allowed)
        else:
            small = _JAVA_SMALL_BYTES if self._runtime is LanguageRuntime.JAVA else 0
            self._profile = RuntimeProfile(
                runtime=self._runtime, limit_share_ratio=ratio, small_heap_bytes=small, heap_source=source
            )

    def take_share_of(self, text: str, source: str) -> None:
        """Record that the share is one of a stated size, not of the limit."""
        share = self._profile
        if share.limit_share_ratio is None:
            return
        self.take_size(text, _JAVA_FORM, 1, _JAVA_SIZE, source)
        if self._profile.heap_bytes is not None:
            self._profile = replace(self._profile, heap_bytes=share.heap_within(self._profile.heap_bytes) or None)
        elif self._profile.limit_share_ratio is not None:
            of_limit = self._profile.limit_share_ratio * share.limit_share_ratio
            self._profile = replace(self._profile, limit_share_ratio=of_limit)

    def take_least(self, text: str) -> None:
        """Record what the heap is at its start, which it is at least."""
        match = _JAVA_FORM.fullmatch(text)
        if match is not None and not match[1].startswith("$"):
            size_bytes = _whole(match[1]) * _UNITS[match[2].lower()]
            self._profile = replace(self._profile, initial_heap_bytes=min(size_bytes, INT64_MAX))

    def ignore_limit(self) -> None:
        """Record that what is not stated goes by the node's memory."""
        if self._profile.limit_share_ratio is not None:
            self._profile = _PLAIN[self._runtime]

    def hide(self, place: str) -> None:
        """Record that flags may stand where nobody outside can read them."""
        if not self._profile.fault:
            self._profile = replace(self._profile, hidden=place)

    def profile(self) -> RuntimeProfile:
        """Return what comes of them."""
        return self._profile

    def _fail(self, source: str, allowed: str) -> None:
        fault = f"{source} is not understood ({allowed})"
        self._profile = RuntimeProfile(runtime=self._runtime, heap_source=source, fault=fault)


def _java(start: _Start, settings: _Settings) -> RuntimeProfile:
    """Return the profile of a Java virtual machine: -Xmx wins over shares, a percentage over a fraction."""
    stated: dict[str, tuple[str, str]] = {}
    knows_container = True
    hidden = ""
    for flag, place in _java_flags(start):
        name, _, value = flag.partition("=")
        if flag.startswith(("-Xmx", "-mx", "-Xms")):
            name, value = flag[: flag.index("m") + 2], flag[flag.index("m") + 2 :]
        name = {"-mx": "-Xmx", "-XX:InitialHeapSize": "-Xms"}.get(name, name)
        if flag in ("-XX:-UseContainerSupport", "-XX:+UseContainerSupport"):
            knows_container = "+" in flag
        elif flag and name not in ("-XX:VMOptionsFile", "-XX:Flags"):
            stated[name] = value, f"{name} in {place}"
        else:
            hidden = place
        if name in ("-Xmx", "-XX:MaxHeapSize"):
            stated["heap"] = stated[name]
            hidden = ""  # what comes before it does not count
    if "heap" in stated:
        size, source = stated["heap"]
        settings.take_size(size, _JAVA_FORM, 1, _JAVA_SIZE, source)
    else:
        for name in ("-XX:MaxRAMPercentage", "-XX:MaxRAMFraction"):
            if name in stated:
                value, source = stated[name]
                settings.take_share(_share(name, value), _JAVA_PERCENT, source)
                break
        if "-XX:MaxRAM" in stated:
            settings.take_share_of(*stated["-XX:MaxRAM"])
        elif not knows_container:
            settings.ignore_limit()
        if "-Xms" in stated:
            settings.take_least(stated["-Xms"][0])
    if hidden:
        settings.hide(hidden)
    return settings.profile()


def _share(name: str, value: str) -> float | None:
    """Return the share of a flag of Java, 0..1; None = it is not understood."""
    number = float(value) if _PERCENT_FORM.fullmatch(value) else 0.0
    if name == "-XX:MaxRAMFraction":
        return 1.0 / number if number >= 1 else None
    return number / 100.0 if 0 < number <= 100 else None


def _java_flags(start: _Start) -> Iterator[tuple[str, str]]:
    """Return the flags that a Java virtual machine takes, in its order, and where each stands; empty = not known."""
    is_own = _place(start.words, ("java",)) is not None  # then no script of others is between
    conventions = () if is_own else _JAVA_CONVENTIONS
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", *conventions):
        yield from _java_options(start, name)
    yield from ((flag, _COMMAND_LINE) for flag in _own_flags(start.words, ("java",), _JAVA_WITH_VALUE, _JAVA_PROGRAM))
    if not start.is_split:
        yield "", _COMMAND_LINE
    yield from _java_options(start, "_JAVA_OPTIONS")


def _java_options(start: _Start, name: str) -> Iterator[tuple[str, str]]:
    if name in start.hidden:
        yield "", name
    text = start.environment.get(name, "")
    flags = _split(text, start.budget, escape="")
    for flag in _split_at_blanks(text) if flags is None else flags:
        yield "" if _is_unknown(flag) else flag, name
    if flags is None and _has_quotes(text):
        yield "", name


def _node(start: _Start, settings: _Settings) -> RuntimeProfile:
    """Return the profile of a Node process; the percentage wins over the size, wherever both stand."""
    sizes: tuple[str, str] | None = None
    share: tuple[str, str] | None = None
    hidden = "NODE_OPTIONS" if "NODE_OPTIONS" in start.hidden else ""
    text = start.environment.get("NODE_OPTIONS", "")
    split = _split(text, start.budget, quotes='"')
    options = _split_at_blanks(text, quotes='"') if split is None else split
    flags = (("" if _is_unknown(flag) else flag, "NODE_OPTIONS") for flag in options)
    own = _own_flags(start.words, ("node", "nodejs"), _NODE_WITH_VALUE, frozenset())
    for flag, place in chain(flags, ((flag, _COMMAND_LINE) for flag in own)):
        name, _, value = flag.partition("=")
        name = f"--{name.lstrip('-')}".replace("_", "-")  # V8 takes all of these
        if not flag:
            hidden = place
        elif name == "--max-old-space-size":
            sizes, hidden = (value, f"{name} in {place}"), ""
        elif name == "--max-old-space-size-percentage":
            share, hidden = (value, f"{name} in {place}"), ""
    if split is None and _has_quotes(text):
        hidden = "NODE_OPTIONS"
    if not start.is_split:
        hidden = _COMMAND_LINE
    if share is not None:
        settings.take_share(_share("", share[0]), _JAVA_PERCENT, share[1])
    elif sizes is not None:
        settings.take_size(sizes[0], _NODE_FORM, MIB, _NODE_SIZE, sizes[1])
    if hidden:
        settings.hide(hidden)
    return settings.profile()


def _own_flags(
    words: Sequence[str], programs: Iterable[str], with_value: frozenset[str], last: frozenset[str]
) -> Iterator[str]:
    """Return the flags of a runtime itself on a command line: those of the program that it runs come after them.

    Where its own name does not stand there (the image's entry point has it, or a script) all up to the program count.
    What cannot be read there, a file of arguments or a name that nothing fills in, is an empty one.
    """
    start = _place(words, programs)
    rest = iter(words if start is None else words[start + 1 :])
    for word in rest:
        if word in last:
            return
        if word in with_value:
            next(rest, None)
        elif word.startswith("-"):
            yield word
        elif _is_unknown(word) or (start is not None and word.startswith("@")):
            yield ""
        elif start is not None:
            return


def _place(words: Sequence[str], programs: Iterable[str]) -> int | None:
    """Return where one of the programs is called; None = nowhere."""
    return next((place for place, word in enumerate(words) if _program(word) in programs), None)


def _is_unknown(word: str) -> bool:
    return _UNKNOWN.fullmatch(word) is not None


def _runtime_of(start: _Start, launch: Launch) -> LanguageRuntime | None:
    """Return the runtime that the command line names, else the one that the environment is for, else the image's."""
    for word in start.words:
        program = _program(word)
        runtime = LanguageRuntime.PYTHON if _PYTHON_PROGRAM.fullmatch(program) else _PROGRAMS.get(program)
        if runtime is not None:
            return runtime
        if _JAVA_FLAG.match(word):
            return LanguageRuntime.JAVA
        if word.replace("_", "-").startswith("--max-old-space-size"):
            return LanguageRuntime.NODE
    names = {*launch.environment, *start.environment}
    known = [runtime for runtime, watched in _ENVIRONMENT.items() if any(name in names for name in watched)]
    if len(known) == 1:
        return known[0]
    name = (launch.image or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
    return next((runtime for runtime, form in _IMAGES if form.fullmatch(name)), None)


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _script(words: Sequence[str]) -> str | None:
    """Return the script that a shell is given on the command line, also behind a program such as tini; None = none."""
    shell = _place(words, _SHELLS)
    if shell is None:
        return None
    option = next((at for at, word in enumerate(words) if at > shell and re.fullmatch(r"-[a-z]*c", word)), len(words))
    return _NO_TEXT.sub(" ", words[option + 1]) if option + 1 < len(words) else None


def _of_shell(match: re.Match[str], environment: Mapping[str, str], launch: Launch, budget: TextBudget) -> str:
    """Return what a shell fills in for a name; one that is known nowhere, or stands for too much, stays, as a name."""
    name: str = match[1] or match[3]
    by_name = f"${{{name}}}"
    otherwise = match[2] if match[2] is not None and name not in launch.environment else by_name
    text = environment.get(name, otherwise)
    # What is that long is no flag, and would leave no room to split the script with heed to quotes.
    return text if len(text) <= _LONGEST_OF_SHELL and budget.filling.spend(len(text)) else by_name


def _filled_in(stated: Mapping[str, str | LimitReference | None], budget: TextBudget) -> dict[str, str]:
    """Return the texts of an environment with names filled in as Kubernetes does: those that stand before.

    A memory limit is its own name, as a reference that is left to who reads a size.
    """
    environment: dict[str, str] = {}
    for name, value in stated.items():
        if isinstance(value, LimitReference):
            environment[name] = f"$({name})"
        elif value is not None:
            environment[name] = _expanded(value, environment, budget)
    return environment


def _expanded(text: str, environment: Mapping[str, str], budget: TextBudget) -> str:
    """Fill in names as Kubernetes does; one that is not known, or stands for too much, stays."""

    def filled(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        value = environment.get(match[1])
        return match[0] if value is None or not budget.filling.spend(len(value)) else value

    return _REFERENCE.sub(filled, text) if "$" in text else text


def _split(
    text: str, budget: TextBudget, *, quotes: str = _QUOTES, escape: str = "\\", operators: str = ""
) -> list[str] | None:
    """Split at blanks outside quotes; at blanks alone where quotes do not match. None = the text is too long."""
    if not budget.splitting.spend(len(text)):
        return None
    lexer = shlex.shlex(text, posix=True, punctuation_chars=operators)
    lexer.whitespace_split, lexer.commenters, lexer.quotes, lexer.escape = True, "", quotes, escape
    try:
        return list(lexer)
    except ValueError:
        return _split_at_blanks(text, quotes=quotes)


def _split_at_blanks(text: str, *, quotes: str = _QUOTES) -> list[str]:
    return [word.strip(quotes) for word in text.split()]  # a flag in quotes is one all the same


def _has_quotes(text: str) -> bool:
    return any(mark in text for mark in f"{_QUOTES}\\")


def _whole(digits: str) -> int:
    return int(digits, 16 if digits[:2].lower() == "0x" else 10)
