"""``plimsoll webhook``: the central process. Takes reports, sizes new pods, judges evictions; draws nothing."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.options.settings_options import Option, add_options, fail, overrides_from
from agent.named_file import open_named

if TYPE_CHECKING:
    from agent.webhook.settings import WebhookSettings

SETTINGS_LISTER: Final = "plimsoll settings --webhook"
WEBHOOK_OPTIONS: Final = (
    Option("--database", "database.url", "URL", "a path or sqlite:///PATH, or postgresql://... for several replicas"),
    Option("--kubeconfig", "cluster.kubeconfig", "FILE", "kubeconfig file, to reach the API server from outside a pod"),
    Option(
        "--namespace", "cluster.namespace", "NAME", "of the webhook, its ConfigMap and the agents (default: plimsoll)"
    ),
    Option("--replica", "cluster.replica", "NAME", "this replica's name in the Lease (default: the host name)"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "--listen", metavar="ADDR:PORT", help="where HTTPS is served; port 0 = any free one (default: 0.0.0.0:8443)"
    )
    parser.add_argument(
        "--tls-cert",
        metavar="FILE",
        type=Path,
        help="PEM file of the certificate (default: the webhook makes and renews its own)",
    )
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="PEM file of its key")
    add_options(parser, WEBHOOK_OPTIONS, lister=SETTINGS_LISTER)
    parser.epilog = "Exit code: 0 ended, 2 it cannot run with these settings."


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    settings = webhook_settings_from(arguments)
    from agent.core.cost.prices import PriceError
    from agent.kube.client.errors import CredentialsError
    from agent.node import log_format as logs
    from agent.webhook.assembly import ListeningError, Webhook
    from agent.webhook.certificates.certificates import CertificateSetupError
    from agent.webhook.store.shapes import StoreError

    logs.setup(settings.logging.level, settings.logging.format)
    for name, level in (("alembic.runtime.plugins", logging.WARNING), ("urllib3.connectionpool", logging.ERROR)):
        logging.getLogger(name).setLevel(level)  # their own insides
    _check_readable(settings.certificate.certificate_file, settings.certificate.key_file)
    try:
        webhook = Webhook(settings)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: webhook.stop())
        webhook.run()
    except (CredentialsError, StoreError, CertificateSetupError, ListeningError, PriceError) as error:
        fail(f"webhook: {error}")
    return 0


def webhook_settings_from(arguments: argparse.Namespace, *, sources: dict[str, str] | None = None) -> WebhookSettings:
    """Load the webhook's settings in force for this command; all faults are listed on stderr, code 2.

    ``sources`` takes, by key, where each comes from that is no default.
    """
    from agent.cli.text.spans import harmless
    from agent.settings import SettingsError
    from agent.webhook.settings import load_webhook_settings

    overrides: dict[str, object] = {**_listening(arguments), **_certificate(arguments), **overrides_from(arguments)}
    try:
        return load_webhook_settings(
            arguments.settings_file, environment=os.environ, overrides=overrides, sources=sources
        )
    except SettingsError as error:
        for line in error.errors:
            print(harmless(f"plimsoll: {line}"), file=sys.stderr)
        raise SystemExit(2) from error


def _check_readable(*files: Path | None) -> None:
    """Refuse files that are not there at the start: waiting for them would be a webhook that never gets ready."""
    for file in files:
        if file is None:
            continue
        try:
            open_named(file).close()
        except OSError as error:
            fail(f"webhook: {file}: cannot be read: {(error.strerror or type(error).__name__).lower()}")


def _listening(arguments: argparse.Namespace) -> dict[str, object]:
    text: str | None = getattr(arguments, "listen", None)
    if text is None:
        return {}
    address, colon, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    if not colon or not address or not port.isascii() or not port.isdigit():
        fail(f"webhook: --listen {text}: is not allowed; allowed: ADDRESS:PORT, for instance 0.0.0.0:8443 or [::]:8443")
    return {"listening.address": address, "listening.port": port}


def _certificate(arguments: argparse.Namespace) -> dict[str, object]:
    certificate: Path | None = getattr(arguments, "tls_cert", None)
    key: Path | None = getattr(arguments, "tls_key", None)
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        fail("webhook: --tls-cert and --tls-key: one is not allowed without the other")
    return {
        "certificate.source": "files",
        "certificate.certificateFile": str(certificate.absolute()),
        "certificate.keyFile": str(key.absolute()),
    }
