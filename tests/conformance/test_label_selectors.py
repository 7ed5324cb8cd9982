from __future__ import annotations

import pytest

from tests.label_selectors import SelectorError, matches_selector

LABELS = {"app": "web", "tier": "a", "example.com/size": "7", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "verdict"),
    [
        ("app=web", True),
        ("app==web", True),
        (" app = web ", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("gone!=x", True),
        ("gone=x", False),
        ("gone=", False),
        ("empty=", True),
        ("tier in (a, b)", True),
        ("tier in (b)", False),
        ("gone in (b)", False),
        ("tier notin (a,b)", False),
        ("tier notin (c)", True),
        ("gone notin (c)", True),
        ("app", True),
        ("gone", False),
        ("!gone", True),
        ("! gone", True),
        ("!app", False),
        ("example.com/size>6", True),
        ("example.com/size>7", False),
        ("example.com/size<8", True),
        ("example.com/size < 7", False),
        ("app>1", False),
        ("gone<1", False),
        ("app=web,tier in (a,b),!gone", True),
        ("app=web,tier in (b)", False),
        ("tier in (b),app=web", False),
        ("", False),
        ("  ", False),
    ],
)
def test_labels_meet_a_selector(selector: str, verdict: bool) -> None:
    assert matches_selector(selector, LABELS) is verdict


@pytest.mark.parametrize(
    "text", [",", "app=web,", "app=web tier=a", "=web", "tier in a", "tier in", "app>x", "!", "a=b=c"]
)
def test_what_is_no_selector_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(SelectorError, match=r"is not a label selector \(requirements such as"):
        matches_selector(text, LABELS)
