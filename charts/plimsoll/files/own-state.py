"""Give the state directory to the agent: the init step own-state, as root with the capability CHOWN alone.

Arguments: the directory, the value that names it, its path on the host, the agent's uid, Plimsoll's uid (another one
where the agent is root). A directory that holds anything of somebody else's is left as it is, and the step ends with 1:
a slip in agent.state.hostPath must cost nobody his files. Only folders and regular files of one name change hands, by a
descriptor that was looked at: a link would give away what it leads to, a device what is behind it.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

STATE, VALUE, HOST_PATH = sys.argv[1:4]
OWNER, PLIMSOLL = map(int, sys.argv[4:6])
ROOT = os.geteuid()
# What the agent writes, each also with an ending: .new, .damaged, .previous-boot ...
FILES = {"rings", "history", "decisions", "ledger", "holds", "directives", "cgroup-limits", "runs", "told-decisions"}
REPORTS = "reports"
# Of whoever made the file system, where the directory is one of its own.
NOBODYS = "lost+found"


def _refuse(why: str) -> NoReturn:
    sys.exit(
        f"own-state: {VALUE} {HOST_PATH} {why}: nothing was changed; set it to a directory of its own, such as"
        f" {'/run/plimsoll-agent' if 'rings' in VALUE else '/var/lib/plimsoll'}, or move away what is not Plimsoll's"
    )


@contextmanager
def _opened(name: str, folder: int | None = None) -> Iterator[int]:
    # Opened as a place: neither read, nor followed, nor waited for.
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _give(descriptor: int, owner: int) -> None:
    if os.fstat(descriptor).st_uid != owner:
        # Leads to the very thing that is open, and fchown takes no descriptor of a place.
        os.chown(f"/proc/self/fd/{descriptor}", owner, owner)


def _give_file(descriptor: int, name: str, folder: int) -> None:
    opened = os.fstat(descriptor)
    if stat.S_ISREG(opened.st_mode) and _is_only_name(name, opened, folder):
        # The kernel counts a name away before that name leads elsewhere: looked at in between, a file of two names has
        # one. Reading the folder waits until an exchange of names that is under way has ended.
        os.listdir(f"/proc/self/fd/{folder}")
        if _is_only_name(name, opened, folder):
            _give(descriptor, OWNER)


def _is_only_name(name: str, opened: os.stat_result, folder: int) -> bool:
    # Both by the name: the number of names alone may have changed.
    named = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return (named.st_dev, named.st_ino, named.st_nlink) == (opened.st_dev, opened.st_ino, 1)


def _is_plain(status: os.stat_result) -> bool:
    # What has the new owner already changes nothing: a copy of hard links that somebody made of it may stay.
    return stat.S_ISREG(status.st_mode) and (status.st_nlink == 1 or status.st_uid == OWNER)


def _entries(folder: int) -> list[os.DirEntry[str]]:
    # Read by its name below /proc: the descriptor of a place has no content.
    return [one for one in os.scandir(f"/proc/self/fd/{folder}") if one.name != NOBODYS]


def _is_known(entry: os.DirEntry[str]) -> bool:
    if not entry.is_dir(follow_symlinks=False):
        return entry.name.partition(".")[0] in FILES
    return entry.name == REPORTS


def _is_ours(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    is_folder = entry.is_dir(follow_symlinks=False)
    is_plain = is_folder or _is_plain(status)
    if status.st_uid == PLIMSOLL:
        return is_plain or not _is_known(entry)
    return (
        status.st_uid == ROOT
        and is_plain
        and _is_known(entry)
        and (not is_folder or all(map(_is_report, os.scandir(entry.path))))
    )


def _is_report(entry: os.DirEntry[str]) -> bool:
    is_known = ".report" in entry.name or entry.name.partition(".")[0] == "numbering"
    return is_known and _is_plain(entry.stat(follow_symlinks=False))


def _take(folder: int, found: list[os.DirEntry[str]]) -> None:
    # Without further capabilities root reads what is root's only: first ours, then the agent's.
    for entry in found:
        with _opened(entry.name, folder) as descriptor:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                _give(descriptor, ROOT)
                _take(descriptor, _entries(descriptor))
            else:
                _give_file(descriptor, entry.name, folder)
    os.chmod(f"/proc/self/fd/{folder}", 0o700)
    _give(folder, OWNER)


with _opened(STATE) as state:
    before = os.fstat(state).st_uid
    if before == PLIMSOLL:
        _give(state, ROOT)
    try:
        found = _entries(state)
        foreign = sorted(one.name for one in found if not _is_ours(one))
    except PermissionError:
        _refuse(f"is user {before}'s and closed")
    if foreign:
        _give(state, before)
        more = f" and {len(foreign) - 1} more" if foreign[1:] else ""
        _refuse(f"holds what Plimsoll did not write ({foreign[0]}{more})")
    _give(state, ROOT)
    # What is the agent's already, a recording of somebody's, stays as it is.
    _take(state, [one for one in found if _is_known(one)])
