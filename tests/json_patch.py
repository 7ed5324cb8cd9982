"""A small JSON patch (RFC 6902), as strict as the API server's: what does not apply is an error."""

from __future__ import annotations

import copy
from typing import Any


class PatchError(ValueError):
    """An operation that does not apply."""


def apply_patch(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Return the document after all operations; the one given stays as it is."""
    result = copy.deepcopy(document)
    for operation in operations:
        *path, last = _tokens(operation["path"])
        parent = result
        for token in path:
            parent = _child(parent, token, operation)
        if isinstance(parent, list):
            raise PatchError(f"{operation}: lists are changed by members of theirs only")
        if not isinstance(parent, dict):
            raise PatchError(f"{operation}: no object to change")
        match operation["op"]:
            case "add":
                parent[last] = operation["value"]
            case "replace":
                _child(parent, last, operation)
                parent[last] = operation["value"]
            case "remove":
                _child(parent, last, operation)
                del parent[last]
            case other:
                raise PatchError(f"{other}: not known here")
    return result


def _tokens(path: str) -> list[str]:
    if not path.startswith("/"):
        raise PatchError(f"{path}: no pointer")
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def _child(value: Any, token: str, operation: dict[str, Any]) -> Any:
    try:
        return value[int(token)] if isinstance(value, list) else value[token]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise PatchError(f"{operation}: nothing at {token!r}") from error
