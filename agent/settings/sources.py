"""Where settings come from: a YAML file, the environment, the command line; checked together, all faults at once."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from agent.core.numbers.document_text import DocumentTextError, decoded, yaml_values
from agent.core.orders.profile import PROFILE_VALUES, Profile
from agent.named_file import read_named
from agent.settings.keys import PREFIX, Key, keys, shown
from agent.settings.sections import Settings, default_socket, default_state_directory

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Section = TypeVar("Section", bound=DataclassInstance)

FILE_VARIABLE: Final = "PLIMSOLL_SETTINGS_FILE"
"""Names the settings file when the command line does not."""
_LISTED_KEYS: Final = 40
"""So many are named where none of them is near; of more only the nearest."""
_LONGEST_KEY: Final = 60
FILE_MAX_BYTES: Final = 1 << 20
"""A settings file is a page; a larger one is another file."""

# What Kubernetes puts into every pod's environment for each Service of the namespace: a Service named plimsoll-webhook
# gives PLIMSOLL_WEBHOOK_PORT_443_TCP_ADDR. Such names are not a mistyped setting.
_SERVICE_LINK: Final = re.compile(
    r"_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$"
)


class SettingsError(Exception):
    """The settings do not hold. ``errors`` has one line for each fault: where, key, value and what is allowed."""

    def __init__(self, errors: tuple[str, ...]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def load_settings(
    path: Path | None,
    *,
    environment: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    sources: dict[str, str] | None = None,
) -> Settings:
    """Read all sources and return the settings in force.

    Args:
        path: The YAML file; None = the one that ``PLIMSOLL_SETTINGS_FILE`` names, else none.
        environment: ``os.environ``, or what stands for it.
        overrides: From the command line: file keys (``sampling.intervalSeconds``) to values, text or typed.
        sources: Takes, by key, where each value comes from that is no default.

    Returns:
        Settings in which every value lies in its range; paths left alone have their defaults for this user.

    Raises:
        SettingsError: With every fault found in any source.
    """
    uid = os.geteuid()
    defaults = {
        "state.directory": default_state_directory(environment, uid=uid),
        "serving.socket": default_socket(environment, uid=uid),
    }
    return load_into(
        Settings,
        path,
        environment=environment,
        overrides=overrides,
        defaults=defaults,
        contradictions=_contradictions,
        sources=sources,
    )


def load_into(
    root: type[Section],
    path: Path | None,
    *,
    environment: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
    contradictions: Callable[[Section, Mapping[str, tuple[str, object]]], Iterable[str]],
    sources: dict[str, str] | None = None,
) -> Section:
    """Read all sources into the dataclass of sections of one process; as ``load_settings``.

    ``defaults`` are those that depend on where this runs, by key. ``contradictions`` gives a line for each pair of
    settings that cannot both hold; it is handed the settings, and by key where each that was set comes from, with its
    value. A profile's values stand where nothing else does.
    """
    errors: list[str] = []
    known = keys(root)
    at_first = {key: ("default", value) for key, value in (defaults or {}).items()}
    chosen: dict[str, tuple[str, object]] = dict(at_first)
    if path is None and environment.get(FILE_VARIABLE):
        path = Path(environment[FILE_VARIABLE])
    for source, shown_key, key, raw, is_text in _raw_values(known, path, environment, overrides or {}, errors):
        spec = known[key]
        if spec.unset and (raw is None or raw in ("", "auto")):
            chosen.pop(key, None)
            if key in at_first:
                chosen[key] = at_first[key]
            continue
        try:
            chosen[key] = (f"{source}: {shown_key}", spec.to_value(raw, is_text=is_text))
        except ValueError as error:
            why = f" ({error})" if str(error) else ""
            errors.append(f"{source}: {shown_key}: {shown(raw)} is not allowed{why}; allowed: {spec.allowed()}")
    _, profile = chosen.get("profile", ("", Profile.DEFAULT))
    for key, value in PROFILE_VALUES[Profile(str(profile))].items():
        if key in known:
            chosen.setdefault(key, (f"profile {profile}", value))
    if sources is not None:
        sources.update({key: source.rsplit(": ", 1)[0] for key, (source, _) in chosen.items() if source != "default"})
    settings = _assembled(root(), known, chosen)
    errors.extend(contradictions(settings, chosen))
    if errors:
        raise SettingsError(tuple(errors))
    return settings


def _unknown(source: str, shown: str, known: list[str]) -> str:
    near = difflib.get_close_matches(shown, known, n=1, cutoff=0.6)
    if not near:  # a wrong section is found by its last word
        near = [name for name in known if name.rpartition(".")[2] == shown.rpartition(".")[2]][:1]
    if near:
        return f"{source}: {shown}: unknown key; did you mean {near[0]}?"
    if len(known) <= _LISTED_KEYS:
        return f"{source}: {shown}: unknown key; allowed: {', '.join(known)}"
    nearest = difflib.get_close_matches(shown, known, n=1, cutoff=0.0)[0]
    return f"{source}: {shown}: unknown key; allowed: {len(known)} keys (plimsoll settings), {nearest} is nearest"


def _raw_values(
    known: Mapping[str, Key],
    path: Path | None,
    environment: Mapping[str, str],
    overrides: Mapping[str, object],
    errors: list[str],
) -> Iterator[tuple[str, str, str, object, bool]]:
    """Return (source, key as written there, key in the file, value, is text), later ones win; faults go to errors."""
    if path is not None:
        for key, value in _read_file(known, path, errors):
            yield str(path), key, key, value, False
    by_variable = {spec.variable: key for key, spec in known.items()}
    for name in sorted(name for name in environment if name.startswith(PREFIX) and name != FILE_VARIABLE):
        if name in by_variable and not (name.endswith("_PORT") and environment[name].startswith("tcp://")):
            yield "environment", name, by_variable[name], environment[name], True
        elif not _SERVICE_LINK.search(name):
            errors.append(_unknown("environment", name, list(by_variable)))
    for key, value in overrides.items():
        if key in known:
            yield "command line", key, key, value, True
        else:
            errors.append(_unknown("command line", key, list(known)))


def _read_file(specs: Mapping[str, Key], path: Path, errors: list[str]) -> Iterator[tuple[str, object]]:
    """Return (dotted key, value) of a YAML file; all that is wrong with its shape goes to errors."""
    try:
        text = decoded(read_named(path, most_bytes=FILE_MAX_BYTES))
        documents = yaml_values(text)
    except OSError as error:
        errors.append(f"{path}: cannot be read: {error.strerror}")
        return
    except DocumentTextError as error:
        errors.append(f"{path}: {error}")
        return
    content = documents[0] if documents else None
    if len(documents) > 1:
        errors.append(f"{path}: holds {len(documents)} documents; a settings file is a YAML mapping")
        return
    if content is None:
        return
    if not isinstance(content, dict):
        errors.append(f"{path}: holds {shown(content)}; a settings file is a YAML mapping")
        return
    errors.extend(_repeated_keys(path, text))
    sections = list(dict.fromkeys(key.split(".")[0] for key in specs if "." in key))
    for name, value in content.items():
        if name not in sections:
            if name in specs:
                yield name, value
            else:
                errors.append(_unknown(str(path), _key_text(name), sections + [k for k in specs if "." not in k]))
            continue
        known = [key for key in specs if key.startswith(f"{name}.")]
        if value is None:
            continue
        if not isinstance(value, dict):
            names = ", ".join(key.rpartition(".")[2] for key in known)
            errors.append(f"{path}: {name}: {shown(value)} is not allowed; allowed: a mapping with the keys {names}")
            continue
        for key, inner in value.items():
            dotted = f"{name}.{_key_text(key)}"
            if dotted in known:
                yield dotted, inner
            else:
                errors.append(_unknown(str(path), dotted, known))


def _key_text(key: object) -> str:
    return key if isinstance(key, str) and key.isprintable() and len(key) <= _LONGEST_KEY else shown(key)


def _repeated_keys(path: Path, text: str) -> Iterator[str]:
    """Find keys given twice, of which YAML would silently keep the last."""
    import yaml  # 3 MB that an agent without a settings file need not load

    def repeated(node: object, prefix: str) -> Iterator[str]:
        if not isinstance(node, yaml.MappingNode):
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = f"{prefix}{_key_text(key.value)}"
            if name in seen:
                yield f"{path}:{key.start_mark.line + 1}: {name}: given twice; allowed: once"
            seen.add(name)
            if not prefix:
                yield from repeated(value, f"{name}.")

    yield from repeated(yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), "")


def _assembled(settings: Section, known: Mapping[str, Key], chosen: Mapping[str, tuple[str, object]]) -> Section:
    sections: dict[str, dict[str, object]] = {}
    for key, (_, value) in chosen.items():
        spec = known[key]
        sections.setdefault(spec.section, {})[spec.name] = value
    whole = sections.pop("", {})
    for section, values in sections.items():
        whole[section] = _replaced(getattr(settings, section), values)
    return _replaced(settings, whole)


def _replaced(section: Section, values: Mapping[str, object]) -> Section:
    return replace(section, **values)


def _contradictions(settings: Settings, chosen: Mapping[str, tuple[str, object]]) -> Iterator[str]:
    sampling, windows = settings.sampling, settings.windows
    interval, slow, rate = sampling.interval_seconds, sampling.slow_interval_seconds, windows.rate_window_seconds
    rules = (
        ("sampling.slowIntervalSeconds", slow, "sampling.intervalSeconds", interval),
        # a sweep that overruns halves the rate: two steps must still be a rate and not a gap
        ("windows.maxStepSeconds", windows.max_step_seconds, "2 x sampling.intervalSeconds", 2 * interval),
        ("windows.rateWindowSeconds", rate, "2 x sampling.intervalSeconds", 2 * interval),
        ("windows.cpuWindowSeconds", windows.cpu_window_seconds, "windows.rateWindowSeconds", rate),
        ("windows.memoryWindowSeconds", windows.memory_window_seconds, "2 x sampling.slowIntervalSeconds", 2 * slow),
        ("sampling.intervalSeconds", interval, "sampling.sweepBudgetSeconds", sampling.sweep_budget_seconds),
    )
    yield from _contradicting_options(settings)
    for key, value, floor_name, floor in rules:
        if value < floor:
            source = chosen.get(key, ("", None))[0] or chosen.get(floor_name.rpartition(" ")[2], ("", None))[0]
            where = source.split(": ", 1)[0]  # the file, "environment" or "command line"
            yield f"{where}: {key}: {shown(value)} is not allowed; allowed: at least {floor_name} ({shown(floor)})"


MOST_BUCKETS: Final = 100_000
"""Of one histogram of the policy crane: 800 KB a container would have them all in use; its own default has 1,001."""


def _contradicting_options(settings: Settings) -> Iterator[str]:
    bounds, crane = settings.bounds, settings.crane
    for name, least, most in (
        ("CpuMillicores", bounds.min_cpu_millicores, bounds.max_cpu_millicores),
        ("MemoryBytes", bounds.min_memory_bytes, bounds.max_memory_bytes),
    ):
        if most is not None and most < least:
            yield f"bounds.max{name}: {most} is not allowed; allowed: at least bounds.min{name} ({least})"
    for name, size, largest in (
        ("cpu", crane.cpu_histogram_bucket_size, crane.cpu_histogram_max_value),
        ("mem", crane.mem_histogram_bucket_size, crane.mem_histogram_max_value),
    ):
        if not 1 <= largest / size <= MOST_BUCKETS:
            yield (
                f"crane.{name}HistogramMaxValue: {shown(largest)} is not allowed; allowed: 1 to {MOST_BUCKETS} times "
                f"crane.{name}HistogramBucketSize ({shown(size)})"
            )
    if crane.specification_config is not None:
        from agent.core.recommender.crane.specification import SpecificationError, parse_specifications  # as it is rare

        try:
            parse_specifications(crane.specification_config)
        except SpecificationError as error:
            yield f"crane.specificationConfig: {error}"
