"""What marks a placeholder pod, so that agents, admission and arbiter leave it alone. Core, pure.

The label alone decides: who puts it onto a pod of another kind only has that pod left alone, as with
``plimsoll.dev/mode: off``. What Plimsoll itself does to placeholders goes by their owner too (``core.placeholders``).
"""

from __future__ import annotations

from typing import Final

from agent.core.cluster.pod import Pod
from agent.core.orders.annotations import PREFIX

PLACEHOLDER: Final = f"{PREFIX}placeholder"
"""Label of placeholder pods."""


def is_placeholder(pod: Pod) -> bool:
    """Say whether a pod keeps room for others, or says so of itself, whatever the label's value."""
    return PLACEHOLDER in pod.labels
