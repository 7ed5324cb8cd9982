"""What kube-proxy would do, without iptables: a Service's address on both sides leads to the one pod behind it.

The API server calls the webhook at its Service's address, from the host's side of the namespace; the agent calls it at
an address of the node, by a name that the chart's ``agent.hostAliases`` gives it (no cluster DNS runs here).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cluster.processes import Process
from tests.e2e.node import GUEST_ADDRESS, WEBHOOK_PORT, Node, NodeError

NODE_ADDRESS: Final = "10.99.0.1"
"""Of the guest: where agents find the webhook."""
TARGET: Final = "/run/plimsoll-webhook-address"


def prepare(node: Node) -> None:
    """Have the guest lead two of its addresses to whatever pod ``lead_to`` names."""
    listeners = [(NODE_ADDRESS, 443), (GUEST_ADDRESS, WEBHOOK_PORT)]
    lines = [
        f"ip addr add {NODE_ADDRESS}/32 dev lo",
        *(
            f"busybox setsid {node.parts.forward} {address} {port} {TARGET} </dev/null >/dev/null 2>&1 &"
            for address, port in listeners
        ),
    ]
    node.run("\n".join(lines))


def lead_to(node: Node, address: str) -> None:
    """Name the pod."""
    node.write(TARGET, f"{address} {WEBHOOK_PORT}")


@contextmanager
def service(node: Node, address: str, folder: Path) -> Iterator[None]:
    """Have a Service's address on the host's side lead into the guest, inside the block."""
    command = ["ip", "addr", "add", f"{address}/32", "dev", "lo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NodeError(f"e2e: {' '.join(command)} failed: {done.stderr.strip()}")
    target = folder / "service"
    target.write_text(f"{GUEST_ADDRESS} {WEBHOOK_PORT}\n")
    process = Process("service", [node.parts.forward, address, "443", target], folder / "service.log")
    try:
        yield
    finally:
        process.stop()
        subprocess.run(["ip", "addr", "del", f"{address}/32", "dev", "lo"], capture_output=True, check=False)
