from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.gitops.yaml_text import YamlNode, YamlText, YamlTextError, plain

LIMITS = """\
# top
resources: # keep
  limits:
    cpu: "1" # one
    # between
    memory: '128Mi'
  requests: {cpu: 100m, memory: 64Mi}
tail: x
"""


def at(text: YamlText, *keys: str) -> YamlNode:
    node = text.documents[0]
    for key in keys:
        member = node.member(key)
        assert member is not None
        node = member
    return node


def test_a_value_is_put_within_its_quotes_and_beside_its_comment() -> None:
    text = YamlText(LIMITS)
    text.put(at(text, "resources", "limits", "cpu"), "250m")
    text.put(at(text, "resources", "limits", "memory"), "1Gi")
    text.put(at(text, "resources", "requests", "cpu"), "7m")
    edited = LIMITS.replace('"1" # one', '"250m" # one').replace("'128Mi'", "'1Gi'").replace("100m", "7m")
    assert text.edited() == edited


def test_a_line_that_goes_leaves_comments_of_others() -> None:
    text = YamlText(LIMITS)
    text.remove(at(text, "resources", "limits"), "cpu")
    text.remove(at(text, "resources", "requests"), "cpu")
    edited = LIMITS.replace('    cpu: "1" # one\n', "").replace("cpu: 100m, ", "")
    assert text.edited() == edited


def test_a_whole_section_goes_line_by_line() -> None:
    text = YamlText(LIMITS)
    text.remove(at(text, "resources"), "limits")
    edited = "# top\nresources: # keep\n    # between\n  requests: {cpu: 100m, memory: 64Mi}\ntail: x\n"
    assert text.edited() == edited


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("is_last_line_ended", [True, False])
def test_lines_are_added_as_the_file_ends_its_lines(ending: str, *, is_last_line_ended: bool) -> None:
    written = "a:\n  b:\n    cpu: 1\n".replace("\n", ending)
    text = YamlText(written if is_last_line_ended else written.removesuffix(ending))
    text.add(at(text, "a", "b"), "memory", "64Mi")
    text.add(at(text, "a"), "limits", {"memory": "1Gi"})
    edited = "a:\n  b:\n    cpu: 1\n    memory: 64Mi\n  limits:\n    memory: 1Gi\n".replace("\n", ending)
    assert text.edited() == (edited if is_last_line_ended else edited.removesuffix(ending))


def test_json_stays_json() -> None:
    text = YamlText('{"a": {"cpu": 1, "memory": "64Mi"}, "b": {}}')
    mapping = at(text, "a")
    text.put(at(text, "a", "cpu"), "250m", quoted=True)
    text.remove(mapping, "memory")
    text.add(mapping, "disk", "5")
    assert text.edited() == '{"a": {"cpu": "250m", "disk": "5"}, "b": {}}'


def test_a_flow_mapping_may_be_emptied_and_filled_again() -> None:
    text = YamlText("a: {cpu: 1}\n")
    text.remove(at(text, "a"), "cpu")
    text.add(at(text, "a"), "memory", "1Gi")
    assert text.edited() == "a: {memory: 1Gi}\n"


def test_an_empty_key_is_filled() -> None:
    text = YamlText("limits: # none yet\nrequests:\n  cpu: 1m\n")
    text.fill(text.documents[0], "limits", {"memory": "1Gi"})
    assert text.edited() == "limits: # none yet\n  memory: 1Gi\nrequests:\n  cpu: 1m\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_yaml_inside_a_block_is_edited_in_place(ending: str) -> None:
    outer = "patches:\n  - patch: |-\n      a:\n        cpu: 1 # one\n\n        memory: 2\n    target: {kind: Job}\n"
    outer = outer.replace("\n", ending)
    text = YamlText(outer)
    scalar = at(text, "patches").items[0].member("patch")
    assert scalar is not None
    inner = text.inner(scalar)
    assert inner is text.inner(scalar)
    inner.put(at(inner, "a", "cpu"), "250m")
    inner.add(at(inner, "a"), "disk", "5")
    edited = outer.replace("cpu: 1", "cpu: 250m").replace("memory: 2", f"memory: 2{ending}        disk: 5")
    assert text.edited() == edited
    assert inner.line_of(at(inner, "a", "memory")) == 6


@pytest.mark.parametrize("head", [">", "|2", '"a: 1"'])
def test_yaml_in_other_scalars_is_refused(head: str) -> None:
    text = YamlText(f"patch: {head}\n" + ("" if head.startswith('"') else "    a: 1\n"))
    with pytest.raises(YamlTextError, match="line 1"):
        text.inner(at(text, "patch"))


@pytest.mark.parametrize("written", ["&x 1", "!!str 1", "|\n    1\n", ">-\n    1\n", '"1\\\n    2"', ""], ids=repr)
def test_values_with_more_than_a_text_are_not_put(written: str) -> None:
    text = YamlText(f"a:\n  cpu: {written}\n")
    with pytest.raises(YamlTextError, match="line 2"):
        text.put(at(text, "a", "cpu"), "2")


def test_two_changes_of_one_place_are_refused() -> None:
    text = YamlText("a: {cpu: 1}\n")
    text.put(at(text, "a", "cpu"), "2")
    text.remove(at(text, "a"), "cpu")
    with pytest.raises(YamlTextError, match="two changes"):
        text.edited()


def test_what_would_mean_something_else_is_refused() -> None:
    text = YamlText("a: {cpu: 1}\n")
    text.put(at(text, "a", "cpu"), "2, evil: 3")
    with pytest.raises(YamlTextError, match="something else"):
        text.edited()
    text.forget_edits()
    assert text.edited() == "a: {cpu: 1}\n"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("a: [", "not YAML"),
        ("a: \x00", "not YAML"),
        ("[" * 70 + "]" * 70, "deeper"),
        ("a: *b", None),
        ("a:\n\t- x", "not YAML"),
        *((f"a: 1 # x{character}# y\nb: 2\n", "lines end in neither") for character in "\r\x85\u2028\u2029"),
    ],
)
def test_what_is_no_yaml_is_refused(written: str, told: str | None) -> None:
    if told is None:
        text = YamlText(written)
        with pytest.raises(YamlTextError, match="not defined"):
            plain(text.documents[0])
    else:
        with pytest.raises(YamlTextError, match=told):
            YamlText(written)


@pytest.mark.slow  # it goes on until it is too much
def test_aliases_that_grow_are_refused() -> None:
    lines = ["l0: &l0 [x, x]", *(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]" for n in range(1, 40))]
    with pytest.raises(YamlTextError, match="too much"):
        plain(YamlText("\n".join(lines)).documents[0])
    with pytest.raises(YamlTextError, match="too much"):
        plain(YamlText("a: &a [*a]").documents[0])


def test_merges_and_scalars_come_out_as_programs_have_them() -> None:
    text = YamlText("d: &d {x: 1, y: no}\na:\n  <<: *d\n  x: true\n  z: '1'\n  n: ~\n  o: 010\n")
    document = plain(text.documents[0])
    assert isinstance(document, dict)
    assert document["a"] == {"x": True, "y": "no", "z": "1", "n": None, "o": "010"}
    assert plain(YamlText("a: 1\n'<<': {b: 2}\n").documents[0]) == {"a": 1, "<<": {"b": 2}}


def test_a_key_twice_is_refused() -> None:
    text = YamlText("a: 1\nb: 2\na: 3\n")
    with pytest.raises(YamlTextError, match="line 3: a stands twice"):
        text.documents[0].member("a")


TEXTS = st.text(st.characters(exclude_characters="\x85\u2028\u2029"), max_size=20)
"""Without what ends a line to a parser alone."""
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "disk"]), st.sampled_from(["1", "250m", "2Gi"]), min_size=1)


@given(
    document=st.fixed_dictionaries({"requests": AMOUNTS, "limits": AMOUNTS, "other": TEXTS}),
    is_flow=st.sampled_from([True, False, None]),
    indent=st.integers(2, 6),
    data=st.data(),
)
def test_any_edit_is_what_was_meant_and_touches_no_other_line(
    document: dict[str, dict[str, str]], is_flow: bool | None, indent: int, data: st.DataObject
) -> None:
    written = yaml.safe_dump({"a": document}, default_flow_style=is_flow, indent=indent, allow_unicode=True)
    text = YamlText(written)
    sections = {name: at(text, "a", name) for name in ("requests", "limits")}
    for name, section in sections.items():
        for key in list(document[name]):
            choice = data.draw(st.sampled_from(["put", "keep", "remove"]))
            if choice == "put":
                text.put(at(text, "a", name, key), "333m")
                document[name][key] = "333m"
            elif choice == "remove" and len(document[name]) > 1:
                text.remove(section, key)
                del document[name][key]
    try:
        edited = text.edited()
    except YamlTextError:
        assert is_flow is not False  # neighbours of one line may share a comma
        return
    content = yaml.load(edited, Loader=yaml.BaseLoader)  # noqa: S506  texts alone
    assert {name: content["a"][name] for name in sections} == {name: document[name] for name in sections}
    assert content["a"]["other"] == yaml.load(written, Loader=yaml.BaseLoader)["a"]["other"]  # noqa: S506
