"""Making, reading and rotating certificates: at each moment what is served is by somebody who is trusted."""

from __future__ import annotations

import dataclasses
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agent.webhook.certificates.issuer import make_authority, make_leaf
from agent.webhook.certificates.material import Material, MaterialError, read_material
from agent.webhook.certificates.options import CertificateOptions
from agent.webhook.certificates.rotation import DAY_SECONDS, RotationStep, after_step, next_step
from agent.webhook.certificates.served_tls import ServedTls
from tests.tls_clients import is_trusted, served, serving

NOW = 1_800_000_000.0
NAMES = ("webhook.plimsoll.svc", "127.0.0.1")
OPTIONS = CertificateOptions(leaf_days=90, authority_days=730, propagation_seconds=120, overlap_seconds=DAY_SECONDS)


def made(now: float = NOW, options: CertificateOptions = OPTIONS) -> Material:
    return after_step(RotationStep.MAKE_ALL, None, names=NAMES, now_unix_seconds=now, options=options)


def step(material: Material | None, *, days: float = 0.0, registered: float | None = 1e9) -> RotationStep:
    return next_step(
        material,
        registered_seconds=registered,
        names=NAMES,
        now_unix_seconds=NOW + days * DAY_SECONDS,
        options=OPTIONS,
    )


def done(wanted: RotationStep, material: Material | None, *, days: float) -> Material:
    return after_step(wanted, material, names=NAMES, now_unix_seconds=NOW + days * DAY_SECONDS, options=OPTIONS)


# -- what is made ----------------------------------------------------------------------------------------------------


def test_what_is_made_serves_its_names_and_nobody_else() -> None:
    now = time.time()
    material = made(now)
    tls = ServedTls()
    with serving(tls.context) as port:
        assert not is_trusted(port, material.bundle_pem, NAMES[0])  # nothing is served yet
        tls.serve(material.chain_pem, material.key_pem)
        certificate = served(port, material.bundle_pem, NAMES[0])
        assert served(port, material.bundle_pem, NAMES[1]) == certificate  # an address: no name is sent
        assert served(port, material.bundle_pem, None) == certificate
        assert not is_trusted(port, material.bundle_pem, "other.plimsoll.svc")
        assert not is_trusted(port, made(now).bundle_pem, NAMES[0])
    # Five minutes back for clocks that are behind; the TLS times are whole seconds.
    assert material.leaf.not_before_unix_seconds == pytest.approx(now - 300, abs=1)
    assert material.leaf.not_after_unix_seconds == pytest.approx(now + 90 * DAY_SECONDS, abs=1)
    assert material.authorities[0].not_after_unix_seconds == pytest.approx(now + 730 * DAY_SECONDS, abs=1)
    assert b"PRIVATE" not in repr(material).encode()


def test_a_certificate_never_outlives_its_authority() -> None:
    options = dataclasses.replace(OPTIONS, leaf_days=90, authority_days=30)
    material = made(options=options)
    assert material.leaf.not_after_unix_seconds == material.authorities[0].not_after_unix_seconds


def test_a_new_certificate_is_served_from_the_next_connection_on() -> None:
    now = time.time()
    first, second = made(now), made(now)
    tls = ServedTls()
    context = tls.context
    with serving(context) as port:
        tls.serve(first.chain_pem, first.key_pem)
        assert is_trusted(port, first.bundle_pem, NAMES[0])
        with pytest.raises(MaterialError, match="KEY_VALUES_MISMATCH"):
            tls.serve(second.chain_pem, first.key_pem)
        assert is_trusted(port, first.bundle_pem, NAMES[0])
        tls.serve(second.chain_pem, second.key_pem)
        assert is_trusted(port, second.bundle_pem, NAMES[0])
        assert not is_trusted(port, first.bundle_pem, NAMES[0])
    assert tls.context is context


# -- what is read ----------------------------------------------------------------------------------------------------


def read(**changes: bytes | None) -> Material:
    material = made()
    given: dict[str, bytes | None] = {
        "chain_pem": material.chain_pem,
        "key_pem": material.key_pem,
        "authorities_pem": material.bundle_pem,
        "authority_key_pem": material.authority_key_pem,
        **changes,
    }
    return read_material(**given, names=NAMES[:1], now_unix_seconds=NOW)


def test_what_was_made_is_read_back() -> None:
    material = made()
    again = read_material(
        chain_pem=material.chain_pem,
        key_pem=material.key_pem,
        authorities_pem=material.bundle_pem,
        authority_key_pem=material.authority_key_pem,
        names=NAMES,
        now_unix_seconds=NOW,
    )
    assert again == material
    assert again.is_by_first
    assert again.names == set(NAMES)


OTHER = made()
ENCRYPTED = rsa.generate_private_key(65537, 2048).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chain_pem": None}, "the certificate is missing"),
        ({"chain_pem": b""}, "the certificate is missing"),
        ({"key_pem": None}, "the certificate's key is missing"),
        ({"chain_pem": b"rubbish"}, "the certificate is not understood"),
        ({"chain_pem": b"x" * (2 << 20)}, r"2097152 bytes \(at most 1048576\)"),
        ({"key_pem": b"rubbish"}, "the certificate's key is not understood"),
        ({"key_pem": ENCRYPTED}, "the certificate's key is not understood: Password was not given"),
        ({"key_pem": OTHER.key_pem}, "the key is not the certificate's"),
        ({"authorities_pem": OTHER.bundle_pem, "authority_key_pem": None}, "by none of the authorities"),
        ({"authorities_pem": b"rubbish"}, "the authority is not understood"),
        ({"authority_key_pem": OTHER.authority_key_pem}, "not the first authority's"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, bytes | None], reason: str) -> None:
    with pytest.raises(MaterialError, match=reason) as caught:
        read(**changes)
    assert "\n" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(("days", "is_good"), [(-0.01, False), (0.0, True), (89.99, True), (90.01, False)])
def test_a_certificate_is_taken_only_while_it_is_good(days: float, is_good: bool) -> None:
    material = made()
    now = NOW + days * DAY_SECONDS
    if is_good:
        read_material(chain_pem=material.chain_pem, key_pem=material.key_pem, names=NAMES, now_unix_seconds=now)
        return
    with pytest.raises(MaterialError, match="good from 2027-01-15 07:55:00 UTC to 2027-04-15 08:00:00 UTC only"):
        read_material(chain_pem=material.chain_pem, key_pem=material.key_pem, names=NAMES, now_unix_seconds=now)


@pytest.mark.parametrize(
    ("stated", "is_taken"),
    [("webhook.plimsoll.svc", True), ("WEBHOOK.Plimsoll.svc", True), ("*.plimsoll.svc", True), ("*.svc", False)],
)
def test_a_certificate_must_be_for_the_service(stated: str, is_taken: bool) -> None:
    authority_pem, authority_key_pem = make_authority(now_unix_seconds=NOW, life_seconds=DAY_SECONDS)
    chain_pem, key_pem = make_leaf(
        authority_pem=authority_pem,
        authority_key_pem=authority_key_pem,
        names=[stated],
        now_unix_seconds=NOW,
        life_seconds=DAY_SECONDS,
    )

    def taken() -> Material:
        return read_material(chain_pem=chain_pem, key_pem=key_pem, names=NAMES[:1], now_unix_seconds=NOW)

    if is_taken:
        assert taken().names == {stated}
        return
    with pytest.raises(MaterialError, match=r"is not for webhook\.plimsoll\.svc"):
        taken()


def test_a_chain_may_go_over_what_lies_between() -> None:
    """As an authority of a company gives it: leaf, intermediate; the root is known."""
    root_pem, root_key = make_authority(now_unix_seconds=NOW, life_seconds=DAY_SECONDS)
    between_pem, between_key = intermediate(root_pem, root_key)
    leaf_pem, leaf_key = make_leaf(
        authority_pem=between_pem,
        authority_key_pem=between_key,
        names=NAMES,
        now_unix_seconds=NOW,
        life_seconds=DAY_SECONDS,
    )

    def taken(chain_pem: bytes) -> Material:
        return read_material(
            chain_pem=chain_pem, key_pem=leaf_key, authorities_pem=root_pem, names=NAMES, now_unix_seconds=NOW
        )

    material = taken(leaf_pem + between_pem)
    assert (material.is_by_first, material.chain_pem) == (False, leaf_pem + between_pem)
    with pytest.raises(MaterialError, match="by none of the authorities"):
        taken(leaf_pem)


def intermediate(root_pem: bytes, root_key: bytes) -> tuple[bytes, bytes]:
    import datetime

    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, root = ec.generate_private_key(ec.SECP256R1()), x509.load_pem_x509_certificate(root_pem)
    signing = serialization.load_pem_private_key(root_key, None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    now = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "between")]))
        .issuer_name(root.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(signing, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(serialization.Encoding.PEM), pem


# -- when what is done -----------------------------------------------------------------------------------------------


def test_the_steps_of_a_life() -> None:
    assert step(None) is RotationStep.MAKE_ALL
    first = made()
    assert step(first) is RotationStep.NOTHING
    assert step(first, days=59.9) is RotationStep.NOTHING  # two thirds of 90 days
    assert step(first, days=60.1) is RotationStep.MAKE_LEAF
    second = done(RotationStep.MAKE_LEAF, first, days=60.1)
    assert second.bundle_pem == first.bundle_pem
    assert second.chain_pem != first.chain_pem
    assert step(second, days=60.1) is RotationStep.NOTHING


def test_an_authority_is_replaced_in_an_order_that_keeps_everybody_trusted() -> None:
    first = done(RotationStep.MAKE_LEAF, made(), days=480)
    assert step(first, days=486) is RotationStep.NOTHING  # two thirds of 730 days are 486.7
    assert step(first, days=487) is RotationStep.ADD_AUTHORITY
    second = done(RotationStep.ADD_AUTHORITY, first, days=487)
    assert second.chain_pem == first.chain_pem
    assert [authority.pem for authority in second.authorities[1:]] == [first.bundle_pem]
    # Not registered, or not for long enough: replicas still serve what everybody knows.
    assert step(second, days=487, registered=None) is RotationStep.NOTHING
    assert step(second, days=487, registered=119.0) is RotationStep.NOTHING
    assert step(second, days=487, registered=120.0) is RotationStep.MAKE_LEAF
    third = done(RotationStep.MAKE_LEAF, second, days=487)
    assert third.is_by_first
    assert third.bundle_pem == second.bundle_pem
    assert step(third, days=487.9) is RotationStep.NOTHING  # a day of overlap
    assert step(third, days=488.1) is RotationStep.DROP_AUTHORITIES
    fourth = done(RotationStep.DROP_AUTHORITIES, third, days=488.1)
    assert fourth.bundle_pem == third.authorities[0].pem
    assert fourth.chain_pem == third.chain_pem
    assert step(fourth, days=488.1) is RotationStep.NOTHING


def test_a_certificate_near_its_end_does_not_wait_for_the_registration() -> None:
    added = done(RotationStep.ADD_AUTHORITY, made(), days=80)
    assert step(added, days=80, registered=None) is RotationStep.NOTHING
    assert step(added, days=81.1, registered=None) is RotationStep.MAKE_LEAF


def test_what_lacks_a_name_or_the_authoritys_key_is_mended() -> None:
    material = made()
    assert step(dataclasses.replace(material, authority_key_pem=None)) is RotationStep.ADD_AUTHORITY
    assert step(dataclasses.replace(material, authorities=())) is RotationStep.MAKE_ALL
    assert step(dataclasses.replace(material, names=frozenset(NAMES[:1]))) is RotationStep.MAKE_LEAF


def test_expired_authorities_are_not_carried_on() -> None:
    old = done(RotationStep.ADD_AUTHORITY, made(), days=1)
    assert len(old.authorities) == 2
    renewed = done(RotationStep.MAKE_LEAF, old, days=1)
    late = done(RotationStep.MAKE_LEAF, renewed, days=730.5)
    assert [authority.pem for authority in late.authorities] == [old.authorities[0].pem]


@pytest.mark.parametrize("another_leads_at", [1, 1949, 1950, 1951, 1952, 1955])
def test_a_leader_may_die_after_any_step(another_leads_at: int) -> None:
    """Whoever goes on from what is stored comes to the same end; what is served is always by who is registered."""
    stored: Material | None = None
    registered: bytes | None = None
    registered_seconds = 0.0
    steps: list[RotationStep] = []
    checked: tuple[bytes, bytes] | None = None
    for turn in range(4000):
        now = NOW + turn * DAY_SECONDS / 4
        if stored is not None:
            registered_seconds = registered_seconds + DAY_SECONDS / 4 if registered == stored.bundle_pem else 0.0
            registered = stored.bundle_pem
        if turn == another_leads_at:
            registered_seconds = 0.0  # it has not seen for how long
        wanted = next_step(
            stored,
            registered_seconds=None if registered is None else registered_seconds,
            names=NAMES,
            now_unix_seconds=now,
            options=OPTIONS,
        )
        if wanted is not RotationStep.NOTHING:
            steps.append(wanted)
            stored = after_step(wanted, stored, names=NAMES, now_unix_seconds=now, options=OPTIONS)
        assert stored is not None
        assert now < stored.leaf.not_after_unix_seconds
        if registered is not None and checked != (registered, stored.chain_pem):
            checked = registered, stored.chain_pem
            # By the signature, which is what the API server checks.
            read_material(
                chain_pem=stored.chain_pem,
                key_pem=stored.key_pem,
                authorities_pem=registered,
                names=NAMES,
                now_unix_seconds=now,
            )
    around = steps[steps.index(RotationStep.ADD_AUTHORITY) :][:3]
    assert around == [RotationStep.ADD_AUTHORITY, RotationStep.MAKE_LEAF, RotationStep.DROP_AUTHORITIES]
    assert (steps[0], steps.count(RotationStep.MAKE_ALL)) == (RotationStep.MAKE_ALL, 1)
