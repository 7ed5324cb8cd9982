"""What cgroups between ``kubepods`` and the pods are called."""

from __future__ import annotations

import pytest

from agent.core.cluster.unit import tier_name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/kubepods", "kubepods"),
        ("/kubepods/burstable/", "kubepods/burstable"),
        ("/kubelet/kubepods/system/besteffort", "kubepods/system/besteffort"),
        ("/kubepods.slice", "kubepods"),
        ("/kubepods.slice/kubepods-besteffort.slice", "kubepods/besteffort"),
        ("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-system.slice", "kubepods/system"),
        ("/elsewhere/there", "there"),
        ("/elsewhere/there.slice", "there.slice"),
    ],
)
def test_a_tier_goes_by_its_path_from_kubepods_on_whoever_spells_it(path: str, name: str) -> None:
    assert tier_name(path) == name
