"""What the API server says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent.kube.api import Api

VERSION_PATH: Final = "/version"


def server_version(api: Api) -> str | None:
    """Ask for the server's version.

    Returns:
        gitVersion, such as ``v1.37.1`` or with a vendor's suffix; None = it does not say.

    Raises:
        KubeError: It refused, or did not answer.
    """
    document = api.call("GET", VERSION_PATH)
    version = document.get("gitVersion") if isinstance(document, Mapping) else None
    return version if isinstance(version, str) and version else None
