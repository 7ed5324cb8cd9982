"""What becomes of the material when: the steps of a rotation, each safe to stop after. No I/O.

A new authority is made and registered beside the old one; only when every API server has had the time to learn of it
is the certificate made anew by it; only when every replica has had the time to take that up is the old one dropped. So
at each moment each certificate that any replica may serve is by an authority that the API servers trust.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from agent.webhook.certificates.issuer import CLOCKS_DIFFER_SECONDS, make_authority, make_leaf
from agent.webhook.certificates.material import Material, read_material
from agent.webhook.certificates.options import CertificateOptions

RENEW_RATIO: Final = 2 / 3
"""Of a life; the last third is for whatever is in the way of the renewal."""
LATE_RATIO: Final = 0.9
"""A certificate that is so old is replaced even if the new authority was not registered for long enough."""
MOST_AUTHORITIES: Final = 8
"""Trusted at once; more only come from rotations that follow each other closer than the overlap."""
DAY_SECONDS: Final = 86_400.0


class RotationStep(StrEnum):
    """What the leader does next."""

    NOTHING = "nothing"
    MAKE_ALL = "make all"
    ADD_AUTHORITY = "add an authority"
    """The certificate stays as it is."""
    MAKE_LEAF = "make a certificate"
    DROP_AUTHORITIES = "drop old authorities"


def next_step(
    material: Material | None,
    *,
    registered_seconds: float | None,
    names: Collection[str],
    now_unix_seconds: float,
    options: CertificateOptions,
) -> RotationStep:
    """Return the next step.

    Args:
        material: What there is, good now; None = nothing.
        registered_seconds: For how long all of its authorities have been seen in caBundle; None = they are not there.
    """
    if material is None or not material.authorities:
        return RotationStep.MAKE_ALL
    now = now_unix_seconds
    if material.authority_key_pem is None:
        return RotationStep.ADD_AUTHORITY
    if not material.is_by_first:
        is_known = registered_seconds is not None and registered_seconds >= options.propagation_seconds
        is_late = material.leaf.elapsed_ratio(now) >= LATE_RATIO
        return RotationStep.MAKE_LEAF if is_known or is_late else RotationStep.NOTHING
    if material.authorities[0].elapsed_ratio(now) >= RENEW_RATIO:
        return RotationStep.ADD_AUTHORITY
    if material.leaf.elapsed_ratio(now) >= RENEW_RATIO or not material.names.issuperset(names):
        return RotationStep.MAKE_LEAF
    leaf_age_seconds = now - material.leaf.not_before_unix_seconds - CLOCKS_DIFFER_SECONDS
    if len(material.authorities) > 1 and leaf_age_seconds >= options.overlap_seconds:
        return RotationStep.DROP_AUTHORITIES
    return RotationStep.NOTHING


def after_step(
    step: RotationStep,
    material: Material | None,
    *,
    names: Sequence[str],
    now_unix_seconds: float,
    options: CertificateOptions,
) -> Material:
    """Return what there is after a step, any but NOTHING."""
    now = now_unix_seconds
    if material is None or step is RotationStep.MAKE_ALL:
        authority_pem, authority_key_pem = _authority(now, options)
        return _with_leaf(authority_pem, b"", authority_key_pem, names, now, options)
    if step is RotationStep.ADD_AUTHORITY:
        authority_pem, authority_key_pem = _authority(now, options)
        known = [authority for authority in material.authorities if authority.not_after_unix_seconds > now]
        others = b"".join(authority.pem for authority in known[: MOST_AUTHORITIES - 1])
        return read_material(
            chain_pem=material.chain_pem,
            key_pem=material.key_pem,
            authorities_pem=authority_pem + others,
            authority_key_pem=authority_key_pem,
            names=(),
            now_unix_seconds=now,
        )
    if step is RotationStep.DROP_AUTHORITIES:
        return replace(material, authorities=material.authorities[:1])
    others = b"".join(authority.pem for authority in material.authorities[1:] if authority.not_after_unix_seconds > now)
    return _with_leaf(material.authorities[0].pem, others, material.authority_key_pem or b"", names, now, options)


def _authority(now: float, options: CertificateOptions) -> tuple[bytes, bytes]:
    return make_authority(now_unix_seconds=now, life_seconds=options.authority_days * DAY_SECONDS)


def _with_leaf(
    authority_pem: bytes,
    others_pem: bytes,
    authority_key_pem: bytes,
    names: Sequence[str],
    now: float,
    options: CertificateOptions,
) -> Material:
    chain_pem, key_pem = make_leaf(
        authority_pem=authority_pem,
        authority_key_pem=authority_key_pem,
        names=names,
        now_unix_seconds=now,
        life_seconds=options.leaf_days * DAY_SECONDS,
    )
    return read_material(
        chain_pem=chain_pem,
        key_pem=key_pem,
        authorities_pem=authority_pem + others_pem,
        authority_key_pem=authority_key_pem,
        names=names,
        now_unix_seconds=now,
    )
