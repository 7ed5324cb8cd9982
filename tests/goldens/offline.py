"""Asks every case of a tree, each in a folder of its own."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.goldens.cases import Case, prepare
from tests.goldens.command import Tree, json_of, path_lines, told
from tests.goldens.servers import WebhookAnswers, control_socket, http_server

_AT_ONCE: Final = 2


_WITHOUT_AGENT: Final = (("settings",), ("webhook",), ("admission",))
"""Verbs that take settings and ask no agent; the webhook's know no socket."""


def _no_agent_here(folder: Path) -> Mapping[str, str]:
    """Name the usual socket and state anew: an agent may run on this machine."""
    return {"PLIMSOLL_SERVING_SOCKET": f"{folder}/usual.sock", "PLIMSOLL_STATE_DIRECTORY": f"{folder}/usual"}


def write_cases(tree: Tree, out: Path, scratch: Path, chosen: Iterable[Case]) -> None:
    """Write down what every command answers; beside each JSON answer its fields."""
    inputs = scratch / "inputs"
    prepare(inputs)
    with ThreadPoolExecutor(_AT_ONCE) as pool, _forkers(tree, scratch) as forkers:
        for _ in pool.map(lambda case: _write_case(case, tree, out, scratch, inputs, forkers), chosen):
            pass


class Forker:
    """A process of the tree that begins commands."""

    def __init__(self, tree: Tree, folder: Path) -> None:
        self._process = subprocess.Popen(
            [str(tree.python), str(Path(__file__).with_name("forks.py"))],
            cwd=folder,
            env=tree.environment(folder, OPENBLAS_NUM_THREADS="1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, words: list[str], folder: Path, stdin: str, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run one command in a folder, as ``Tree.run``."""
        (folder / "stdin").write_text(stdin, encoding="utf-8")
        order = {"words": words, "folder": str(folder), "environment": dict(environment)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        said = [(folder / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(words, code, *said)

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@contextmanager
def _forkers(tree: Tree, folder: Path) -> Iterator[queue.SimpleQueue[Forker]]:
    begun = [Forker(tree, folder) for _ in range(_AT_ONCE)]
    free: queue.SimpleQueue[Forker] = queue.SimpleQueue()
    for forker in begun:
        free.put(forker)
    try:
        yield free
    finally:
        for forker in begun:
            forker.close()


def _write_case(
    case: Case, tree: Tree, out: Path, scratch: Path, inputs: Path, forkers: queue.SimpleQueue[Forker]
) -> None:
    folder = scratch / case.name
    shutil.copytree(inputs, folder, copy_function=os.link)  # no command writes into its inputs
    asked: list[str] = []
    with ExitStack() as stack:
        url = "https://127.0.0.1:1"
        if case.asks_agent:
            answers = json.loads((folder / "socket.json").read_text(encoding="utf-8"))
            stack.enter_context(control_socket(folder / "agent.sock", answers, asked))
        if case.asks_webhook:
            files = (
                json.loads((folder / name).read_text(encoding="utf-8")) for name in ("webhook.json", "glance.json")
            )
            known = WebhookAnswers(dict(ChainMap(*files)), asked)
            url = stack.enter_context(http_server(known, (folder / "tls.crt", folder / "tls.key")))
        words = [
            word.replace("agent.sock", f"{folder}/agent.sock").replace("$WORK", str(folder)).replace("$URL", url)
            for word in case.words
        ]
        forker = forkers.get()
        try:
            usual = {} if case.words[:1] in _WITHOUT_AGENT else _no_agent_here(folder)
            done = forker.run(words, folder, case.stdin, {**usual, **(case.environment or {})})
        finally:
            forkers.put(forker)
    text = told(words, done, folder, tree, asked=asked, files=[folder / name for name in case.files])
    (out / f"{case.name}.txt").write_text(text, encoding="utf-8")
    if done.stdout.startswith(("{", "[")):
        (out / f"{case.name}.fields").write_text(path_lines(json_of(done.stdout)), encoding="utf-8")
    shutil.rmtree(folder)
