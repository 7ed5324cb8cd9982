"""Every file that a verb reads because a person named it: whatever is wrong with it is one line that names it, code 2.

Which those are the parsers tell, so that none is forgotten. Each is tried with what is no file at all; and with a good
one that was cut, damaged, nested and made enormous where the verb ends by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from agent.cli.main import build_parser, main
from agent.cli.verb_table import VERBS
from agent.node.files.documents import RECOMMENDATIONS
from agent.node.offline.recording_format import MANIFEST
from tests.pods import container, pod_json
from tests.recommendations import mixed_node
from tests.unit.node.offline.test_recording import write as write_recording
from tests.vpas import vpa_json
from tests.workload_histories import workload_history

WRITTEN: Final = {
    *(("why", "--png"), ("workloads", "--png"), ("record", "-o")),
    *(("simulate", "--html"), ("simulate", "--csv")),
    ("backfill", "--progress"),
    ("gitops", "--pr-body"),
    ("report", "--file"),
}
"""Files that are written; the last is read too, where it is there."""
_PLAN: Final = "plan --pods {d}/pods.json --node-file {d}/node.json --recommendations {d}/recommendations.json"
_BACKFILL: Final = "backfill --prometheus http://127.0.0.1:1"
_WORKLOADS: Final = {
    **{"workloads": "workloads", "buffers": "buffers", "policy": "policy shop/Deployment/web"},
    **{"cost": "cost", "events": "events --cluster", "report": "report --weekly", "mcp": "mcp"},
    "backfill": _BACKFILL,
    "ui": "ui --no-browser --webhook https://127.0.0.1:1",
    "gitops": "gitops {d}/checkout",
}
_GITOPS: Final = "gitops {d}/checkout --history {d}/workloads.json"
ENDS: Final = {
    ("plan", "--pods"): ("pods.json", f"{_PLAN} --pods {{f}}"),
    ("plan", "--node-file"): ("node.json", f"{_PLAN} --node-file {{f}}"),
    ("plan", "--recommendations"): ("recommendations.json", f"{_PLAN} --recommendations {{f}}"),
    ("plan", "--namespaces"): ("namespaces.json", f"{_PLAN} --namespaces {{f}}"),
    ("plan", "--settings"): ("settings.yaml", f"{_PLAN} --settings {{f}}"),
    ("admission", "--pod"): ("pod.yaml", "admission --history {d}/history.json --pod {f}"),
    ("admission", "--history"): ("history.json", "admission --pod {d}/pod.yaml --history {f}"),
    ("admission", "--namespaces"): ("namespaces.json", "admission --pod {d}/pod.yaml --namespaces {f}"),
    ("admission", "--nodes"): ("node.json", "admission --pod {d}/pod.yaml --nodes {f}"),
    ("admission", "--settings"): ("webhook.yaml", "admission --pod {d}/pod.yaml --settings {f}"),
    ("gitops", "--history"): ("workloads.json", "gitops {d}/checkout --history {f}"),
    ("gitops", "--map"): ("map.yaml", f"{_GITOPS} --map {{f}}"),
    ("gitops", "--settings"): ("webhook.yaml", f"{_GITOPS} --settings {{f}}"),
    ("migrate", "--file"): ("vpas.json", "migrate vpa --file {f}"),
    ("replay", "recording"): ("a.plimsoll", "replay {f}"),
    ("replay recommend", "--settings"): ("settings.yaml", "replay {d}/a.plimsoll recommend --settings {f}"),
    ("simulate", "traces"): ("trace.csv", "simulate --policy cruise {f}"),
    ("simulate", "--settings"): ("settings.yaml", "simulate --policy cruise {d}/trace.csv --settings {f}"),
    ("settings", "--settings"): ("settings.yaml", "settings --in-force --settings {f}"),
}
"""Options of verbs that end by themselves: a good file, and the command line; ``{d}`` is the folder of good files."""
ASKS: Final = {
    **{
        (verb, "--settings"): f"{words} --settings {{f}}"
        for verb, words in {
            **dict.fromkeys(
                ("run", "agent", "top", "recommend", "events", "pause", "resume", "pin", "doctor", "audit"), ""
            ),
            **{"unpin": "web", "restore": "web", "why": "web", "record": "-o none", "webhook": ""},
        }.items()
        for words in (f"{verb} {words}",)
    },
    ("recommend", "--prices"): "recommend --prices {f}",
    ("replay why", "--settings"): "replay {d}/a.plimsoll why 0 --settings {f}",
    ("audit", "--pods"): "audit --node worker-7 --pods {f}",
    ("webhook", "--tls-cert"): "webhook --tls-key {d}/ca.pem --tls-cert {f}",
    ("webhook", "--tls-key"): "webhook --tls-cert {d}/ca.pem --tls-key {f}",
    **{(verb, "--token-file"): f"{words} --token-file {{f}}" for verb, words in _WORKLOADS.items()},
    **{(verb, "--kubeconfig"): f"{words} --kubeconfig {{f}}" for verb, words in _WORKLOADS.items()},
    **{(verb, "--ca-file"): f"{words} --token-file {{d}}/token --ca-file {{f}}" for verb, words in _WORKLOADS.items()},
    **{
        ("backfill", flag): f"{_BACKFILL} {flag} {{f}}"
        for flag in ("--bearer-file", "--basic-file", "--prometheus-ca-file")
    },
    ("retire", "--kubeconfig"): "retire --kubeconfig {f}",
    ("workloads", "--map"): "workloads -o helm --map {f}",
    ("workloads", "--settings"): "workloads -o ssa --settings {f}",
    ("migrate", "--kubeconfig"): "migrate vpa --kubeconfig {f}",
}
"""Options of verbs that go on, or ask somebody: only what is refused before that is tried."""
OTHER_HOMES: Final = {
    **dict.fromkeys([("agent", "--kubeconfig"), ("webhook", "--kubeconfig")], "kube.client.kubeconfig, as of retire"),
    **dict.fromkeys(
        [(verb, "--pods") for verb in ("run", "agent", "top", "recommend", "why", "doctor", "record")],
        "kube.podsfile, as of audit",
    ),
    ("replay recommend", "--prices"): "refused",
    **dict.fromkeys([("replay recommend", "--pods"), ("replay why", "--pods"), ("settings", "--pods")], "never read"),
}
"""Read by the same function as one that is tried, by verbs that would begin to watch this machine first."""


def _options(parser: argparse.ArgumentParser, verb: str) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _options(inner, f"{verb} {name}")
        elif action.metavar in ("FILE", "TRACE"):
            yield verb, (action.option_strings or [action.dest])[0]


def test_every_option_that_names_a_file_is_tried_here() -> None:
    options = set()
    for verb in VERBS:
        [verbs] = [action for action in build_parser(verb)._actions if isinstance(action, argparse._SubParsersAction)]
        options |= set(_options(verbs.choices[verb], verb))
    assert options == {*ENDS, *ASKS, *OTHER_HOMES, *WRITTEN, ("replay why", "--png")}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    pod = {**pod_json(container("app", {"cpu": "100m", "memory": "100Mi"})), "kind": "Pod"}
    pod["spec"]["nodeName"] = "worker-7"
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    info = {"kubeletVersion": "v1.35.0", "operatingSystem": "linux"}
    node = {
        "kind": "Node",
        "metadata": {"name": "worker-7", "uid": "n", "labels": {}},
        "status": {"allocatable": capacity, "capacity": capacity, "nodeInfo": info},
    }
    space = {"kind": "Namespace", "metadata": {"name": "shop", "annotations": {"plimsoll.dev/mode": "enforce"}}}
    estimate = {
        "namespace": "shop", "kind": "Deployment", "name": "web", "container": "app", "cpuRequestMillicores": 250,
        "memoryRequestBytes": 1 << 28, "historySeconds": 86400.5, "pods": 3,
    }  # fmt: skip
    documents: dict[str, Any] = {
        "pods.json": {"kind": "List", "items": [pod]},
        "node.json": node,
        "namespaces.json": {"kind": "List", "items": [space]},
        "history.json": {"estimates": [estimate]},
        "workloads.json": {"workloads": [workload_history("shop/Deployment/web")]},
        "vpas.json": {"kind": "List", "items": [vpa_json({"updatePolicy": {"updateMode": "InPlace"}})]},
        "recommendations.json": RECOMMENDATIONS.to_json(mixed_node()),
    }
    documents["node.json"]["metadata"]["name"] = documents["recommendations.json"]["node"]
    pod["spec"]["nodeName"] = documents["recommendations.json"]["node"]
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    (folder / "pod.yaml").write_text(
        "kind: Pod\nmetadata: {name: web-1, namespace: shop}\nspec:\n  containers:\n"
        "  - name: app\n    resources: {requests: {cpu: 100m, memory: 64Mi}}\n"
    )
    (folder / "checkout").mkdir()
    (folder / "checkout/web.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  template:\n    spec:\n"
        "      containers:\n      - name: app\n        resources:\n          requests: {cpu: 100m, memory: 64Mi}\n"
    )
    (folder / "map.yaml").write_text("values.yaml:\n  shop/Deployment/api/app: api.resources\n")
    (folder / "settings.yaml").write_text("recommend: {policy: vpa}\nwindows:\n  cpuWindowSeconds: 300\n")
    (folder / "webhook.yaml").write_text("bounds: {minCpuMillicores: 10}\n")
    rows = [f"{1_700_000_000 + 60 * minute},shop/web,{100 + minute % 7},{1 << 20}" for minute in range(60)]
    (folder / "trace.csv").write_text("time,container,cpu_millicores,memory_bytes\n" + "\n".join(rows) + "\n")
    (folder / "token").write_text("word")
    (folder / "ca.pem").write_text("none")
    write_recording(folder / "a.plimsoll")
    return folder


def _answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    return code, capsys.readouterr().err.splitlines()


def _words(line: str, folder: Path, file: Path) -> list[str]:
    return [word.format(d=folder, f=file) for word in line.split()]


@pytest.mark.parametrize("of", [*ENDS, *ASKS], ids=" ".join)
def test_what_is_no_file_is_one_line_that_names_it(
    of: tuple[str, str], good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ENDS[of][1] if of in ENDS else ASKS[of]
    ending = Path(ENDS[of][0]).suffix if of in ENDS else ""
    places = {name: tmp_path / f"{name}{ending}" for name in ("none", "folder", "fifo", "dangling", "loop", "large")}
    places["folder"].mkdir()
    os.mkfifo(places["fifo"])
    places["dangling"].symlink_to("nothing")
    places["loop"].symlink_to(places["loop"])
    places["large"].touch()
    os.truncate(places["large"], 1 << 40)
    (zero := tmp_path / f"zero{ending}").symlink_to("/dev/zero")
    if of[1].startswith("--tls"):
        places.pop("large")  # read by the process that serves, up to its own bound
    for file in (*places.values(), zero):
        code, said = _answer(_words(line, good, file), capsys)
        assert (code, len(said)) == (2, 1), (file, code, said)
        assert file.name in said[0]


def _malformed(content: bytes, seed: str) -> Iterator[tuple[str, bytes]]:
    random_ = random.Random(seed)
    for place in {0, 1, len(content) - 1, *(random_.randrange(len(content)) for _ in range(12))}:
        yield f"cut at {place}", content[:place]
        yield f"NUL at {place}", content[:place] + b"\0" + content[place:]
        yield f"odd byte at {place}", content[:place] + bytes([random_.randrange(256)]) + content[place + 1 :]
        yield f"newline and ESC at {place}", content[:place] + b"\n\x1b[2J\n" + content[place:]
    yield "mark", b"\xef\xbb\xbf" + content
    yield "twice", content + content
    for depth in (60, 1_000, 100_000):
        for opening in (b"[", b'{"a":', b"- ", b"? ", b"a: {"):
            yield f"{opening!r} {depth} deep", opening * depth
            yield (
                f"{opening!r} {depth} deep, closed",
                opening * depth + {b"[": b"]", b'{"a":': b"}"}.get(opening, b"") * depth,
            )
    yield (
        "aliases",
        b"\n".join(
            [b"a0: &a0 [x, x]", *(b"a%d: &a%d [%s]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 30))]
        ),
    )
    yield "sum in base 60", b":1".join([b"1"] * 500_000)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    yield "UTF-16", text.encode("utf-16")
    yield "Latin-1", text.encode() + "\u00e9".encode("latin-1")


_ODD_VALUES: Final[tuple[Any, ...]] = (
    None, True, [], {}, "", "\ud800", "x" * 5000, -1, 0, 1 << 70, -(1 << 63), 1e300, float("nan"), float("inf"), [[]],
    {"a": {}}, "-5", "1e999", "9" * 5000, "2026-99-99T00:00:00Z", "\x1b[2J\n",
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from _places(value[key], (*path, key))


def _replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(value[path[0]], path[1:], odd)
    return copy


def _odd_documents(document: Any, seed: str, most: int) -> Iterator[tuple[str, bytes]]:
    """Give the document with a value of another kind at each place; a sample where there are very many."""
    random_ = random.Random(seed)
    every = [(path, odd) for path in _places(document) for odd in _ODD_VALUES]
    for path, odd in random_.sample(every, min(most, len(every))):
        yield f"{path}: {odd!r:.40}", json.dumps(_replaced(document, path, odd)).encode()
    yield "1e999", json.dumps(_replaced(document, (), document)).replace("0", "1e999", 1).encode()
    if isinstance(document, dict):
        first = json.dumps(next(iter(document)))
        yield "doubled key", json.dumps(document).replace("{", "{" + first + ": 7, ", 1).encode()


def _check(
    words: list[str], what: str, capsys: pytest.CaptureFixture[str], file: Path, *, is_settings: bool
) -> str | None:
    try:
        code, said = _answer(words, capsys)
    except Exception as error:  # noqa: BLE001 - which is what is looked for
        return f"{what}: {type(error).__name__}: {error}"[:300]
    if code in (0, 1) and not any("Traceback" in line for line in said):
        return None
    lines_are_right = len(said) == 1 or (is_settings and said)
    if code != 2 or not lines_are_right or not all(file.name in line and line.isprintable() for line in said):
        return f"{what}: code {code}: {said}"[:300]
    return None


@pytest.mark.slow
@pytest.mark.parametrize("of", list(ENDS), ids=" ".join)
def test_what_is_wrong_with_a_file_is_one_line_that_names_it(
    of: tuple[str, str], good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, line = ENDS[of]
    content = (good / name).read_bytes()
    file = tmp_path / f"odd{Path(name).suffix}"
    assert _answer(_words(line, good, good / name), capsys)[0] == 0
    variants = list(_malformed(content, name))
    if name.endswith(".json"):
        variants += _odd_documents(json.loads(content), name, 100)
    faults = []
    for what, malformed in variants:
        file.write_bytes(malformed)
        faults.append(_check(_words(line, good, file), what, capsys, file, is_settings="--settings" in line))
    if name == "a.plimsoll":
        with zipfile.ZipFile(good / name) as members:
            document = json.loads(members.read(MANIFEST))
            others = {entry: members.read(entry) for entry in members.namelist() if entry != MANIFEST}
        for what, text in _odd_documents(document, name, 100):
            with zipfile.ZipFile(file, "w") as changed:
                for member, body in {**others, MANIFEST: text}.items():
                    changed.writestr(member, body)
            for question in ([], ["recommend"]):
                words = ["replay", str(file), *question]
                faults.append(_check(words, f"{question}: {what}", capsys, file, is_settings=False))
    assert [fault for fault in faults if fault is not None] == []


_EACH_LINE: Final = """
import contextlib, io, json, sys
from agent.cli.main import main
for line in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            code = main(line)
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, said.getvalue()]))
"""


@pytest.mark.slow
def test_a_pipe_without_end_is_read_up_to_the_bound(good: Path) -> None:
    """One line after the other in a process that may take three gigabytes: bounded in memory, and by it in time."""
    tried = [of for of in ENDS if of[1] not in ("recording", "traces")]
    lines = [_words(ENDS[of][1], good, Path("/dev/stdin")) for of in tried]
    limited = ["prlimit", "--as=3000000000", sys.executable, "-c", _EACH_LINE, json.dumps(lines)]
    with subprocess.Popen(
        [sys.executable, "-c", "while True: print('{' * 65536)"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as endless:
        done = subprocess.run(limited, stdin=endless.stdout, capture_output=True, text=True, check=False)
        endless.kill()
    answers = [json.loads(answer) for answer in done.stdout.splitlines()]
    assert (done.returncode, done.stderr, len(answers)) == (0, "", len(tried))
    assert [
        (of, code, said)
        for of, (code, said) in zip(tried, answers, strict=True)
        if code != 2 or said.count("\n") != 1 or "/dev/stdin: cannot be read: larger than " not in said
    ] == []
