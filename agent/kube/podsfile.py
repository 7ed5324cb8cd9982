"""Pods from a file, as ``kubectl get pods -o json`` or ``-o yaml`` prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from agent.kube.convert import ConvertError, pods_from_json

if TYPE_CHECKING:
    from agent.core.pod import Pod

_YAML_SUFFIXES = (".yaml", ".yml")


class PodsFileError(ValueError):
    """A pods file that cannot be used; the message is one line: file, place, value, what is allowed."""


def load_pods(path: Path) -> tuple[Pod, ...]:
    """Read the pods of a file.

    Args:
        path: A Pod, a PodList or a List of pods as JSON, or the same as YAML in one or more documents.

    Returns:
        The pods in the file's order; empty for an empty list.

    Raises:
        PodsFileError: The file cannot be read, is neither JSON nor YAML, holds something else than pods, or holds one
            pod twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        msg = f"{path.name}: cannot be read: {error.strerror or error} ({path})"
        raise PodsFileError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path.name}: not UTF-8 at byte {error.start} (JSON or YAML is allowed)"
        raise PodsFileError(msg) from error
    try:
        pods = _parse(text, path)
    except ConvertError as error:
        msg = f"{path.name}: {error}"
        raise PodsFileError(msg) from error
    seen: dict[str, str] = {}
    for pod in pods:
        name = f"{pod.namespace}/{pod.name}"
        if pod.uid in seen:
            msg = f"{path.name}: metadata.uid {pod.uid!r} of pod {name} is that of {seen[pod.uid]} too (each once)"
            raise PodsFileError(msg)
        seen[pod.uid] = name
    return pods


def _parse(text: str, path: Path) -> tuple[Pod, ...]:
    if path.suffix not in _YAML_SUFFIXES and (path.suffix == ".json" or text.lstrip().startswith("{")):
        try:
            document = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            msg = f"{path.name}: not JSON: {error}"
            raise PodsFileError(msg) from error
        return pods_from_json(document)
    return _parse_yaml(text, path)


def _parse_yaml(text: str, path: Path) -> tuple[Pod, ...]:
    import yaml  # YAML is seldom met and costs memory that the agent would keep

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = [document for document in yaml.load_all(text, Loader=loader) if document is not None]
    except (yaml.YAMLError, RecursionError) as error:
        msg = f"{path.name}: not YAML: {' '.join(str(error).split())}"
        raise PodsFileError(msg) from error
    if not documents:
        msg = f"{path.name}: empty (a Pod, a PodList or a List is allowed)"
        raise PodsFileError(msg)
    pods: list[Pod] = []
    for index, document in enumerate(documents):
        where = f"document {index + 1}: " if len(documents) > 1 else ""
        try:
            pods += pods_from_json(document)
        except ConvertError as error:
            msg = f"{path.name}: {where}{error}"
            raise PodsFileError(msg) from error
    return tuple(pods)
