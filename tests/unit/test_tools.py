"""The cold set-up: told before it begins, and only what is missing is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.tools import Progress, Tool, make_missing, minutes, tools


@dataclass
class Bench:
    """Tools that are there or not, and a clock that each of them moves."""

    there: set[str]
    now: float = 0.0
    made: list[str] = field(default_factory=list)

    def tool(self, name: str, seconds: int) -> Tool:
        def make(_progress: Progress) -> None:
            self.now += seconds
            self.made.append(name)

        return Tool(name=name, seconds=seconds, is_there=lambda: name in self.there, make=make)


def test_only_what_is_missing_is_made_and_told_with_what_is_left() -> None:
    bench = Bench({"kubectl"})
    said: list[str] = []
    wanted = [bench.tool("etcd", 60), bench.tool("kubectl", 40), bench.tool("kube-apiserver", 320)]
    make_missing(wanted, said.append, clock=lambda: bench.now)
    assert bench.made == ["etcd", "kube-apiserver"]
    assert said == [
        "missing: etcd, kube-apiserver; about 6 minutes on two cores, once",
        "1/2 etcd: about 1 minute, 6 minutes for all that is left",
        "1/2 etcd: done in 60 s",
        "2/2 kube-apiserver: about 5 minutes, 5 minutes for all that is left",
        "2/2 kube-apiserver: done in 320 s",
    ]


def test_where_all_is_there_nothing_is_said() -> None:
    bench, said = Bench({"etcd"}), list[str]()
    make_missing([bench.tool("etcd", 60)], said.append)
    assert (bench.made, said) == ([], [])


def test_times_are_told_in_words() -> None:
    assert [minutes(seconds) for seconds in (5, 25, 60, 100, 640)] == [
        "some seconds",
        "half a minute",
        "1 minute",
        "2 minutes",
        "11 minutes",
    ]


def test_every_tool_has_a_name_and_an_estimate() -> None:
    names = [tool.name for tool in tools()]
    assert len(set(names)) == len(names)
    assert all(tool.seconds > 0 for tool in tools())
