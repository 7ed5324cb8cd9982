"""What the cluster's rules order for a workload. Core, pure. The webhook and ``plimsoll policy`` read them by this."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from agent.core.cluster.facts import ClusterRule, ClusterRules
from agent.core.cluster.workload import Workload
from agent.core.numbers.document_text import DocumentTextError, yaml_values
from agent.core.orders import annotations as names
from agent.core.orders.annotations import (
    ValueNotAllowed,
    enforce_share_from,
    mode_from,
    policy_from,
    startup_boost_from,
)
from agent.core.orders.schedule import LONGEST_TEXT

LONGEST_PAUSE: Final = 1024
"""Characters of a reason; the rest of a longer one is cut off."""
UNSTATED_PAUSE: Final = "the ConfigMap says so"
_ON: Final = "true"
_OFF: Final = frozenset({"", "false"})


def pause_reason_of(text: str) -> str | None:
    """Return why the cluster is paused, on one line; None = it is not.

    Args:
        text: ``true`` or the reason in words; empty or ``false`` is no pause.
    """
    words = " ".join(text.split())
    if words.lower() in _OFF:
        return None
    return UNSTATED_PAUSE if words.lower() == _ON else words[:LONGEST_PAUSE]


def rule_of(rules: ClusterRules, workload: Workload) -> Mapping[str, str]:
    """Return what the rules order, by the annotation that would order the same; ``orders_of`` takes it so.

    The first rule that fits wins, each order by itself. A value is not looked at: who reads it says so.
    """
    ordered: dict[str, str] = {}
    for rule in rules.rules:
        if not _fits(rule, workload):
            continue
        for key, value in (
            (names.MODE, rule.mode),
            (names.POLICY, rule.policy),
            (names.STARTUP_BOOST, rule.startup_boost),
            (names.ENFORCE_SHARE, rule.enforce_share),
            (names.WINDOWS, rule.windows),
        ):
            if value is not None:
                ordered.setdefault(key, value)
    return ordered


def _fits(rule: ClusterRule, workload: Workload) -> bool:
    return (
        _matches(rule.namespace, workload.namespace)
        and rule.kind in (None, workload.kind)
        and _matches(rule.name, workload.name)
    )


def _matches(pattern: str | None, name: str) -> bool:
    return pattern is None or fnmatchcase(name, pattern)


PAUSE: Final = "pause"
RULES: Final = "rules"
LONGEST_RULES: Final = 64 << 10
"""Characters: a second or two to parse. An API server takes up to 1 MiB."""
MOST_RULES: Final = 500
"""Each is looked at for each workload."""
_STARTUP_BOOST: Final = "startupBoost"
_ENFORCE_SHARE: Final = "enforceShare"
_WINDOWS: Final = "windows"
_ORDERS: Final = ("mode", "policy", _STARTUP_BOOST, _ENFORCE_SHARE, _WINDOWS)
_FIELDS: Final = ("namespace", "kind", "name", *_ORDERS)
_SHORT: Final = reprlib.Repr()
"""Not repr: the rules may hold one value of thousands of parts."""
_LONGEST_SHOWN: Final = 200


class RulesError(ValueError):
    """Data that are not understood; the message is one line that names the place and what is allowed."""


def read_rules(data: Mapping[str, str], *, last_good: ClusterRules | None) -> ClusterRules:
    """Read the ConfigMap's data.

    The pause is read whatever else is wrong. Rules that are not understood leave the last good ones in force; where
    none were known before, who is switched off is not known either, and so everything is paused.

    Args:
        data: By key. Keys with a dot are files of somebody else.
        last_good: What was read before; None = nothing yet.

    Returns:
        What holds now; its fault says what is wrong with the data.
    """
    pause_reason = pause_reason_of(data.get(PAUSE, ""))
    try:
        return ClusterRules(pause_reason=pause_reason, rules=_rules_of(data))
    except RulesError as error:
        fault = str(error)
    if last_good is None:
        unknown = f"its rules are not understood and none were known before: {fault}"
        return ClusterRules(pause_reason=pause_reason or unknown, fault=fault)
    return replace(last_good, pause_reason=pause_reason, fault=fault)


def _rules_of(data: Mapping[str, str]) -> tuple[ClusterRule, ...]:
    odd = next((key for key in sorted(data) if key not in (PAUSE, RULES) and "." not in key), None)
    if odd is not None:
        raise RulesError(f"key {_shown(odd)} is not allowed ({PAUSE}, {RULES})")
    text = data.get(RULES, "")
    if len(text) > LONGEST_RULES:
        raise RulesError(f"{RULES}: {len(text)} characters are not allowed (at most {LONGEST_RULES})")
    try:
        contents = yaml_values(text)
    except DocumentTextError as error:
        raise RulesError(f"{RULES}: {error}") from error
    if len(contents) > 1:
        raise RulesError(f"{RULES}: {len(contents)} documents are not allowed (one list of rules)")
    content = contents[0] if contents else None
    if content is None:
        return ()
    if not isinstance(content, list):
        raise RulesError(f"{RULES}: {_shown(content)} is not allowed (a list of rules)")
    if len(content) > MOST_RULES:
        raise RulesError(f"{RULES}: {len(content)} of them are not allowed (at most {MOST_RULES})")
    return tuple(_rule_of(entry, f"{RULES}[{index}]") for index, entry in enumerate(content))


def _rule_of(value: object, where: str) -> ClusterRule:
    if not isinstance(value, Mapping):
        raise RulesError(f"{where}: {_shown(value)} is not allowed (a rule such as {{namespace: shop, mode: off}})")
    texts: dict[str, str] = {}
    for key, word in value.items():
        if key not in _FIELDS:
            raise RulesError(f"{where}: key {_shown(key)} is not allowed ({', '.join(_FIELDS)})")
        if word is False and key in ("mode", _STARTUP_BOOST):
            word = "off"  # as people write it: YAML 1.1 reads a bare off as false
        if not isinstance(word, str) or not word:
            raise RulesError(f"{where}.{key}: {_shown(word)} is not allowed (a text that is not empty)")
        texts[str(key)] = word
    if len(texts.get(_WINDOWS, "")) > LONGEST_TEXT:
        raise RulesError(f"{where}.{_WINDOWS}: more than {LONGEST_TEXT} characters are not allowed")
    for key, read in (("mode", mode_from), ("policy", policy_from)):
        if key in texts:
            try:
                texts[key] = str(read(texts[key]))
            except ValueNotAllowed as error:
                raise RulesError(f"{where}.{key}: {_shown(texts[key])} is not allowed ({error})") from error
    for key, check in ((_STARTUP_BOOST, startup_boost_from), (_ENFORCE_SHARE, enforce_share_from)):
        if key in texts:
            try:
                check(texts[key])
            except ValueNotAllowed as error:
                raise RulesError(f"{where}.{key}: {_shown(texts[key])} is not allowed ({error})") from error
    if not texts.keys() & set(_ORDERS):
        raise RulesError(f"{where}: says nothing ({', '.join(_ORDERS[:-1])} or {_ORDERS[-1]})")
    return ClusterRule(
        namespace=texts.get("namespace"),
        kind=texts.get("kind"),
        name=texts.get("name"),
        mode=texts.get("mode"),
        policy=texts.get("policy"),
        startup_boost=texts.get(_STARTUP_BOOST),
        enforce_share=texts.get(_ENFORCE_SHARE),
        windows=texts.get(_WINDOWS),
    )


def _shown(value: object) -> str:
    text = _SHORT.repr(value)
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= _LONGEST_SHOWN else f"{line[: _LONGEST_SHOWN - 3]}..."
