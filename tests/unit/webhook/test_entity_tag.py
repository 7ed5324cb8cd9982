from __future__ import annotations

import pytest

from agent.webhook.entity_tag import is_held


@pytest.mark.parametrize("names", ['"a"', 'W/"a"', '"b", "a"', ' W/"b" ,W/"a" ', "*"])
@pytest.mark.parametrize("tag", ['"a"', 'W/"a"'])
def test_a_tag_that_is_named_is_held_however_weak(names: str, tag: str) -> None:
    assert is_held(names, tag)


@pytest.mark.parametrize("names", [None, "", '"b"', "a", '"W/a"', '"a'])
def test_any_other_is_not(names: str | None) -> None:
    assert not is_held(names, 'W/"a"')
