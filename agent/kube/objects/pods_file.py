"""Pods from a file, as ``kubectl get pods -o json`` or ``-o yaml`` prints them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.numbers.document_text import DocumentTextError, decoded, json_value, yaml_values
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.pod_json import pods_from_json
from agent.named_file import DOCUMENT_MOST_BYTES, called, read_named

if TYPE_CHECKING:
    from agent.core.cluster.pod import Pod

_YAML_SUFFIXES = (".yaml", ".yml")


class PodsFileError(ValueError):
    """A pods file that cannot be used; the message is one line: file, place, value, what is allowed."""


def load_pods(path: Path) -> tuple[Pod, ...]:
    """Read the pods of a file.

    Args:
        path: A Pod, a PodList or a List of pods as JSON, or the same as YAML in one or more documents.

    Raises:
        PodsFileError: The file cannot be read, is neither JSON nor YAML, holds something else than pods, or holds one
            pod twice.
    """
    name = called(path)
    try:
        pods = _parse(decoded(read_named(path, most_bytes=DOCUMENT_MOST_BYTES)), path)
    except OSError as error:
        msg = f"{name}: cannot be read: {error.strerror or error} ({path})"
        raise PodsFileError(msg) from error
    except (DocumentTextError, ConvertError) as error:
        msg = f"{name}: {error}"
        raise PodsFileError(msg) from error
    seen: dict[str, str] = {}
    for index, pod in enumerate(pods):
        known = seen.setdefault(pod.uid, f"{pod.namespace}/{pod.name}")
        if len(seen) <= index:
            msg = (
                f"{name}: metadata.uid {pod.uid!r} of pod {pod.namespace}/{pod.name} is that of {known} too (each once)"
            )
            raise PodsFileError(msg)
    return pods


def _parse(text: str, path: Path) -> tuple[Pod, ...]:
    if path.suffix not in _YAML_SUFFIXES and (path.suffix == ".json" or text.lstrip().startswith("{")):
        return pods_from_json(json_value(text))
    documents = [document for document in yaml_values(text) if document is not None]
    if not documents:
        raise ConvertError("empty (a Pod, a PodList or a List is allowed)")
    pods: list[Pod] = []
    for index, document in enumerate(documents):
        try:
            pods += pods_from_json(document)
        except ConvertError as error:
            where = f"document {index + 1}: " if len(documents) > 1 else ""
            raise ConvertError(f"{where}{error}") from error
    return tuple(pods)
