from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.launch import MOST_CHARACTERS, MOST_SPLIT, Launch, LimitReference, TextBudget, profile_of
from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.numbers.units import INT64_MAX
from tests.examples import examples

JAVA, GO, NODE, PYTHON = (LanguageRuntime(name) for name in ("java", "go", "node", "python"))
MI, GI = 1 << 20, 1 << 30
LIMIT = LimitReference()
LIMIT_MIB = LimitReference(MI)
LINE = "the command line"


def profile(
    *words: str, ordered: LanguageRuntime | None = None, image: str | None = None, **environment: Any
) -> RuntimeProfile | None:
    return profile_of(Launch(command=words[:1], args=words[1:], environment=environment, image=image), ordered)


def heap(runtime_profile: RuntimeProfile | None) -> tuple[int | None, str]:
    assert runtime_profile is not None
    assert not runtime_profile.fault
    assert runtime_profile.limit_share_ratio is None
    return runtime_profile.heap_bytes, runtime_profile.heap_source


def share(runtime_profile: RuntimeProfile | None) -> float | None:
    assert runtime_profile is not None
    assert not runtime_profile.fault
    assert runtime_profile.heap_bytes is None
    return runtime_profile.limit_share_ratio


# What it is


@pytest.mark.parametrize(
    ("words", "runtime"),
    [
        (["java", "-jar", "app.jar"], JAVA),
        (["/opt/jdk/bin/java", "Main"], JAVA),
        (["/entrypoint.sh", "-Xmx1g"], JAVA),
        (["run", "-XX:+UseG1GC"], JAVA),
        (["sh", "-c", "exec java -jar app.jar"], JAVA),
        (["/bin/bash", "-ec", "cd /srv && node server.js"], NODE),
        (["npm", "start"], NODE),
        (["/run", "--max_old_space_size=300"], NODE),
        (["python3.12", "-m", "http.server"], PYTHON),
        (["gunicorn", "app:app"], PYTHON),
        (["/server"], None),
        (["sh"], None),
        (["sh", "-c"], None),
        ([], None),
    ],
)
def test_the_command_line_names_the_runtime(words: list[str], runtime: LanguageRuntime | None) -> None:
    runtime_profile = profile(*words)

    assert (runtime_profile and runtime_profile.runtime) == runtime


@pytest.mark.parametrize(
    ("image", "runtime"),
    [
        ("eclipse-temurin:21-jre", JAVA),
        ("docker.io/library/openjdk:17@sha256:abc", JAVA),
        ("gcr.io/distroless/java21-debian12", JAVA),
        ("registry:5000/tomcat", JAVA),
        ("node:22-alpine", NODE),
        ("gcr.io/distroless/nodejs22-debian12:nonroot", NODE),
        ("golang:1.25", GO),
        ("python:3.13-slim", PYTHON),
        ("shop/javascript-shop:1", None),
        ("shop/node-exporter:1", None),
        (None, None),
    ],
)
def test_an_image_s_name_tells_where_nothing_else_does(image: str | None, runtime: LanguageRuntime | None) -> None:
    runtime_profile = profile(image=image)

    assert (runtime_profile and runtime_profile.runtime) == runtime


def test_the_environment_tells_unless_it_is_for_two() -> None:
    assert profile(GOMEMLIMIT="1GiB").runtime is GO  # type: ignore[union-attr]
    assert profile("/server", JAVA_TOOL_OPTIONS=None).runtime is JAVA  # type: ignore[union-attr]
    assert profile(NODE_ENV="production", JAVA_OPTS="-Xmx1g", image="node").runtime is NODE  # type: ignore[union-attr]
    assert profile(NODE_ENV="production", JAVA_OPTS="-Xmx1g") is None


def test_the_annotation_wins_and_none_means_none() -> None:
    assert profile("java", "-Xmx1g", ordered=LanguageRuntime.NONE) is None
    assert profile("java", "-Xmx1g", ordered=PYTHON) == RuntimeProfile(runtime=PYTHON)
    assert heap(profile("/run.sh", "-Xmx1g", ordered=JAVA)) == (GI, f"-Xmx in {LINE}")


# Java


@pytest.mark.parametrize(
    ("text", "heap_bytes"),
    [
        ("-Xmx512m", 512 * MI),
        ("-Xmx512M", 512 * MI),
        ("-Xmx2g", 2 * GI),
        ("-Xmx1T", 1 << 40),
        ("-Xmx4096k", 4 * MI),
        ("-Xmx1073741824", GI),
        ("-XX:MaxHeapSize=3g", 3 * GI),
        ("-Xmx1g -Xmx2g", 2 * GI),  # the last one wins
        ("-XX:MaxHeapSize=3g -Xmx1g", GI),
        ("-Xmx1g -XX:MaxRAMPercentage=80", GI),  # a size wins over a share
        ("-Xmx1gb -Xmx1g", GI),
        ("-XX:MaxRAM=4g", GI),  # a quarter of it
        ("-XX:MaxRAM=4g -XX:MaxRAMPercentage=50.0", 2 * GI),
        ("-XX:MaxRAM=200m", 100 * MI),  # of little, half
        ("-mx512m", 512 * MI),
        ("-Xmx0x10000000", 256 * MI),
        ("-Xms3g -Xmx4g", 4 * GI),
    ],
)
def test_java_s_sizes_are_read_as_hotspot_reads_them(text: str, heap_bytes: int) -> None:
    assert heap(profile("java", *text.split(), "-jar", "app.jar"))[0] == heap_bytes
    assert heap(profile(JAVA_TOOL_OPTIONS=text))[0] == heap_bytes


@pytest.mark.parametrize(
    ("environment", "heap_mib", "place"),
    [
        ({}, 4, LINE),
        ({"JAVA_TOOL_OPTIONS": "-Xmx1m"}, 4, LINE),
        ({"JDK_JAVA_OPTIONS": "-Xmx2m"}, 4, LINE),
        ({"JAVA_OPTS": "-Xmx3m"}, 4, LINE),
        ({"_JAVA_OPTIONS": "-Xmx5m", "JAVA_TOOL_OPTIONS": "-Xmx1m"}, 5, "_JAVA_OPTIONS"),
    ],
)
def test_java_options_come_before_the_command_line_and_only_those_with_an_underscore_after_it(
    environment: dict[str, Any], heap_mib: int, place: str
) -> None:
    assert heap(profile("java", "-Xmx4m", "Main", **environment)) == (heap_mib * MI, f"-Xmx in {place}")


def test_without_a_command_line_the_launcher_s_options_win_over_those_of_the_tools() -> None:
    environment: dict[str, Any] = {"JDK_JAVA_OPTIONS": "-Xmx2m", "JAVA_TOOL_OPTIONS": "-Xmx1m"}

    assert heap(profile(**environment)) == (2 * MI, "-Xmx in JDK_JAVA_OPTIONS")
    assert heap(profile(KAFKA_HEAP_OPTS="-Xmx1G -Xms1G", **environment)) == (GI, "-Xmx in KAFKA_HEAP_OPTS")


@pytest.mark.parametrize(
    "words",
    [
        ["java", "-jar", "app.jar", "-Xmx1g"],
        ["java", "-cp", "/lib/*", "Main", "-Xmx1g"],
        ["java", "-m", "shop/Main", "-Xmx1g"],
        ["java", "-cp", "-Xmx1g", "Main"],
    ],
)
def test_what_comes_after_the_program_is_the_program_s_own(words: list[str]) -> None:
    assert share(profile(*words)) == 0.25


def test_a_flag_of_which_the_last_word_lacks_its_value_is_nothing() -> None:
    assert share(profile("java", "-cp")) == 0.25


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("", 0.25),
        ("-XX:MaxRAMPercentage=70", 0.7),
        ("-XX:MaxRAMPercentage=70.0", 0.7),
        ("-XX:MaxRAMPercentage=70 -XX:MaxRAMPercentage=50", 0.5),
        ("-XX:MaxRAMFraction=2", 0.5),
        ("-XX:MaxRAMPercentage=40 -XX:MaxRAMFraction=1", 0.4),  # the percentage wins, wherever it stands
        ("-Xmsmuch", 0.25),
        ("-XX:-UseContainerSupport -XX:+UseContainerSupport", 0.25),
        ("-XX:-UseContainerSupport", None),  # a share of the node's memory
        ("-XX:-UseContainerSupport -XX:MaxRAMPercentage=50", None),
    ],
)
def test_java_without_a_size_takes_a_share_of_its_limit(text: str, ratio: float | None) -> None:
    assert share(profile("java", *text.split(), "Main")) == ratio


@pytest.mark.parametrize(
    "flag",
    [
        "-Xmx",
        "-Xmx1gb",
        "-Xmx-1g",
        "-Xmx1.5g",
        "-Xmx99999999999g",
        "-Xmx$(HEAP)",
        "-XX:MaxHeapSize",
        "-XX:MaxHeapSize=many",
        "-XX:MaxRAMPercentage=0",
        "-XX:MaxRAMPercentage=101",
        "-XX:MaxRAMPercentage=half",
        "-XX:MaxRAMFraction=0",
        "-XX:MaxRAM=all",
    ],
)
def test_what_is_not_understood_is_a_fault_that_names_the_flag_and_not_the_value(flag: str) -> None:
    runtime_profile = profile("java", flag, "Main")

    assert runtime_profile is not None
    assert (runtime_profile.heap_bytes, runtime_profile.limit_share_ratio) == (None, None)
    name = "-Xmx" if flag.startswith("-Xmx") else flag.partition("=")[0]
    assert runtime_profile.fault.startswith(f"{name} in {LINE} is not understood (")


def test_a_size_of_nothing_is_no_size() -> None:
    assert share(profile("java", "-XX:MaxHeapSize=0", "Main")) == 0.25


@pytest.mark.parametrize(("flag", "least"), [("-Xms3g", 3 * GI), ("-XX:InitialHeapSize=9t", 9 << 40)])
def test_a_heap_is_at_least_what_it_begins_with(flag: str, least: int) -> None:
    runtime_profile = profile("java", flag, "Main")

    assert share(runtime_profile) == 0.25
    assert runtime_profile is not None
    assert (runtime_profile.initial_heap_bytes, runtime_profile.heap_within(GI)) == (least, least)


def test_options_of_start_scripts_count_only_where_a_script_starts_java() -> None:
    assert share(profile("java", "-jar", "app.jar", JAVA_OPTS="-Xmx2g")) == 0.25
    assert heap(profile("/start.sh", JAVA_OPTS="-Xmx2g")) == (2 * GI, "-Xmx in JAVA_OPTS")


@pytest.mark.parametrize(
    "text", ['-Dx="a\\" -Xmx64m', "-Dx=a\\ -Xmx64m", "-Dx='a -Xmx9m' \"-Xmx64m\"", "-Dx='a b -Xmx64m"]
)
def test_java_options_are_split_at_blanks_outside_quotes_and_nothing_escapes_one(text: str) -> None:
    assert heap(profile(JAVA_TOOL_OPTIONS=text))[0] == 64 * MI


@pytest.mark.parametrize(
    ("found", "place"),
    [
        (profile("/server", JAVA_TOOL_OPTIONS=None), "JAVA_TOOL_OPTIONS"),
        (profile("java", "-Xmx1g", "Main", _JAVA_OPTIONS=None), "_JAVA_OPTIONS"),
        (profile("java", "@flags", "Main"), LINE),
        (profile("java", "-XX:VMOptionsFile=/flags", "Main"), LINE),
        (profile("java", "-Xmx1g", "$(MORE)", "Main", MORE=None), LINE),
        (profile("sh", "-c", "java $OPTIONS -jar app.jar"), LINE),
        (profile("sh", "-c", 'java "$@" -jar app.jar'), LINE),
        (profile(JDK_JAVA_OPTIONS="$(MORE)"), "JDK_JAVA_OPTIONS"),
        (profile("/server", GOMEMLIMIT=None), "GOMEMLIMIT"),
        (profile("node", "app.js", NODE_OPTIONS=None), "NODE_OPTIONS"),
        (profile("sh", "-c", "node ${FLAGS} app.js"), LINE),
    ],
)
def test_flags_that_stand_where_nobody_can_read_them_are_told_and_hold_the_limit(
    found: RuntimeProfile, place: str
) -> None:
    assert (found.hidden, found.fault) == (place, "")
    assert found.reads_limit_at_start
    assert found.heap_within(GI) is None


def test_a_later_size_wins_over_what_cannot_be_read() -> None:
    assert heap(profile("java", "@flags", "-Xmx1g", "Main", JAVA_TOOL_OPTIONS=None))[0] == GI
    assert heap(profile("node", "--max-old-space-size=300", "app.js", NODE_OPTIONS=None))[0] == 300 * MI
    assert share(profile("node", "--max-old-space-size-percentage=30", NODE_OPTIONS=None)) == 0.3
    faulty = profile("java", "-Xmx1gb", "Main", _JAVA_OPTIONS=None)
    assert faulty is not None
    assert (faulty.hidden, bool(faulty.fault)) == ("", True)


@pytest.mark.parametrize("flag", ["-XX:MaxRAM=4g", "-XX:-UseContainerSupport"])
def test_a_share_that_is_not_understood_stays_so_whatever_it_is_a_share_of(flag: str) -> None:
    runtime_profile = profile("java", "-XX:MaxRAMPercentage=half", flag, "Main")

    assert runtime_profile is not None
    assert runtime_profile.fault.startswith("-XX:MaxRAMPercentage in")


# Names that are filled in


def test_names_are_filled_in_as_kubernetes_does_it() -> None:
    assert heap(profile("java", "-Xmx$(HEAP)m", HEAP="64"))[0] == 64 * MI
    assert heap(profile(JAVA_TOOL_OPTIONS="-Xmx1g -Da=$$(b)"))[0] == GI
    # Of what stands after it nothing is filled in.
    late = profile_of(Launch(environment={"JAVA_TOOL_OPTIONS": "-Xmx$(HEAP)", "HEAP": "1g"}), None)
    assert late is not None
    assert late.fault
    early = profile_of(Launch(environment={"HEAP": "1g", "JAVA_TOOL_OPTIONS": "-Xmx$(HEAP)"}), None)
    assert heap(early)[0] == GI


@pytest.mark.parametrize(
    "script", ["exec java $OPTS -jar app.jar", "java ${OPTS} Main", "cd /srv; java -Xmx${HEAP} Main"]
)
def test_a_shell_fills_in_its_environment(script: str) -> None:
    assert heap(profile("/bin/sh", "-c", script, OPTS="-Xss1m -Xmx1g", HEAP="1g"))[0] == GI


@pytest.mark.parametrize(
    "words",
    [
        ["sh", "-c", "exec java \\\n  -Xss1m \\\n  -Xmx1g \\\n  -jar app.jar\n"],
        ["sh", "-c", "# java -Xmx9g\nexec java -Xmx1g -jar app.jar"],
        ["tini", "--", "/bin/sh", "-ec", "java -Xmx1g -jar app.jar"],
        ["sh", "-c", "java -Xmx1g; sleep 1"],
        ["sh", "-c", "java $(OTHER) -Xmx1g -jar app.jar"],
        ["sh", "-c", "export OPTS='-Xss1m -Xmx1g'; exec java $OPTS -jar app.jar"],
        ["sh", "-c", "JAVA_TOOL_OPTIONS=-Xmx1g java -jar app.jar"],
        ["sh", "-c", "java -Xmx${HEAP:-1g} -jar app.jar"],
        ["env", "JAVA_TOOL_OPTIONS=-Xmx1g", "java", "Main"],
        ["env", "JAVA_TOOL_OPTIONS=-Xmx1g"],
    ],
)
def test_scripts_are_read_as_a_shell_reads_them(words: list[str]) -> None:
    assert heap(profile(*words))[0] == GI


def test_a_default_of_a_shell_is_not_taken_where_the_environment_has_the_name() -> None:
    runtime_profile = profile("sh", "-c", "java -Xmx${HEAP:-1g} -jar app.jar", HEAP=None)

    assert runtime_profile is not None
    assert runtime_profile.fault


def test_a_script_whose_quotes_do_not_match_is_read_word_by_word() -> None:
    assert heap(profile("sh", "-c", "java -Xmx1g -Dname='a Main"))[0] == GI


@pytest.mark.parametrize(
    ("found", "ratio"),
    [
        (profile("java", "-Xmx$(LIMIT)", "Main", LIMIT=LIMIT), 1.0),
        (profile("java", "-Xmx$(LIMIT)m", "Main", LIMIT=LIMIT_MIB), 1.0),
        (profile("sh", "-c", "java -Xmx${LIMIT}k Main", LIMIT=LIMIT_MIB), 1 / 1024),
        (profile("java", "-XX:MaxRAM=$(LIMIT)", "Main", LIMIT=LIMIT), 0.25),
        (profile(GOMEMLIMIT=LIMIT), 1.0),
        (profile(GOMEMLIMIT="$(LIMIT)", LIMIT=LIMIT), 1.0),
        (profile("node", "--max-old-space-size=$(LIMIT)", LIMIT=LIMIT_MIB), 1.0),
        (profile("node", "--max-old-space-size-percentage=75", "app.js"), 0.75),
        (profile("node", "--max-old-space-size=9", NODE_OPTIONS="--max-old-space-size-percentage=75"), 0.75),
    ],
)
def test_a_heap_that_is_filled_in_from_the_limit_is_a_share_of_it(found: RuntimeProfile, ratio: float) -> None:
    assert share(found) == ratio
    assert found.reads_limit_at_start


# More text than any container starts with


DOUBLINGS = 23
"""Of one character they give 8 MiB."""
DOUBLED = {"A0": "x"} | {f"A{count}": f"$(A{count - 1})" * 2 for count in range(1, DOUBLINGS + 1)}
LONG = {"A": "x " * 2 * 1024}


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["java"], DOUBLED),
        (["java", *["x$(A)"] * 2048], LONG),
        (["java"], LONG | {"JAVA_TOOL_OPTIONS": "$(A)" * 2048}),
        (["sh", "-c", "java " + "$A" * 2048], LONG),
        (["sh", "-c", "java " + "${A:-x}" * 2048], LONG),
    ],
)
def test_names_that_stand_for_megabytes_stay_names(words: list[str], environment: dict[str, Any]) -> None:
    tracemalloc.start()
    try:
        runtime_profile = profile(*words, **environment)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert share(runtime_profile) == 0.25
    assert peak_bytes < 4 * MI  # filled in it is 8 MiB


@pytest.mark.parametrize(
    "words", [["java", "$(A)"], ["sh", "-c", "java $A Main"], ["sh", "-c", "java ${A:--Xmx1g} Main"]]
)
def test_flags_behind_a_name_that_stays_cannot_be_read(words: list[str]) -> None:
    runtime_profile = profile(*words, A="-Xmx1g " + " " * MOST_CHARACTERS)

    assert runtime_profile is not None
    assert (runtime_profile.hidden, runtime_profile.heap_bytes) == (LINE, None)


def test_a_long_text_is_split_at_blanks_alone_and_leaves_room_for_short_ones() -> None:
    text = "-Xmx1g '-Da=b -Xmx3g' " + " " * MOST_SPLIT  # one flag, of which the blank makes two

    assert heap(profile("java", "Main", JAVA_TOOL_OPTIONS=text.rstrip()))[0] == GI
    assert heap(profile("java", "Main", JAVA_TOOL_OPTIONS=text))[0] == 3 * GI
    assert heap(profile("java", "Main", JAVA_TOOL_OPTIONS=text, _JAVA_OPTIONS="'-Xmx2g'"))[0] == 2 * GI


def test_the_containers_of_a_pod_have_one_budget_together() -> None:
    launch = Launch(
        command=["java", "-Xmx$(HEAP)", "$(A)", "Main"],
        environment={"HEAP": "1g", "A": "x" * (MOST_CHARACTERS // 2 - 8)},
    )
    budget = TextBudget()

    profiles = [profile_of(launch, None, budget) for _ in range(3)]

    # Twice all of it; of the rest, 16 - 2 * 2 characters, there is room for the third size.
    assert [heap(runtime_profile)[0] for runtime_profile in profiles] == [GI, GI, GI]
    assert [runtime_profile and runtime_profile.hidden for runtime_profile in profiles] == ["", "", LINE]


def test_the_containers_of_a_pod_have_one_budget_for_what_is_split() -> None:
    launch = Launch(environment={"JAVA_TOOL_OPTIONS": "-Xmx1g '-Da=b -Xmx3g'".ljust(MOST_SPLIT // 2)})
    budget = TextBudget()

    profiles = [profile_of(launch, None, budget) for _ in range(3)]

    assert [heap(runtime_profile)[0] for runtime_profile in profiles] == [GI, GI, 3 * GI]


def test_a_flag_in_quotes_counts_in_a_script_that_a_large_variable_makes_too_long() -> None:
    script = 'printf %s "$CONFIG" > /etc/app.yaml; exec java -Dapp.name="My App" "-Xmx3g" -jar a.jar'

    for length in (MOST_SPLIT // 2, MOST_SPLIT):
        assert heap(profile("sh", "-c", script, CONFIG="x" * length))[0] == 3 * GI


@pytest.mark.parametrize(
    ("flags", "runtime"),
    [
        ('java -Da.b="My App" -Xmx3g', JAVA),
        ("java '-Da.b=My App' -Xmx3g", JAVA),
        ("java -Da.b=My\\ App -Xmx3g", JAVA),
        ('java -cp "/My App/*" -Xmx3g', JAVA),
        ('node --title="My App" --max-old-space-size=3072', NODE),
    ],
)
def test_flags_behind_a_blank_in_quotes_cannot_be_read_in_a_script_too_long_to_be_split(
    flags: str, runtime: LanguageRuntime
) -> None:
    script = f"exec {flags} Main"
    assert heap(profile("sh", "-c", script))[0] == 3 * GI

    runtime_profile = profile("sh", "-c", script.ljust(MOST_SPLIT + 1))

    assert runtime_profile is not None
    assert (runtime_profile.runtime, runtime_profile.hidden, runtime_profile.heap_bytes) == (runtime, LINE, None)


def test_flags_in_quotes_of_a_variable_too_long_to_be_split_cannot_be_read() -> None:
    def long(text: str) -> str:
        return text.ljust(MOST_SPLIT + 1)

    profiles = [
        profile("java", "Main", JAVA_TOOL_OPTIONS=long("-Da -Xmx1g")),
        profile("java", "Main", JAVA_TOOL_OPTIONS=long('-Da="-Xmx1g x"')),
        profile("node", "main.js", NODE_OPTIONS=long("--a --max-old-space-size=1024")),
        profile("node", "main.js", NODE_OPTIONS=long('--a "--max-old-space-size=1024 x"')),
    ]
    assert [known.hidden for known in profiles if known is not None] == ["", "JAVA_TOOL_OPTIONS", "", "NODE_OPTIONS"]


def test_a_script_without_quotes_is_read_however_long_it_is() -> None:
    runtime_profile = profile("sh", "-c", "exec java -Xmx3g Main".ljust(MOST_SPLIT + 1))
    assert heap(runtime_profile)[0] == 3 * GI
    assert runtime_profile is not None
    assert runtime_profile.hidden == ""


def test_flags_in_quotes_are_found_in_a_script_whose_quotes_do_not_match() -> None:
    assert heap(profile("sh", "-c", 'echo hi # don\'t\nexec java "-Xmx3g" -jar a.jar'))[0] == 3 * GI


def test_a_script_of_open_braces_takes_no_longer_than_a_script_of_closed_ones() -> None:
    def seconds(reference: str) -> float:
        begin = time.thread_time()
        assert heap(profile("sh", "-c", "java -Xmx1g " + reference * 4096))[0] == GI
        return time.thread_time() - begin

    # Each of them read to the end of the script: 200 times. The least of three, as a machine may stand still.
    assert min(seconds("${A:-x") for _ in range(3)) < 40 * min(seconds("${A:-}") for _ in range(3))


# Go and Node


@pytest.mark.parametrize(
    ("text", "heap_bytes"),
    [("1GiB", GI), ("900MiB", 900 * MI), ("1048576", MI), ("1048576B", MI), ("2TiB", 2 << 40), ("5KiB", 5 << 10)],
)
def test_go_s_limit_is_its_heap(text: str, heap_bytes: int) -> None:
    assert heap(profile("/server", GOMEMLIMIT=text)) == (heap_bytes, "GOMEMLIMIT")


def test_go_without_a_limit_has_none() -> None:
    for text in ("off", "", "0"):
        assert profile(GOMEMLIMIT=text) == RuntimeProfile(runtime=GO)


@pytest.mark.parametrize("text", ["1GB", "1g", "1 GiB", "-1", "$(ELSEWHERE)"])
def test_a_limit_that_go_would_not_take_is_a_fault(text: str) -> None:
    runtime_profile = profile(GOMEMLIMIT=text)

    assert runtime_profile is not None
    assert runtime_profile.fault.startswith("GOMEMLIMIT is not understood (bytes such as 900MiB")
    assert text not in runtime_profile.fault


@pytest.mark.parametrize(
    ("found", "heap_mib", "place"),
    [
        (profile("node", "--max-old-space-size=300", "app.js"), 300, LINE),
        (profile("node", "-r", "dotenv", "--max_old_space_size=300", "app.js"), 300, LINE),
        (profile("npm", "start", NODE_OPTIONS="--inspect --max-old-space-size=200"), 200, "NODE_OPTIONS"),
        (profile("node", NODE_OPTIONS='--title="a b" "--max-old-space-size=200"'), 200, "NODE_OPTIONS"),
        (profile("node", "-max-old-space-size=300", "app.js"), 300, LINE),
        (profile("node", "--max-old-space-size=300", NODE_OPTIONS="--max-old-space-size=200"), 300, LINE),
    ],
)
def test_node_s_heap_is_in_mib_and_the_command_line_wins(found: RuntimeProfile, heap_mib: int, place: str) -> None:
    assert heap(found) == (heap_mib * MI, f"--max-old-space-size in {place}")


def test_node_s_program_keeps_its_own_flags_and_a_size_of_none_is_no_size() -> None:
    by_itself = RuntimeProfile(
        runtime=NODE, limit_share_ratio=0.5, small_heap_bytes=256 * MI, most_heap_bytes=2 * GI
    )  # as Node 20 takes it
    assert profile("node", "app.js", "--max-old-space-size=300") == by_itself
    assert profile("node", "--max-old-space-size=0") == by_itself
    runtime_profile = profile("node", "--max-old-space-size=1g")
    assert runtime_profile is not None
    assert runtime_profile.fault


# Whatever is written


WORDS = st.sampled_from(
    ["java", "node", "sh", "-c", "-jar", "-Xmx", "-Xmx1g", "-XX:MaxRAMPercentage=", "--max-old-space-size=", "$(", "$$"]
) | st.text(max_size=12)


@given(
    st.lists(WORDS, max_size=6),
    st.dictionaries(
        st.sampled_from(["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "NODE_OPTIONS", "GOMEMLIMIT", "HEAP"]),
        st.none() | st.just(LIMIT) | WORDS | st.lists(WORDS, max_size=3).map(" ".join),
    ),
    st.sampled_from([None, *LanguageRuntime]),
)
@examples(60)
def test_any_spec_gives_a_heap_a_share_a_fault_or_none(
    words: list[str], environment: dict[str, Any], ordered: LanguageRuntime | None
) -> None:
    runtime_profile = profile_of(Launch(command=words, environment=environment), ordered)

    if runtime_profile is not None:
        known = [
            runtime_profile.heap_bytes is not None,
            runtime_profile.limit_share_ratio is not None,
            bool(runtime_profile.fault),
        ]
        assert sum(known) <= 1
        assert not (runtime_profile.fault and runtime_profile.hidden)
        assert 0 < (runtime_profile.heap_bytes or 1) <= INT64_MAX
        assert (runtime_profile.limit_share_ratio or 1) > 0
