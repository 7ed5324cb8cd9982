"""Every policy by its name, and none that is not asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.registry import UnknownPolicyError, make, policy_name, remembered_days
from agent.settings import Settings


@pytest.mark.parametrize("name", list(PolicyName))
def test_make_gives_the_policy_of_that_name_with_so_many_rows(name: PolicyName) -> None:
    policy = make(name, Settings(), 3, requests_only=True)
    assert (policy.name, policy.rows) == (name, 3)
    assert policy_name(str(name)) is name


def test_unknown_policy_is_told_with_the_allowed_ones() -> None:
    with pytest.raises(UnknownPolicyError, match=r"'krr' is no policy; allowed: cruise, vpa, crane, plimsoll"):
        policy_name("krr")


def test_only_plimsolls_memory_is_of_a_fixed_length() -> None:
    assert {name: remembered_days(name) for name in PolicyName if remembered_days(name)} == {PolicyName.PLIMSOLL: 7}


def test_registry_imports_only_the_policy_that_is_made() -> None:
    code = (
        "import sys\n"
        "from agent.core.recommender.registry import make\n"
        "from agent.core.orders.policy_options import PolicyName\n"
        "from agent.settings import Settings\n"
        "make(PolicyName.CRUISE, Settings(), 1)\n"
        "print([name for name in ('vpa', 'crane', 'plimsoll') if f'agent.core.recommender.{name}' in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
