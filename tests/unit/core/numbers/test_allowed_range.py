from __future__ import annotations

from agent.core.numbers.allowed_range import Words


def test_words_say_their_numbers() -> None:
    words = Words(lean=10.0, balanced=60.0)
    assert words.values == {"lean": 10.0, "balanced": 60.0}
    assert str(words) == "lean (10), balanced (60)"
