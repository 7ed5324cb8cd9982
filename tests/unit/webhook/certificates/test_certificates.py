"""The certificate from files, and what is told of it; tests/cluster/test_certificates.py has those in Secrets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.webhook.certificates.certificates import Certificates, CertificateSetupError
from agent.webhook.certificates.material import Material
from agent.webhook.certificates.options import CertificateOptions, CertificateSource
from agent.webhook.certificates.rotation import DAY_SECONDS, RotationStep, after_step, next_step
from agent.webhook.clocks import Clocks
from tests.tls_clients import is_trusted, serving

HOST = "plimsoll-webhook.plimsoll.svc"


def made(now: float, *names: str, days: float = 90.0) -> Material:
    options = CertificateOptions(leaf_days=days)
    return after_step(RotationStep.MAKE_ALL, None, names=names or (HOST,), now_unix_seconds=now, options=options)


class Files:
    """A certificate in two files, a clock that the test moves, and who keeps it."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "tls.crt", directory / "tls.key"
        self.now = time.time()
        options = CertificateOptions(
            source=CertificateSource.FILES, certificate_file=self.certificate, key_file=self.key
        )
        self.certificates = Certificates(
            options,
            namespace="plimsoll",
            api=None,
            is_leader=lambda: True,
            look_seconds=0.01,
            clocks=Clocks(wall=lambda: self.now),
        )

    def write(self, material: Material) -> None:
        self.certificate.write_bytes(material.chain_pem)
        self.key.write_bytes(material.key_pem)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def await_(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_files_are_taken_up_when_they_come_and_when_they_change(files: Files) -> None:
    first, second = made(files.now), made(files.now)
    files.certificates.start()
    try:
        with serving(files.certificates.served_context()) as port:
            await_(lambda: "tls.crt: cannot be read: No such file" in (files.certificates.status().fault or ""))
            assert not files.certificates.wait(0.0)
            files.write(first)
            assert files.certificates.wait(120.0)
            assert is_trusted(port, first.bundle_pem, HOST)
            files.write(second)
            await_(lambda: is_trusted(port, second.bundle_pem, HOST))
            # What was read while only one of the two was written is no fault any more; a stop does not wait for that.
            await_(lambda: (files.certificates.status().reloads, files.certificates.status().fault) == (2, None))
    finally:
        files.certificates.stop()
    status = files.certificates.status()
    assert (status.is_served, status.is_registered, status.reloads, status.fault) == (True, None, 2, None)
    assert status.expires_unix_seconds == second.leaf.not_after_unix_seconds


@pytest.mark.parametrize("what", ["rubbish", "half", "expired", "foreign", "gone"])
def test_nothing_wrong_takes_the_place_of_what_is_good(files: Files, what: str) -> None:
    good = made(files.now)
    files.write(good)
    files.certificates.turn()
    with serving(files.certificates.served_context()) as port:
        if what == "rubbish":
            files.certificate.write_bytes(b"rubbish")
        elif what == "half":
            files.certificate.write_bytes(made(files.now).chain_pem)
        elif what == "expired":
            files.write(made(files.now - 100 * DAY_SECONDS))
        elif what == "foreign":
            files.write(made(files.now, "other.plimsoll.svc"))
        else:
            files.key.unlink()
        files.certificates.turn()
        status = files.certificates.status()
        assert (status.is_served, status.reloads) == (True, 1)
        assert status.fault is not None
        assert "tls." in status.fault
        assert is_trusted(port, good.bundle_pem, HOST)
        files.write(good)
        files.certificates.turn()
        assert (files.certificates.status().fault, files.certificates.status().reloads) == (None, 1)


def test_a_certificate_that_is_not_good_yet_is_taken_up_when_it_is(files: Files) -> None:
    files.write(made(files.now + DAY_SECONDS))
    files.certificates.turn()
    assert not files.certificates.wait(0.0)
    files.now += DAY_SECONDS
    files.certificates.turn()
    assert files.certificates.wait(0.0)
    assert files.certificates.status().fault is None


def test_the_end_is_told_before_it_comes_and_after(files: Files) -> None:
    files.write(made(files.now, days=90))
    files.certificates.turn()
    start = files.now
    files.now = start + 75 * DAY_SECONDS
    assert files.certificates.status().fault is None
    files.now = start + 77 * DAY_SECONDS
    assert files.certificates.status().fault == "the certificate expires in 13.0 days"
    files.now = start + 91 * DAY_SECONDS
    status = files.certificates.status()
    assert (status.is_served, status.fault) == (False, "the certificate has expired; nothing replaced it")


def test_options_that_cannot_work_are_refused() -> None:
    def setup(options: CertificateOptions) -> None:
        Certificates(options, namespace="plimsoll", api=None, is_leader=lambda: True)

    with pytest.raises(CertificateSetupError, match="needs certificateFile and keyFile"):
        setup(CertificateOptions(source=CertificateSource.FILES, key_file=Path("/key")))
    with pytest.raises(CertificateSetupError, match="source built-in needs an API server"):
        setup(CertificateOptions())
    for name in ("hük.example", "fe80::1%eth0"):
        with pytest.raises(CertificateSetupError, match=f"furtherNames: '{name}' is not allowed; allowed: DNS names"):
            setup(CertificateOptions(further_names=f"10.0.0.1, {name}"))


def test_a_certificate_for_further_addresses_is_made_once_however_they_are_written(files: Files) -> None:
    options = replace(files.certificates.options, further_names="2001:DB8::1, FD00::0:1,127.0.0.1,Edge.example")
    names = Certificates(options, namespace="plimsoll", api=None, is_leader=lambda: True).names
    assert names[3:] == ("2001:db8::1", "fd00::1", "127.0.0.1", "Edge.example")
    material = made(files.now, *names)
    step = next_step(material, registered_seconds=1e9, names=names, now_unix_seconds=files.now, options=options)
    assert step is RotationStep.NOTHING
