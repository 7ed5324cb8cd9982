"""Plimsoll itself on the node: a copy of the package that stays as it is while people go on editing."""

from __future__ import annotations

import compileall
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.cluster.api import Json
from tests.e2e.node import EXCHANGE, SYSTEM_RESERVED, Node, NodeError
from tests.guest.machine import REPOSITORY

PYTHON: Final = Path(sys.executable)
PODS_FILE: Final = "pods.json"
SECONDS: Final = 600.0
"""Python starts in some seconds under emulation."""
TIER_SECONDS: Final = 90.0


def copy_program(directory: Path) -> Path:
    """Copy the package below ``directory``; before the guest boots, whose cache does not see changes.

    Raises:
        NodeError: The agent does not even import: said before minutes are spent.
    """
    tree = directory / "program"
    shutil.copytree(REPOSITORY / "agent", tree / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(tree, quiet=2)
    command = [str(PYTHON), "-c", "import agent.node.daemon"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NodeError(f"e2e: the agent cannot be imported:\n{done.stderr.strip()[-1500:]}")
    return tree


def run_as_root(node: Node, tree: Path, arguments: Sequence[str]) -> tuple[int, str]:
    """Run ``plimsoll ARGUMENTS`` in the guest, outside any pod; give exit code and output."""
    words = shlex.join([str(PYTHON), "-m", "agent", *arguments])
    script = f"cd {shlex.quote(str(tree))} && PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 exec {words}"
    return node.try_run(script, timeout_seconds=SECONDS)


def audit(node: Node, tree: Path) -> Json:
    """Compare the node's cgroups with what the API says of its pods now; give the audit's document.

    Raises:
        NodeError: The audit could not be made.
    """
    pods = node.plane.admin.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node.name}")
    pods |= {"kind": "PodList", "apiVersion": "v1"}
    for pod in pods["items"]:
        pod |= {"kind": "Pod", "apiVersion": "v1"}
    (node.exchange / PODS_FILE).write_text(json.dumps(pods))
    capacity = node.object()["status"]["capacity"]
    code, output = run_as_root(
        node,
        tree,
        [
            *("audit", "--pods", str(EXCHANGE / PODS_FILE), "--node", node.name, "--driver", node.driver.value),
            *("--capacity-cpu", capacity["cpu"], "--capacity-memory", capacity["memory"]),
            *("--system-reserved", ",".join(f"{name}={amount}" for name, amount in SYSTEM_RESERVED.items())),
            *("-o", "json"),
        ],
    )
    if code not in {0, 1}:
        raise NodeError(f"e2e: plimsoll audit ended with {code}:\n{output}")
    document: Json = json.loads(output[output.index("{") :])
    return document


def drifts(document: Json) -> list[str]:
    """Return what an audit found wrong, one line each: ``POD/CONTAINER/FILE: STATE, expected X, found Y``."""
    return [
        f"{place_of(finding)}/{finding['value']}: {finding['state']}, "
        f"expected {finding['expected']}, found {finding['found']}"
        for finding in document["findings"]
        if finding["state"] not in {"equal", "unknown"}
    ]


def place_of(finding: Json) -> str:
    """Name whom a finding is about: the pod and its container, else the cgroup."""
    names = [finding[key] for key in ("pod", "container") if finding[key]]
    return "/".join(names) if names else str(finding["cgroup_path"])


def wait_without_drift(node: Node, tree: Path) -> str:
    """Audit until nothing drifts; give how the values stand and what was corrected meanwhile.

    Weights of the QoS tiers may be behind: the kubelet sums them anew once a minute, and starts from the least when it
    was restarted.

    Raises:
        AssertionError: Something still drifts after ``TIER_SECONDS``.
    """
    begun = time.monotonic()
    first: list[str] | None = None
    while True:
        document = audit(node, tree)
        drift_lines = drifts(document)
        first = drift_lines if first is None else first
        if not drift_lines:
            break
        late = [finding for finding in document["findings"] if finding["next_writer"] == "kubelet, within a minute"]
        assert len(late) >= len(drift_lines), "\n".join(drift_lines)
        assert time.monotonic() - begun < TIER_SECONDS, "\n".join(drift_lines)
    counts = ", ".join(f"{count} {state}" for state, count in document["summary"].items() if count)
    return f"{counts}; at first {'; '.join(first)}" if first else counts
