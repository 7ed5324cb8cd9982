"""All settings of the webhook, in sections; loaded as the agent's are: command line, environment, file. Webhook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from agent.calendar import ReadWindows
from agent.core.admission.options import AdmissionOptions, AdmissionSettings
from agent.core.autoscalers.options import HpaOptions, Publish, VpaObjectOptions
from agent.core.buffers.placeholder_options import PlaceholderOptions
from agent.core.cost.price_sheet import MOST_SHEET_BYTES, SheetError
from agent.core.cost.prices import LIST_CURRENCY, PriceError, Prices
from agent.core.eviction.options import ArbiterOptions
from agent.core.orders.guard_options import GuardOptions
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, CraneOptions, CruiseOptions, SizingOptions, VpaOptions
from agent.core.orders.profile import Profile, ProfileSetting, profile_settings
from agent.core.orders.run_options import RunOptions, WorkloadOptions
from agent.named_file import read_named
from agent.settings.sections import LoggingSettings, RecommendSettings, camel
from agent.settings.sources import load_into
from agent.settings.webhook_sections import (
    AccessSettings,
    ClusterSettings,
    CostSettings,
    DatabaseSettings,
    ListeningSettings,
)
from agent.webhook.buffers.options import BufferOptions
from agent.webhook.certificates.options import CertificateOptions, CertificateSource
from agent.webhook.workloads.folder import FoldOptions
from agent.webhook.workloads.rebuilder import RebuildOptions
from agent.webhook.workloads.shapes import IndexOptions

_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_PASSWORD: Final = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """All settings of the webhook; sections that the agent has too mean the same, and their defaults are the same."""

    listening: ListeningSettings = field(default_factory=ListeningSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    certificate: CertificateOptions = field(default_factory=CertificateOptions)
    access: AccessSettings = field(default_factory=AccessSettings)
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    arbiter: ArbiterOptions = field(default_factory=ArbiterOptions)
    buffers: BufferOptions = field(default_factory=BufferOptions)
    placeholders: PlaceholderOptions = field(default_factory=PlaceholderOptions)
    vpa_objects: VpaObjectOptions = field(default_factory=VpaObjectOptions)
    hpa: HpaOptions = field(default_factory=HpaOptions)
    history: IndexOptions = field(default_factory=IndexOptions)
    folding: FoldOptions = field(default_factory=FoldOptions)
    rebuilding: RebuildOptions = field(default_factory=RebuildOptions)
    recommend: RecommendSettings = field(default_factory=RecommendSettings)
    act: ActOptions = field(default_factory=ActOptions)
    guard: GuardOptions = field(default_factory=GuardOptions)
    plan: PlanOptions = field(default_factory=PlanOptions)
    workloads: WorkloadOptions = field(default_factory=WorkloadOptions)
    jobs: RunOptions = field(default_factory=RunOptions)
    bounds: BoundsOptions = field(default_factory=BoundsOptions)
    cruise: CruiseOptions = field(default_factory=CruiseOptions)
    vpa: VpaOptions = field(default_factory=VpaOptions)
    crane: CraneOptions = field(default_factory=CraneOptions)
    sizing: SizingOptions = field(default_factory=SizingOptions)
    cost: CostSettings = field(default_factory=CostSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    profile: Profile = Profile.DEFAULT
    """document = where no setting says otherwise, as the CruiseKube document writes: memory limits exactly 2 x what was
    seen, literal fit, this hour only. For agent and webhook alike."""

    def of_admission(self) -> AdmissionSettings:
        """Return the parts that a pod is sized by."""
        return AdmissionSettings(
            act=self.act,
            plan=self.plan,
            bounds=self.bounds,
            admission=self.admission,
            jobs=self.jobs,
            policy=self.recommend.policy,
            vpa_controlled_values=self.vpa.controlled_values,
            read_windows=ReadWindows(),
        )

    def to_dict(self) -> dict[str, object]:
        """Return all values under their keys in the file, as plain JSON values; a password in a URL is not shown."""
        return {camel(setting.name): _plain(getattr(self, setting.name)) for setting in fields(self)}

    def of_profile(self) -> tuple[ProfileSetting, ...]:
        """Return the settings that the profile is about, as they are in force."""
        return profile_settings(self.profile, self.to_dict())


def load_webhook_settings(
    path: Path | None,
    *,
    environment: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    sources: dict[str, str] | None = None,
) -> WebhookSettings:
    """Read all sources and give the settings in force; see ``load_settings``."""
    return load_into(
        WebhookSettings,
        path,
        environment=environment,
        overrides=overrides,
        contradictions=_contradictions,
        sources=sources,
    )


def _contradictions(settings: WebhookSettings, _: Mapping[str, tuple[str, object]]) -> Iterable[str]:
    bounds, certificate, access = settings.bounds, settings.certificate, settings.access
    for name, least, most in (
        ("CpuMillicores", bounds.min_cpu_millicores, bounds.max_cpu_millicores),
        ("MemoryBytes", bounds.min_memory_bytes, bounds.max_memory_bytes),
    ):
        if most is not None and most < least:
            yield f"bounds.max{name}: {most} is not allowed; allowed: at least bounds.min{name} ({least})"
    files = (certificate.certificate_file, certificate.key_file)
    if certificate.source is CertificateSource.FILES and None in files:
        yield "certificate.source: files is not allowed without certificate.certificateFile and certificate.keyFile"
    for name, file in zip(("certificateFile", "keyFile"), files, strict=True):
        if certificate.source is not CertificateSource.FILES and file is not None:
            yield f"certificate.{name}: is not read with certificate.source {certificate.source}; allowed: files"
    if certificate.leaf_days > certificate.authority_days:
        yield (
            f"certificate.leafDays: {certificate.leaf_days:g} is not allowed; allowed: at most "
            f"certificate.authorityDays ({certificate.authority_days:g})"
        )
    arbiter = settings.arbiter
    if arbiter.most_back_off_seconds < arbiter.refused_back_off_seconds:
        yield (
            f"arbiter.mostBackOffSeconds: {arbiter.most_back_off_seconds:g} is not allowed; allowed: at least "
            f"arbiter.refusedBackOffSeconds ({arbiter.refused_back_off_seconds:g})"
        )
    objects = settings.vpa_objects
    if objects.publish is not Publish.OFF and not objects.enabled:
        yield f"vpaObjects.publish: {objects.publish} is not allowed without vpaObjects.enabled; allowed: {Publish.OFF}"
    placeholders = settings.placeholders
    if placeholders.most_back_off_seconds < placeholders.first_back_off_seconds:
        yield (
            f"placeholders.mostBackOffSeconds: {placeholders.most_back_off_seconds:g} is not allowed; allowed: at "
            f"least placeholders.firstBackOffSeconds ({placeholders.first_back_off_seconds:g})"
        )
    if settings.folding.retention_days < settings.history.retention_days:
        yield (
            f"folding.retentionDays: {settings.folding.retention_days} is not allowed; allowed: at least "
            f"history.retentionDays ({settings.history.retention_days})"
        )
    yield from _cost_faults(settings.cost)
    if access.unpacked_bytes < access.body_bytes:
        yield (
            f"access.unpackedBytes: {access.unpacked_bytes} is not allowed; allowed: at least access.bodyBytes "
            f"({access.body_bytes})"
        )


def _cost_faults(cost: CostSettings) -> Iterable[str]:
    if not _CURRENCY.fullmatch(cost.currency):
        yield f"cost.currency: {cost.currency[:60]!r} is not allowed; allowed: three capital letters, such as USD"
    elif cost.currency != LIST_CURRENCY and cost.cpu_core_hour is None:
        yield (
            f"cost.currency: {cost.currency} is not allowed without cost.cpuCoreHour and cost.memoryGibHour: the list "
            f"prices are in {LIST_CURRENCY}"
        )
    if (cost.cpu_core_hour is None) != (cost.memory_gib_hour is None):
        yield "cost.cpuCoreHour and cost.memoryGibHour: one is not allowed without the other"
    try:
        cost.prices()
    except PriceError as error:
        yield str(error)


def read_prices(cost: CostSettings) -> Prices:
    """Return all prices, with those of the file.

    Raises:
        PriceError: The file cannot be read, or is not understood; one line.
    """
    if cost.file is None:
        return cost.prices()
    try:
        return cost.prices(read_named(cost.file, most_bytes=MOST_SHEET_BYTES).decode())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no UTF-8"
        raise PriceError(f"cost.file {cost.file}: cannot be read: {reason}") from error
    except SheetError as error:
        raise PriceError(str(error)) from error


def _plain(value: object) -> object:
    if isinstance(value, DatabaseSettings):
        return {"url": _PASSWORD.sub(r"\1:***@", value.url)}
    if is_dataclass(value):
        return {camel(setting.name): _plain(getattr(value, setting.name)) for setting in fields(value)}
    return str(value) if isinstance(value, (Path, StrEnum)) else value
