"""What samples this node, as one value: for those who evaluate it, show it and act on it. Node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.node.sampling.listener import Tally
from agent.node.sampling.loop import SamplingLoop
from agent.node.sampling.pod_cgroups import PodCgroups
from agent.node.sampling.run_ends import RunEnds
from agent.node.sampling.unit_table import UnitTable
from agent.sensing.discovery import Discovery
from agent.sensing.machine import Machine
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler_contract import Sampler


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParts:
    """The parts; the sampling thread owns sampler and discovery, others only read what they count."""

    machine: Machine
    mount: Path
    """Of cgroup v2."""
    rings: RingFile
    units: UnitTable
    discovery: Discovery
    sampler: Sampler
    loop: SamplingLoop
    pods: PodCgroups
    tally: Tally
    ends: RunEnds
    """What is left of containers that have ended."""
    open_files_limit: int
