"""Give the state directory to the agent: the init step own-state, as root with the capability CHOWN alone.

Arguments: the directory, its path on the host, the agent's uid, Plimsoll's uid (another one where the agent is root).
A directory that holds anything of somebody else's is left as it is, and the step ends with 1: a slip in
agent.state.hostPath must cost nobody his files.
"""

import os
import sys
from typing import NoReturn

STATE, HOST_PATH = sys.argv[1:3]
OWNER, PLIMSOLL = map(int, sys.argv[3:5])
ROOT = os.geteuid()
# What the agent writes, each also with an ending: .new, .damaged, .previous-boot ...
FILES = {"rings", "history", "decisions", "ledger", "holds", "directives", "cgroup-limits"}
REPORTS = "reports"
# Of whoever made the file system, where the directory is one of its own.
NOBODYS = "lost+found"


def _refuse(why: str) -> NoReturn:
    sys.exit(
        f"own-state: agent.state.hostPath {HOST_PATH} {why}: nothing was changed; set it to a directory of its own,"
        " such as /var/lib/plimsoll, or move away what is not Plimsoll's"
    )


def _give(path: str, owner: int) -> None:
    if os.lstat(path).st_uid != owner:
        os.chown(path, owner, owner, follow_symlinks=False)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    return [one for one in os.scandir(folder) if one.name != NOBODYS]


def _is_known(entry: os.DirEntry[str]) -> bool:
    if not entry.is_dir(follow_symlinks=False):
        return entry.name.partition(".")[0] in FILES
    return entry.name == REPORTS


def _is_ours(entry: os.DirEntry[str]) -> bool:
    owner = entry.stat(follow_symlinks=False).st_uid
    if owner == PLIMSOLL:
        return True
    is_folder = entry.is_dir(follow_symlinks=False)
    return owner == ROOT and _is_known(entry) and (not is_folder or all(map(_is_report, os.scandir(entry.path))))


def _is_report(entry: os.DirEntry[str]) -> bool:
    is_file = not entry.is_dir(follow_symlinks=False)
    return is_file and (".report" in entry.name or entry.name.partition(".")[0] == "numbering")


def _take(folder: str, found: list[os.DirEntry[str]]) -> None:
    # Without further capabilities root reads what is root's only: first ours, then the agent's.
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            _give(entry.path, ROOT)
            _take(entry.path, _entries(entry.path))
        else:
            _give(entry.path, OWNER)
    os.chmod(folder, 0o700)
    _give(folder, OWNER)


before = os.stat(STATE).st_uid
if before == PLIMSOLL:
    _give(STATE, ROOT)
try:
    found = _entries(STATE)
    foreign = sorted(one.name for one in found if not _is_ours(one))
except PermissionError:
    _refuse(f"is user {before}'s and closed")
if foreign:
    _give(STATE, before)
    more = f" and {len(foreign) - 1} more" if foreign[1:] else ""
    _refuse(f"holds what Plimsoll did not write ({foreign[0]}{more})")
_give(STATE, ROOT)
# What is the agent's already, a recording of somebody's, stays as it is.
_take(STATE, [one for one in found if _is_known(one)])
