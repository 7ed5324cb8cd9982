"""Whether the whole cluster is paused, from two witnesses: the mounted ConfigMap and the webhook's answers. Node.

The kubelet brings the key ``pause`` of the ConfigMap ``plimsoll`` into a file within a minute or two, and needs no
webhook for it. The webhook's answers come with reports: sooner or later than that. Either is enough to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.core.orders.cluster_rules import LONGEST_PAUSE, pause_reason_of

_MOST_BYTES = 8 * LONGEST_PAUSE


class ClusterPause:
    """Both witnesses as one; may be asked from any thread, and reads the file each time."""

    def __init__(
        self,
        # Holds the pause, where there is one; its folder is there in any case. None = there is none such.
        file: Path | None,
        *,
        told: Callable[[], str | None],  # Gives the pause that the webhook told of; None = it told of none
    ) -> None:
        self._file, self._told = file, told

    def reason(self) -> str | None:
        """Return why the whole cluster is paused; None = it is not. What cannot be read may be one, and so it is."""
        return self._of_file() or self._told()

    def _of_file(self) -> str | None:
        if self._file is None:
            return None
        try:
            with self._file.open("rb") as file:
                text = file.read(_MOST_BYTES).decode(errors="replace")
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self._file.parent.is_dir():
                return None
            return f"whether it is cannot be read: {error.strerror}: {self._file}"
        return pause_reason_of(text)
