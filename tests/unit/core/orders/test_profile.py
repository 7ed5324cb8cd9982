"""Profiles: sets of settings under one word."""

from __future__ import annotations

from agent.core.orders.profile import (
    PROFILE_VALUES,
    Profile,
    ProfileSetting,
    profile_notes,
    profile_settings,
    value_text,
)


def test_the_default_profile_sets_nothing() -> None:
    assert PROFILE_VALUES[Profile.DEFAULT] == {}
    assert profile_settings(Profile.DEFAULT, {"plan": {"fitRule": "literal"}}) == ()


def test_settings_of_a_profile_say_which_of_them_are_not_as_it_has_them() -> None:
    in_force = {
        "plan": {"fitRule": "literal"},
        "cruise": {"neighbourHours": 2, "historyDays": 7},
        "profile": "document",
    }
    assert profile_settings(Profile.DOCUMENT, in_force) == (
        ProfileSetting(key="plan.fitRule", value="literal", source="profile document"),
        ProfileSetting(key="cruise.neighbourHours", value="2", source="setting"),
    )


def test_sections_that_a_program_does_not_have_are_passed_over() -> None:
    assert profile_settings(Profile.DOCUMENT, {"overload": {}, "plan": "odd"}) == ()


def test_a_note_tells_what_the_profile_sets_and_what_wins_over_it() -> None:
    assert profile_notes(()) == ()
    in_force = {
        "plan": {"fitRule": "literal"},
        "cruise": {"neighbourHours": 2},
        "windows": {"rateWindowSeconds": 300.0},
    }
    assert profile_notes(profile_settings(Profile.DOCUMENT, in_force)) == (
        "profile document: plan.fitRule literal, windows.rateWindowSeconds 300; setting: cruise.neighbourHours 2",
    )


def test_values_are_written_as_a_file_has_them() -> None:
    assert [value_text(value) for value in (True, False, 300.0, 0, "literal")] == [
        "true",
        "false",
        "300",
        "0",
        "literal",
    ]
