"""Every command that the READMEs and the runbook give people is one: verbs, options and their values are there."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from agent.cli.main import build_parser
from agent.cli.verb_table import VERBS
from agent.node.log_format import JsonFormatter
from tests.cluster.binaries import require
from tests.cluster.chart import CHART
from tests.image.cache import REPOSITORY

PAGES: Final = (CHART / "RUNBOOK.md", CHART / "README.md", CHART / "SIZING.md", REPOSITORY / "README.md")
FILES: Final = ("RUNBOOK.md", "charts-README.md", "SIZING.md", "README.md")
PLACEHOLDER_VALUES: Final = {"URL": "https://127.0.0.1:8443"}
"""Of words in capitals that stand for something else than a name."""


def commands(page: Path, program: str) -> Iterator[str]:
    """Give the commands of a program in a page: in backticks, in blocks, after `--` of kubectl exec."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    for line in [*lines, *re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))]:
        match = re.search(rf"(?:^|-- |\$ |\| )({program} .*)$", " ".join(line.split("  #")[0].split()))
        if match:
            yield match[1].partition(" | ")[0]


def bare(command: str) -> list[str]:
    """Return a command's words after the program, optional ones too: ``[--for 30m]`` counts, ``POD[/X]`` is a POD."""
    text = re.sub(r"\[(?=[-A-Z])|(?<=[\w])\](?=\s|$)", "", re.sub(r"\[/\w+\]", "", command)).replace("...", "")
    return [PLACEHOLDER_VALUES.get(word, word) for word in shlex.split(text)][1:]


@pytest.mark.parametrize("page", PAGES, ids=FILES)
def test_commands_of_plimsoll_are_understood(page: Path) -> None:
    word_lists = [bare(command) for command in commands(page, "plimsoll")]
    asked = [words for words in word_lists if words and words[0] in VERBS]
    assert len(asked) >= 3
    for words in asked:
        try:
            build_parser(words[0]).parse_args(words)
        except SystemExit:
            pytest.fail(f"{page.name}: plimsoll {shlex.join(words)}")


def test_who_is_sent_to_an_audit_hands_it_the_pods_of_the_node_alone() -> None:
    """The chart gives an agent no pods file; and what is handed over is read within the memory limit of its pod."""
    assert "podsFile" in (CHART / "templates/checks.yaml").read_text(encoding="utf-8")
    audits = [command for command in commands(PAGES[0], "plimsoll") if command.startswith("plimsoll audit")]
    assert audits == ["plimsoll audit --pods -"]
    handing = "kubectl get pods -A --field-selector spec.nodeName=NODE -o json | kubectl -n plimsoll exec -i $AGENT"
    assert handing in " ".join(PAGES[0].read_text(encoding="utf-8").replace("\\\n", " ").split())


@pytest.mark.cluster
@pytest.mark.parametrize("page", PAGES, ids=FILES)
def test_commands_of_kubectl_and_helm_are_understood(page: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-plimsoll"  # as an installed package has it; kubectl itself finds it on PATH
    plugin.write_text(f"#!{sys.executable}\nimport sys\nfrom agent.cli.kubectl import main\nsys.exit(main())\n")
    plugin.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}
    for program in ("kubectl", "helm"):
        path = str(require(program))
        for command in commands(page, program):
            words = [re.sub(r"[$].*|<.*>", "x", word) for word in shlex.split(command)[1:]]
            if "--" in words:
                words = words[: words.index("--")]
            # No server is there: what is wrong with the words is said before it is looked for.
            done = subprocess.run(
                [path, *words, "--help"],
                cwd=REPOSITORY,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (page.name, command, done.stderr[-300:])


def test_what_the_runbook_looks_for_in_a_log_is_how_a_pods_log_has_it() -> None:
    [pattern] = re.findall(r"\| grep -E '([^']+)'", PAGES[0].read_text(encoding="utf-8"))
    written = {}
    for level in (logging.INFO, logging.WARNING, logging.ERROR):
        record = logging.LogRecord("agent", level, __file__, 1, "said", None, None)
        done = subprocess.run(
            ["grep", "-E", pattern], input=JsonFormatter().format(record), capture_output=True, text=True, check=False
        )
        written[level] = bool(done.stdout)
    assert written == {logging.INFO: False, logging.WARNING: True, logging.ERROR: True}
