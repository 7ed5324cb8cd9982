"""The host's half of the guest tier: the kernel's cache, and a machine that never comes to an end."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.guest import kernel, machine
from tests.guest.kernel import GuestError
from tests.guest.report import parse_report

pytestmark = [
    pytest.mark.guest,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the guest is an x86_64 machine"),
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return kernel.cache_root()


def prepared(work: Path, _progress: kernel.Progress, _modules: object, _series: str | None) -> Path:
    """Stand in for ``kernel.build``: the files without a kernel in them."""
    folder = work / "9.9.9-test"
    folder.mkdir()
    (folder / "vmlinuz").touch()
    (folder / "initramfs.gz").touch()
    (folder / "origin.json").write_text('{"release": "9.9.9-test", "origin": "a test"}')
    return folder


def interrupted(work: Path, _progress: kernel.Progress, _modules: object, _series: str | None) -> Path:
    """Stand in for a download that is cut off."""
    (work / "linux-image.deb").write_bytes(b"half")
    raise GuestError("guest: apt-get download failed: no network")


def test_prepared_kernel_is_found_again_and_not_built_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "build", prepared)
    first = kernel.ensure()
    monkeypatch.setattr(kernel, "build", interrupted)
    again = kernel.ensure()

    assert first == again
    assert again.vmlinuz.is_relative_to(cache)


def test_interrupted_download_leaves_an_empty_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "build", interrupted)

    with pytest.raises(GuestError, match="no network"):
        kernel.ensure()

    assert list(cache.iterdir()) == []
    assert kernel.find_prepared(cache, kernel.recipe_digest()) is None


def test_other_init_script_is_another_image(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "build", prepared)
    kernel.ensure()
    changed = tmp_path / "init.sh"
    changed.write_text("#!/bin/busybox sh\n")
    monkeypatch.setattr(kernel, "INIT", changed)

    assert kernel.find_prepared(cache, kernel.recipe_digest()) is None


def test_another_series_is_another_image_and_an_unknown_one_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "build", prepared)
    usual, older = kernel.ensure(), kernel.ensure(series="5.10")

    assert usual.vmlinuz.parent != older.vmlinuz.parent
    assert kernel.ensure() == usual
    with pytest.raises(GuestError, match=r"no kernel 5\.9; allowed: 5\.10, 6\.1, 6\.12"):
        kernel.ensure(series="5.9")


def test_missing_host_programs_are_one_line_with_the_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel, "SYSTEM_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(GuestError) as caught:
        kernel.check_host_programs()

    assert str(caught.value) == (
        "guest: qemu-system-x86_64, busybox, depmod, modprobe, cpio, setpriv not found; "
        "apt-get install -y --no-install-recommends busybox-static cpio kmod qemu-system-x86 util-linux"
    )


def test_counted_machine_has_one_cpu_and_a_clock_of_instructions(tmp_path: Path) -> None:
    ready = kernel.GuestKernel(release="9", vmlinuz=tmp_path / "k", initramfs=tmp_path / "i", origin="a test")
    usual = machine.qemu_command(ready, tmp_path, tmp_path / "s", machine.Variant.FULL, 512)
    counted = machine.qemu_command(ready, tmp_path, tmp_path / "s", machine.Variant.FULL, 512, is_counted=True)

    assert counted[counted.index("-icount") + 1] == "shift=2,sleep=off"
    assert (counted[counted.index("-smp") + 1], usual[usual.index("-smp") + 1]) == ("1", "2")
    assert "-icount" not in usual


def test_cpus_of_a_machine_take_turns_unless_they_are_to_run_at_the_same_time(tmp_path: Path) -> None:
    ready = kernel.GuestKernel(release="9", vmlinuz=tmp_path / "k", initramfs=tmp_path / "i", origin="a test")
    usual, parallel = (
        machine.qemu_command(ready, tmp_path, tmp_path / "s", machine.Variant.FULL, 512, is_parallel=is_parallel)
        for is_parallel in (False, True)
    )
    assert ("tcg,thread=single" in usual, "tcg,thread=multi" in parallel) == (True, True)


@pytest.mark.slow
def test_guest_that_does_not_end_in_time_is_killed_and_says_so(tmp_path: Path) -> None:
    ready = kernel.ensure()
    exchange = tmp_path / "exchange"  # tells this guest from those of others on the machine

    with (
        pytest.raises(machine.GuestFailedError, match="still running after 1 s; killed"),
        machine.booted(ready, ["sleep", "600"], timeout_seconds=1, memory_mib=777, exchange=exchange),
    ):
        pytest.fail("it came to an end")

    assert not [words for words in running_commands() if "qemu-system-x86_64" in words and str(exchange) in words]


def running_commands() -> list[str]:
    """Return the command lines of all processes."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it ended meanwhile
            continue
    return commands


def test_report_without_a_test_counts_as_none_ran() -> None:
    run = parse_report("<testsuites><testsuite tests='0'/></testsuites>", "no tests ran")

    assert run.ran == frozenset()


def test_report_keeps_failures_errors_and_skips_by_test() -> None:
    run = parse_report(
        """<testsuites><testsuite>
        <testcase classname="tests.guest.payload.test_a" name="test_good"/>
        <testcase classname="tests.guest.payload.test_a" name="test_bad[native]"/>
        <testcase classname="tests.guest.payload.test_a" name="test_bad[reference]"><failure>why</failure></testcase>
        <testcase classname="tests.guest.payload.test_a" name="test_left"><skipped message="no file"/></testcase>
        </testsuite></testsuites>""",
        "",
    )

    assert run.ran == {"test_a::test_good", "test_a::test_bad", "test_a::test_left"}
    assert set(run.failures) == {"test_a::test_bad", "test_a::test_left"}
    assert "test_bad[reference]: failure: why" in run.failures["test_a::test_bad"]
