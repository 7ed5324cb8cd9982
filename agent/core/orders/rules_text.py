"""The ConfigMap ``plimsoll``, read: a pause of the whole cluster, rules on mode and policy. Core, pure.

.. code-block:: yaml

    data:
      pause: ""                # "true", or the reason in words
      rules: |
        - {namespace: "shop-*", mode: enforce}
        - {kind: Deployment, name: web, policy: vpa}

``cluster_rules`` says which rule is about which workload.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from agent.core.cluster.facts import ClusterRule, ClusterRules
from agent.core.numbers.document_text import DocumentTextError, yaml_values
from agent.core.orders.annotations import ValueNotAllowed, mode_from, policy_from
from agent.core.orders.pause_text import pause_reason_of

PAUSE: Final = "pause"
RULES: Final = "rules"
LONGEST_RULES: Final = 64 << 10
"""Characters: a second or two to parse. An API server takes up to 1 MiB."""
MOST_RULES: Final = 500
"""Each is looked at for each workload."""
_FIELDS: Final = ("namespace", "kind", "name", "mode", "policy")
_SHORT: Final = reprlib.Repr()
"""Not repr: the rules may hold one value of thousands of parts."""
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 2, 60, 60
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
    return tuple(_rule_of(one, f"{RULES}[{index}]") for index, one in enumerate(content))


def _rule_of(value: object, where: str) -> ClusterRule:
    if not isinstance(value, Mapping):
        raise RulesError(f"{where}: {_shown(value)} is not allowed (a rule such as {{namespace: shop, mode: off}})")
    texts: dict[str, str] = {}
    for key, word in value.items():
        if key not in _FIELDS:
            raise RulesError(f"{where}: key {_shown(key)} is not allowed ({', '.join(_FIELDS)})")
        if word is False and key == "mode":
            word = "off"  # as people write it: YAML 1.1 reads a bare off as false
        if not isinstance(word, str) or not word:
            raise RulesError(f"{where}.{key}: {_shown(word)} is not allowed (a text that is not empty)")
        texts[str(key)] = word
    for key, read in (("mode", mode_from), ("policy", policy_from)):
        if key in texts:
            try:
                texts[key] = str(read(texts[key]))
            except ValueNotAllowed as error:
                raise RulesError(f"{where}.{key}: {_shown(texts[key])} is not allowed ({error})") from error
    if "mode" not in texts and "policy" not in texts:
        raise RulesError(f"{where}: says nothing (mode or policy)")
    return ClusterRule(
        namespace=texts.get("namespace"),
        kind=texts.get("kind"),
        name=texts.get("name"),
        mode=texts.get("mode"),
        policy=texts.get("policy"),
    )


def _shown(value: object) -> str:
    text = _SHORT.repr(value)
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= _LONGEST_SHOWN else f"{line[: _LONGEST_SHOWN - 3]}..."
