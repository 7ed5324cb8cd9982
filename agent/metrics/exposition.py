"""A page of /metrics as a scraper asked for it: its format, and whether it is compressed.

Metrics. Series are made elsewhere; here they are only written down.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

NO_COMPRESSION_BELOW_BYTES: Final = 1024
_END: Final = b"# EOF\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPage:
    """One answer to a scrape."""

    content_type: str
    content_encoding: str | None
    """``gzip`` or None."""
    body: bytes


def write_page(registry: CollectorRegistry, *, openmetrics: bool, accept_encoding: str, more: str = "") -> MetricsPage:
    """Write all series of a registry, and ``more`` families in the same format; gzip at level 1 if it is accepted."""
    if openmetrics:
        own: bytes = generate_openmetrics(registry)  # type: ignore[no-untyped-call]
        body = own.removesuffix(_END) + more.encode() + _END
    else:
        body = generate_latest(registry) + more.encode()
    content_type = CONTENT_TYPE_OPENMETRICS if openmetrics else CONTENT_TYPE_PLAIN_0_0_4
    if len(body) >= NO_COMPRESSION_BELOW_BYTES and accepts_gzip(accept_encoding):
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)  # 31 = a gzip header around the largest window
        return MetricsPage(
            content_type=content_type, content_encoding="gzip", body=packer.compress(body) + packer.flush()
        )
    return MetricsPage(content_type=content_type, content_encoding=None, body=body)


def _weights(header: str) -> dict[str, float]:
    """Read ``name;q=0.5, other`` as names and weights; a weight that is no number counts as 0."""
    weights: dict[str, float] = {}
    for item in header.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        if name:
            weights[name] = max(weight, weights.get(name, 0.0))
    return weights


def wants_openmetrics(accept: str) -> bool:
    """Return whether OpenMetrics is wanted at least as much as plain text; ``*/*`` is plain text."""
    weights = _weights(accept)
    wish = weights.get("application/openmetrics-text", 0.0)
    return wish > 0 and wish >= weights.get("text/plain", 0.0)


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether the client takes gzip."""
    weights = _weights(accept_encoding)
    return weights.get("gzip", weights.get("*", 0.0)) > 0
