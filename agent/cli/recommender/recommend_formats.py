"""Recommendations for machines: ``-o json``, ``yaml``, ``csv``, and ``patch`` for kubectl. Face, pure.

Every name carries its unit. What is not there is null, an empty cell, or said on a line of its own; never 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Final

from agent.cli.recommender.recommend_money import CSV_HEADER as MONEY_HEADER
from agent.cli.recommender.recommend_money import NodeMoney
from agent.cli.text.csv_text import csv_table
from agent.cli.text.spans import harmless
from agent.cli.words.advice import SIDES, AdviceSide, withheld_by, withheld_reason
from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.core.recommender.recommendation import Advice, Basis, Recommendation, Recommendations
from agent.core.recommender.unit_names import called
from agent.core.resize.kubectl_patch import LeftOut, ResizePatch, left_out, resize_patches
from agent.node.files.documents import RECOMMENDATIONS


def json_text(node: Recommendations, money: NodeMoney | None = None) -> str:
    """Return the document that the socket gives, indented; ASCII, so no name can steer a terminal.

    With money it has ``prices``, and each item ``money``.
    """
    return json.dumps(_document(node, money), indent=2, allow_nan=False) + "\n"


def yaml_text(node: Recommendations, money: NodeMoney | None = None) -> str:
    """Return the same document as YAML."""
    import yaml

    return str(yaml.safe_dump(_document(node, money), sort_keys=False))


def _document(node: Recommendations, money: NodeMoney | None) -> dict[str, object]:
    document = dict(RECOMMENDATIONS.to_json(node))
    if money is None:
        return document
    rows = document["items"]
    assert isinstance(rows, list)  # noqa: S101 - as the document's type has it
    items = [{**item, "money": money.item_document(source)} for item, source in zip(rows, node.items, strict=True)]
    return {**document, "items": items, "prices": money.document()}


# CSV

_IDENTITY_FIELDS: Final = tuple(field.name for field in fields(UnitIdentity))
_RESOURCE_FIELDS: Final = tuple(field.name for field in fields(UnitResources))
_BASIS_FIELDS: Final = tuple(field.name for field in fields(Basis))
_UNITS: Final = {"cpu": "millicores", "memory": "bytes"}
CSV_HEADER: Final[tuple[str, ...]] = (
    "taken_unix_seconds",
    "node",
    "source",
    "policy",
    "workload_kind",
    "workload_name",
    *_IDENTITY_FIELDS,
    "container_kind",
    *_RESOURCE_FIELDS,
    *(
        f"{side.resource}_{name}"
        for side in SIDES
        for unit in (_UNITS[side.resource],)
        for name in (
            f"recommended_request_{unit}",
            f"recommended_limit_{unit}",
            f"to_add_{unit}",
            f"to_free_{unit}",
            "severity",
            "withheld",
            "reason",
            "bounds",
            f"base_{unit}",
            f"peak_{unit}",
            f"proposed_{unit}",
            "is_upward_only",
        )
    ),
    *_BASIS_FIELDS,
    "extra",
)


def csv_text(node: Recommendations, money: NodeMoney | None = None) -> str:
    """Return one line per container under a line of names; money, where there is any, last."""
    if money is None:
        return csv_table(CSV_HEADER, (_cells(node, item) for item in node.items))
    rows = ([*_cells(node, item), *money.cells(item)] for item in node.items)
    return csv_table((*CSV_HEADER, *MONEY_HEADER), rows)


def _cells(node: Recommendations, item: Recommendation) -> list[object]:
    workload = item.workload
    row: list[object] = [node.taken_unix_seconds, node.node, node.source, item.policy]
    row += [workload.kind, workload.name] if workload is not None else [None, None]
    row += [getattr(item.identity, name) for name in _IDENTITY_FIELDS]
    row.append(item.container_kind)
    row += [getattr(item.resources, name) for name in _RESOURCE_FIELDS]
    for side in SIDES:
        row += _side_cells(side, item, node)
    row += [getattr(item.basis, name) for name in _BASIS_FIELDS]
    extra = {**item.cpu_millicores.extra, **item.memory_bytes.extra}
    row.append(" ".join(f"{name}={value!r}" for name, value in extra.items()))
    return row


def _side_cells(side: AdviceSide, item: Recommendation, node: Recommendations) -> list[object]:
    advice, now = side.advice(item), side.request(item) or 0
    missing = None if advice.request is None else advice.request - now
    return [
        advice.request,
        advice.limit,
        None if missing is None else max(missing, 0),
        None if missing is None else max(-missing, 0),
        advice.severity,
        advice.withheld,
        withheld_reason(side, item, node),
        " ".join(advice.bounds),
        advice.base,
        advice.peak,
        advice.proposed,
        advice.is_upward_only,
    ]


# kubectl

_LEFT_OUT_TEXTS: Final = {
    LeftOut.NO_POD: "no pod source names it (--pods FILE does)",
    LeftOut.STATIC_POD: "a static pod: its file on the node decides",
    LeftOut.NOT_RESIZABLE: "an init or debug container: cannot be resized",
    LeftOut.NOT_STATED: "no request yet: a resize cannot add the first",
}
_MOST_NAMED: Final = 5


def patch_text(node: Recommendations) -> str:
    """Return a shell script: for each pod a comment that says from what to what, and the kubectl command."""
    moment = datetime.fromtimestamp(node.taken_unix_seconds, tz=UTC)
    head = (
        f"# {harmless(node.node)}, policy {harmless(node.policy)}, {moment:%Y-%m-%dT%H:%M:%SZ}; kubectl 1.32 or newer"
    )
    by_pod: dict[tuple[str | None, str | None], list[Recommendation]] = {}
    for item in node.items:
        by_pod.setdefault((item.identity.namespace, item.identity.pod), []).append(item)
    lines = [head]
    patches = resize_patches(node.items)
    for patch in patches:
        changes = "; ".join(_changes(patch, by_pod[patch.namespace, patch.pod]))
        lines += [f"# {harmless(f'{patch.namespace}/{patch.pod}')}: {changes}", patch.command]
    if not patches:
        lines.append("# nothing to resize")
    return "\n".join(lines) + "\n"


def _changes(patch: ResizePatch, items: list[Recommendation]) -> Iterator[str]:
    patched = {container["name"] for containers in patch.body["spec"].values() for container in containers}
    for item in items:
        if item.identity.container in patched:
            texts = [text for side in SIDES for text in _change(side, item, side.advice(item))]
            yield f"{harmless(item.identity.container)} {', '.join(texts)}"


def _change(side: AdviceSide, item: Recommendation, advice: Advice) -> Iterator[str]:
    for what, now, should in (
        ("", side.request(item), advice.request),
        (" limit", side.limit(item), advice.limit),
    ):
        if now and should is not None and should != now:
            yield f"{side.title}{what} {side.text(now)} to {side.text(should)}"


def left_out_lines(node: Recommendations) -> list[str]:
    """Return what is in no patch, a line for each reason, with some names."""
    names: dict[str, list[str]] = {}
    for item in node.items:
        reasons = left_out(item)
        for side in SIDES:
            reason, withheld = reasons.get(side.resource), side.advice(item).withheld
            if reason is not None:
                text = _LEFT_OUT_TEXTS[reason] if withheld is None else withheld_by(withheld, node)
                names.setdefault(text, []).append(f"{harmless(called(item.identity))} {side.title}")
    return [f"left out, {text}: {_some(containers)}" for text, containers in names.items()]


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
