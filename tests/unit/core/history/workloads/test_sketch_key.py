import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass
from agent.core.history.workloads.sketch_key import KeyTexts, SketchKey, keys_of, parse_key, range_of

WEB = Workload(namespace="shop", kind="Deployment", name="web")
DNS = Workload(namespace="kube-system", kind="DaemonSet", name="dns")
M5 = NodeClass(instance_type="m5.large", cpus=8)


def test_texts_are_readable() -> None:
    assert str(SketchKey(WEB, "app", M5)) == "shop/Deployment/web/app/c/8/m5.large"
    assert str(SketchKey(WEB, "app", NodeClass(instance_type=None, cpus=8))) == "shop/Deployment/web/app/c/8"
    assert str(SketchKey(DNS, "app", "node-a")) == "kube-system/DaemonSet/dns/app/n/node-a"


def test_texts_of_every_form_are_read() -> None:
    for place in (M5, NodeClass(instance_type=None, cpus=8), "node-a"):
        assert parse_key(str(SketchKey(WEB, "app", place))) == SketchKey(WEB, "app", place)


names = st.text(max_size=4) | st.text(alphabet="a%/025F\0", max_size=6)
places = st.one_of(
    names,
    st.builds(NodeClass, instance_type=st.none() | names, cpus=st.integers(min_value=0, max_value=4096)),
)
keys = st.builds(
    SketchKey,
    st.builds(Workload, namespace=names, kind=names, name=names),
    names,
    places,
)


@given(keys)
def test_a_text_gives_its_key_back_without_nul(key: SketchKey) -> None:
    assert parse_key(str(key)) == key
    assert "\0" not in str(key)


@given(keys, keys)
def test_texts_are_equal_where_keys_are(one: SketchKey, other: SketchKey) -> None:
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize(
    "text",
    ["", "a/b/c/d", "a/b/c/d/c", "a/b/c/d/c/x", "a/b/c/d/c/x/m5", "a/b/c/d/e/1", "a/b/c/d/c/1/m5/x", "a/b/c/n/x"],
)
def test_what_is_no_key_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="c/CPUS, c/CPUS/TYPE or n/NODE is allowed"):
        parse_key(text)


def test_only_daemon_sets_have_a_history_per_node() -> None:
    assert keys_of(WEB, "app", "node-a", M5) == (SketchKey(WEB, "app", M5),)
    assert keys_of(DNS, "app", "node-a", M5) == (SketchKey(DNS, "app", M5), SketchKey(DNS, "app", "node-a"))


@given(keys, keys)
def test_keys_of_a_workload_and_no_others_lie_in_its_range(one: SketchKey, other: SketchKey) -> None:
    start, end = (text.encode(errors="surrogatepass") for text in range_of(one.workload))
    assert start <= str(one).encode(errors="surrogatepass") < end
    assert (start <= str(other).encode(errors="surrogatepass") < end) == (one.workload == other.workload)


def test_keys_of_a_workload_lie_in_its_range_and_those_of_its_neighbours_do_not() -> None:
    first, after = (text.encode() for text in range_of(WEB))
    for key in (SketchKey(WEB, "", M5), SketchKey(WEB, "~", "node-a")):
        assert first <= str(key).encode() < after
    for name in ("we", "web-1", "web0"):
        other = Workload(namespace="shop", kind="Deployment", name=name)
        assert not first <= str(SketchKey(other, "app", M5)).encode() < after


def test_rows_of_a_report_have_the_texts_of_their_keys() -> None:
    texts = KeyTexts("node-a", M5)
    dns = Workload(namespace="kube-system", kind="DaemonSet", name="dns")
    for workload, container in ((WEB, "app"), (WEB, "a/b"), (dns, "app"), (WEB, "app")):
        assert texts.of(workload, container) == tuple(str(key) for key in keys_of(workload, container, "node-a", M5))


rows_of_report = st.lists(
    st.tuples(
        st.builds(Workload, namespace=names, kind=st.sampled_from(["DaemonSet", "Deployment"]), name=names), names
    ),
    max_size=4,
)


@given(names, st.builds(NodeClass, instance_type=st.none() | names, cpus=st.integers(1, 9)), rows_of_report)
def test_the_texts_of_a_report_are_those_of_its_keys(
    node: str, node_class: NodeClass, rows: list[tuple[Workload, str]]
) -> None:
    texts = KeyTexts(node, node_class)
    for workload, container in [*rows, *rows[::-1]]:  # the middle one comes twice, as containers of a workload do
        expected = tuple(str(key) for key in keys_of(workload, container, node, node_class))
        assert texts.of(workload, container) == expected
