"""The version of the installed package; pyproject.toml is its one home."""

from __future__ import annotations


def installed_version() -> str:
    """Return the version, or ``0+unknown`` for a tree that was never installed."""
    from importlib.metadata import PackageNotFoundError, version  # costs 2 MB: only when asked

    try:
        return version("plimsoll")
    except PackageNotFoundError:
        return "0+unknown"
