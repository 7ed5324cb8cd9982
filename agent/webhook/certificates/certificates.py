"""The serving certificate: taken up where it changes, made, renewed and registered by the leader.

A thread of its own. Whatever is wrong with new material (it does not fit together, is for somebody else, is not good
now) is told, and what was served before still is.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.kube.client.api import Api
from agent.kube.client.errors import KubeError
from agent.kube.watch.reflector import WatchPace
from agent.turns import TurnCounts, Turns
from agent.webhook.certificates.material import Material, MaterialError, read_material
from agent.webhook.certificates.options import CertificateOptions, CertificateSource
from agent.webhook.certificates.publication import Publication
from agent.webhook.certificates.registration import Registration
from agent.webhook.certificates.rotation import DAY_SECONDS, RotationStep, after_step, next_step
from agent.webhook.certificates.secret import SecretData, SecretWatch, material_of
from agent.webhook.certificates.served_tls import ServedTls
from agent.webhook.clocks import REAL_CLOCKS, Clocks
from agent.webhook.cluster.one_object import WatchMeans

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""Between two looks at files and at the time; what comes by a watch is looked at at once."""
STOP_SECONDS: Final = 0.5
LONGEST_FILE_BYTES: Final = 1 << 20


class CertificateSetupError(Exception):
    """The options do not fit together or cannot work here; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateStatus:
    """How the serving certificate fares; for readyz and metrics."""

    source: CertificateSource
    is_served: bool
    """There is a certificate, and it is good now."""
    expires_unix_seconds: float | None
    """Of the certificate in use; None = there is none."""
    authority_expires_unix_seconds: float | None
    """Of the authority that signs; None = not known."""
    is_registered: bool | None
    """caBundle of the MutatingWebhookConfiguration is as it should be; None = it is somebody else's, or not known."""
    reloads: int
    """How often another certificate was taken up, the first included."""
    fault: str | None
    """What is wrong now, one line; None = nothing."""


class Certificates:
    """Keeps the serving certificate; ``status`` and the TLS settings are for any thread."""

    def __init__(
        self,
        options: CertificateOptions,
        *,
        namespace: str,
        api: Api | None,
        is_leader: Callable[[], bool],
        pace: WatchPace | None = None,
        look_seconds: float = LOOK_SECONDS,
        clocks: Clocks = REAL_CLOCKS,
        counts: TurnCounts | None = None,
    ) -> None:
        """Prepare; nothing is asked or read yet. ``api`` None = there is no server: then only files will do.

        Raises:
            CertificateSetupError: A further name is none, files are not named, or there is no API server to ask.
        """
        self.options: Final = options
        self._is_leader, self._look_seconds = is_leader, look_seconds
        self._wall_clock = clocks.wall
        self._turns: Final = Turns("certificates", self._look, failed=self._failed, counts=counts)
        self._host = f"{options.service}.{namespace}.svc"
        self.names: Final = (
            self._host,
            f"{options.service}.{namespace}",
            options.service,
            *_further_names(options.further_names or ""),
        )
        """What a built-in certificate is for."""
        self._tls = ServedTls()
        self._good: Material | None = None
        self._looked_at: object = None
        """What was read last, good or not: not judged again before it changes or turns good by the time."""
        self._reloads = 0
        self._material_fault: str | None = None
        self._work_fault: str | None = None
        """Why the last try to make or register failed."""
        self._has_first = threading.Event()
        self._secret: SecretWatch | None = None
        self._registration: Registration | None = None
        self._publication: Publication | None = None
        self._files: tuple[Path, Path] | None = None
        if options.source is CertificateSource.FILES:
            if options.certificate_file is None or options.key_file is None:
                raise CertificateSetupError("certificate: source files needs certificateFile and keyFile")
            self._files = options.certificate_file, options.key_file
            return
        if api is None:
            raise CertificateSetupError(f"certificate: source {options.source} needs an API server (or source files)")
        means = WatchMeans(api=api, on_news=self._turns.wake, pace=pace, clocks=clocks)
        self._secret = SecretWatch(means, namespace, options.secret)
        self._publication = Publication(api, namespace, options.authority_config_map, clock=clocks.monotonic)
        if options.source is CertificateSource.BUILT_IN:
            self._registration = Registration(means, options.configuration)

    # -- what others ask -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, in threads of its own."""
        for watch in (self._secret, self._registration):
            if watch is not None:
                watch.start()
        self._turns.start()

    def stop(self) -> None:
        """End; takes a second or two at most."""
        self._turns.stop()
        watches = [watch for watch in (self._secret, self._registration) if watch is not None]
        for watch in watches:
            watch.stop()
        for watch in watches:
            watch.join(STOP_SECONDS)
        self._turns.join(STOP_SECONDS)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the first good certificate; False = there is none yet."""
        return self._has_first.wait(timeout_seconds)

    def served_context(self) -> ssl.SSLContext:
        """Return the TLS settings for the server: always the same ones, whatever certificate is served."""
        return self._tls.context

    def wake(self) -> None:
        """Check now: this replica began to lead."""
        self._turns.wake()

    def status(self) -> CertificateStatus:
        """Return how it fares."""
        good, now, registration = self._good, self._wall_clock(), self._registration
        return CertificateStatus(
            source=self.options.source,
            is_served=good is not None and now < good.leaf.not_after_unix_seconds,
            expires_unix_seconds=good.leaf.not_after_unix_seconds if good is not None else None,
            authority_expires_unix_seconds=(
                good.authorities[0].not_after_unix_seconds if good is not None and good.authorities else None
            ),
            is_registered=(
                registration.stands(good.bundle_pem) if registration is not None and good is not None else None
            ),
            reloads=self._reloads,
            fault=self._fault(good, now),
        )

    # -- the thread ------------------------------------------------------------------------------------------------

    def _look(self) -> float:
        self.turn()
        return self._look_seconds

    def _failed(self, _: Exception) -> float:
        log.exception("certificates failed")
        self._work_fault = "a fault of this program, see its log"
        return self._look_seconds

    def turn(self) -> None:
        """Check once: take up what changed, and do what the leader has to; the thread does nothing else."""
        if self._files is not None:
            self._take_files(*self._files)
        elif self._secret is not None and self._secret.is_listed:
            current = self._secret.current()
            self._take_secret(self._secret, current)
            if self._registration is not None and self._is_leader():
                self._lead(self._secret, self._registration, current)
            if self._publication is not None and self._good is not None:
                self._tell_agents(self._publication, self._good, self._secret.name)

    # -- taking up -------------------------------------------------------------------------------------------------

    def _take_files(self, certificate_file: Path, key_file: Path) -> None:
        try:
            chain_pem, key_pem = _read(certificate_file), _read(key_file)
        except OSError as error:
            self._refuse(f"{error.filename}: cannot be read: {error.strerror or type(error).__name__}")
            return
        where = f"{certificate_file}, {key_file}"
        self._take(
            (chain_pem, key_pem),
            where,
            lambda now: read_material(chain_pem=chain_pem, key_pem=key_pem, names=(self._host,), now_unix_seconds=now),
        )

    def _take_secret(self, secret: SecretWatch, current: SecretData | None) -> None:
        where = f"Secret {secret.name}"
        if current is None:
            self._looked_at = None
            self._refuse(f"{where}: {secret.fault() or 'it does not exist'}")
            return
        data = current.data
        self._take(data, where, lambda now: material_of(data, names=(self._host,), now_unix_seconds=now))

    def _take(self, offered: object, where: str, read: Callable[[float], Material]) -> None:
        if offered == self._looked_at and self._material_fault is None:
            return
        self._looked_at = offered
        try:
            material = read(self._wall_clock())
            if self._good is None or self._good.chain_pem != material.chain_pem:
                self._tls.serve(material.chain_pem, material.key_pem)
                self._reloads += 1
                log.info(
                    "serving a certificate",
                    extra={"source": where, "expires_unix_seconds": material.leaf.not_after_unix_seconds},
                )
        except MaterialError as error:
            self._refuse(f"{where}: {error}")
            return
        self._good, self._material_fault = material, None
        self._has_first.set()

    def _refuse(self, fault: str) -> None:
        if fault != self._material_fault:
            state = "the one before is still served" if self._good is not None else "there is none to serve"
            log.warning("no certificate taken up", extra={"fault": fault, "now": state})
        self._material_fault = fault

    # -- leading ---------------------------------------------------------------------------------------------------

    def _tell_agents(self, publication: Publication, good: Material, secret: str) -> None:
        """Publish to agents whom to trust; where that is not known here, look whether somebody else does."""
        if not self._is_leader():
            publication.forget()
        elif good.authorities:
            publication.ensure(good.bundle_pem)
        elif self.options.source is CertificateSource.SECRET:
            publication.look(good.chain_pem, lambda pem: self._vouches(pem, good), f"Secret {secret} has no ca.crt")

    def _vouches(self, authorities_pem: bytes, good: Material) -> bool:
        try:
            read_material(
                chain_pem=good.chain_pem,
                key_pem=good.key_pem,
                authorities_pem=authorities_pem,
                names=(),
                now_unix_seconds=self._wall_clock(),
            )
        except MaterialError:
            return False
        return True

    def _lead(self, secret: SecretWatch, registration: Registration, current: SecretData | None) -> None:
        now = self._wall_clock()
        try:
            stored = self._stored(current, now)
            if stored is not None:
                registration.ensure(stored.bundle_pem)
            self._advance(secret, registration, current, stored, now)
            self._work_fault = None
        except (KubeError, MaterialError) as error:
            if self._work_fault is None:
                log.warning("the certificate cannot be kept", extra={"cause": str(error)})
            self._work_fault = str(error)

    def _advance(
        self,
        secret: SecretWatch,
        registration: Registration,
        current: SecretData | None,
        stored: Material | None,
        now: float,
    ) -> None:
        if stored is None and secret.fault() is not None:
            return  # nothing that could be replaced: its resourceVersion is not known
        # Where the Secret was removed or spoilt, what replicas serve must stay trusted until they have its successor.
        material = stored if stored is not None else self._good_now(now)
        step = next_step(
            material,
            registered_seconds=registration.standing_seconds(stored.bundle_pem) if stored is not None else None,
            names=self.names,
            now_unix_seconds=now,
            options=self.options,
        )
        if stored is None and material is not None:
            step = RotationStep.ADD_AUTHORITY
        if step is RotationStep.NOTHING:
            return
        next_material = after_step(step, material, names=self.names, now_unix_seconds=now, options=self.options)
        if secret.write(next_material, current):
            log.info("certificates: %s", step, extra={"secret": secret.name})

    def _stored(self, current: SecretData | None, now: float) -> Material | None:
        """Return what the Secret holds if one can build on it and have it trusted; None = it is begun anew.

        Only further names may be missing from it: those it is given by the next step.
        """
        if current is None:
            return None
        try:
            material = material_of(current.data, names=(self._host,), now_unix_seconds=now)
        except MaterialError:
            return None
        return material if material.authorities else None

    def _good_now(self, now: float) -> Material | None:
        good = self._good
        return good if good is not None and good.authorities and now < good.leaf.not_after_unix_seconds else None

    def _fault(self, good: Material | None, now: float) -> str | None:
        if good is not None and now >= good.leaf.not_after_unix_seconds:
            return f"the certificate has expired; {self._material_fault or self._work_fault or 'nothing replaced it'}"
        if self._material_fault is not None:
            return self._material_fault
        if self._work_fault is not None:
            return self._work_fault
        for watch in (self._secret, self._registration):
            if watch is not None and watch.trouble is not None:
                return watch.trouble
        if self._registration is not None and self._registration.fault() is not None:
            return self._registration.fault()
        if self._publication is not None and self._publication.fault is not None:
            return self._publication.fault
        return self._soon(good, now)

    def _soon(self, good: Material | None, now: float) -> str | None:
        if good is None:
            return "there is no certificate yet"
        left_days = (good.leaf.not_after_unix_seconds - now) / DAY_SECONDS
        warning_days = self.options.expiry_warning_days
        if self.options.source is CertificateSource.BUILT_IN:
            warning_days = min(warning_days, self.options.leaf_days / 6)
        return f"the certificate expires in {left_days:.1f} days" if left_days < warning_days else None


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LONGEST_FILE_BYTES)


def _further_names(text: str) -> tuple[str, ...]:
    """Return names from between commas, addresses as a certificate spells them: so they are looked for in it."""
    return tuple(_further_name(name) for name in (part.strip() for part in text.split(",")) if name)


def _further_name(name: str) -> str:
    if not name.isascii() or "%" in name:  # a certificate holds no zone of an address
        allowed = "DNS names in ASCII, addresses without a zone"
        raise CertificateSetupError(f"certificate.furtherNames: {name!r} is not allowed; allowed: {allowed}")
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name
