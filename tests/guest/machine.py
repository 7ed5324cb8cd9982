"""One run of the guest: boots the prepared kernel in qemu, runs one command on the host's own files, powers off.

The host's root is shared read-only below a writable layer in memory, so the guest has the repository, its virtual
environment and every program at the host's own paths, and can change none of them. A second share, the exchange
folder, carries the command in and output, exit code and reports out. Software emulation only: where /dev/kvm exists
on the machines we know, it hangs.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.guest.kernel import GuestError, GuestKernel

REPOSITORY: Final = Path(__file__).resolve().parents[2]
EXCHANGE: Final = Path("/.plimsoll-guest")
"""Where the guest sees the exchange folder."""
MARK: Final = "GUEST_VARIANT"
"""Set inside the guest to the variant's name; the payload is collected only where it is set."""
TAIL_CHARACTERS: Final = 4000
_CPU: Final = ("max,la57=off,smap=off,smep=off,avx=off,avx2=off", " mitigations=off")
"""CPU and kernel parameter without what costs most to emulate: a boot and all imports take a seventh less."""
_COUNTED_CPU: Final = ("max", "")
"""The one whose figures are written down."""


class Variant(StrEnum):
    """What the kernel is told at boot."""

    FULL = "psi=1"
    NO_PSI = "psi=0"
    NO_MEMORY = "psi=1 cgroup_disable=memory"

    @property
    def cpus(self) -> int:
        """How many CPUs the machine has: two where loads run beside the agent; the second costs half as much again."""
        return 2 if self is Variant.FULL else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestRun:
    """What a run left behind."""

    exit_code: int
    output: str
    """Standard output and error of the command."""
    boot_seconds: float
    """From qemu's start to the command's."""
    total_seconds: float
    exchange: Path
    """Gone when the context of ``booted`` ends."""


class GuestFailedError(GuestError):
    """The guest did not come to an end by itself."""


@contextmanager
def booted(
    kernel: GuestKernel,
    command: Sequence[str],
    *,
    variant: Variant = Variant.FULL,
    timeout_seconds: float = 3600.0,
    memory_mib: int = 2048,
    is_counted: bool = False,
    is_parallel: bool = False,
    exchange: Path | None = None,
) -> Iterator[GuestRun]:
    """Boot, run ``command`` in the repository's folder as root, wait for the end.

    Args:
        kernel: What ``kernel.ensure`` gave.
        command: Program and arguments; files it writes below ``EXCHANGE`` are found in ``GuestRun.exchange``.
        variant: Kernel parameters.
        timeout_seconds: After this qemu is killed. Six times what a run takes on a quiet machine.
        memory_mib: Of the guest; only what it touches is taken.
        is_counted: The guest's clock is the count of its instructions, 4 ns each, and leaps over idle time: CPU times
            are the same on a busy host and a quiet one. One CPU.
        is_parallel: Its CPUs run at the same time, which may hang it, see ``qemu_command``; for what is measured.
        exchange: A new folder that is kept, so that what was written is there whatever ends the run; None = one that
            is removed.

    Raises:
        GuestFailedError: No boot, a kernel panic, or the time was up; the message ends in the guest's own last words.
    """
    with tempfile.TemporaryDirectory(prefix="plimsoll-guest-") as folder:
        exchange = exchange or Path(folder) / "exchange"
        exchange.mkdir()
        serial = Path(folder) / "serial"
        serial.touch()
        shutil.copyfile(Path(__file__).with_name("start.sh"), exchange / "start.sh")
        (exchange / "command.sh").write_text(command_script(command, variant))
        started = time.monotonic()
        process = subprocess.Popen(
            qemu_command(kernel, exchange, serial, variant, memory_mib, is_counted=is_counted, is_parallel=is_parallel),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, complaint = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            words = last_words(exchange, serial, "")
            raise GuestFailedError(f"guest: still running after {timeout_seconds:.0f} s; killed\n{words}") from None
        finally:
            # Whatever happened (Ctrl-C too): no machine is left behind.
            process.kill()
            process.communicate()
        total_seconds = time.monotonic() - started
        try:
            exit_code = int((exchange / "exit_code").read_text())
            boot_seconds = total_seconds - seconds_since_boot(exchange)
        except (OSError, ValueError):
            words = last_words(exchange, serial, complaint)
            raise GuestFailedError(
                f"guest: qemu ended ({process.returncode}) before the command did\n{words}"
            ) from None
        yield GuestRun(
            exit_code=exit_code,
            output=(exchange / "output").read_text(errors="replace"),
            boot_seconds=boot_seconds,
            total_seconds=total_seconds,
            exchange=exchange,
        )


def qemu_command(
    kernel: GuestKernel,
    exchange: Path,
    serial: Path,
    variant: Variant,
    memory_mib: int,
    *,
    is_counted: bool = False,
    is_parallel: bool = False,
) -> list[str]:
    """Return the command line. A machine with no disk and no network.

    Its CPUs take turns in one thread of qemu, unless ``is_parallel``. With a thread each, qemu 7.2 went on to run an
    instruction that the kernel had long replaced (the breakpoint under which it turns on a branch, as for the first
    ``cpu.max`` of a boot): that CPU took the breakpoint again and again, interrupts off, and the other one waited for
    it for ever. The tests take as long in one thread (175 s, 168 with two).
    """
    cpus = 1 if is_counted else variant.cpus
    cpu, parameters = _COUNTED_CPU if is_counted else _CPU
    counting = ("-icount", "shift=2,sleep=off") if is_counted else ()
    return [
        # Killed with the test run itself, even when that dies without a word.
        *("setpriv", "--pdeathsig", "KILL"),
        *("qemu-system-x86_64", "-accel", f"tcg,thread={'multi' if is_parallel else 'single'}", *counting),
        *("-cpu", cpu, "-machine", "q35", "-smp", str(cpus), "-m", f"{memory_mib}M"),
        *("-nodefaults", "-nographic", "-no-reboot", "-monitor", "none"),
        *("-serial", f"file:{serial}", "-kernel", str(kernel.vmlinuz), "-initrd", str(kernel.initramfs)),
        # Where the host is busy, an emulated timer may not tick while the kernel tries it out: that would be a panic.
        *("-append", f"console=ttyS0 quiet panic=-1 no_timer_check {variant}{parameters}"),
        # multidevs=remap: the host's root is several file systems, whose inode numbers would clash.
        "-virtfs",
        "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
        *("-virtfs", f"local,path={str(exchange).replace(',', ',,')},mount_tag=exchange,security_model=none"),
        *("-device", "virtio-rng-pci"),
    ]


def command_script(command: Sequence[str], variant: Variant) -> str:
    """Return the shell script that the guest runs."""
    return (
        f"export {MARK}={variant.name} PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1\n"
        # Loading plugins that no inner test needs costs seconds under emulation.
        "export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1\n"
        f"cd {shlex.quote(str(REPOSITORY))} || exit 97\n"
        f"exec {shlex.join(command)}\n"
    )


def python_command(*arguments: str) -> list[str]:
    """Return a command for this very interpreter and its environment."""
    return [sys.executable, *arguments]


def seconds_since_boot(exchange: Path) -> float:
    """Return how long the command ran, by the times of the files the guest wrote at its start and end."""
    return (exchange / "exit_code").stat().st_mtime - (exchange / "booted").stat().st_mtime


def last_words(exchange: Path, serial: Path, complaint: str) -> str:
    """Collect what tells why a guest did not come through."""
    parts = []
    for title, file in (("command output", exchange / "output"), ("console", serial)):
        text = file.read_text(errors="replace") if file.is_file() else ""
        parts.append(f"--- {title}\n{text[-TAIL_CHARACTERS:] or '(nothing)'}")
    if complaint:
        parts.append(f"--- qemu\n{complaint[-TAIL_CHARACTERS:]}")
    return "\n".join(parts)
