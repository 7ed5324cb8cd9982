"""The cluster that kubectl would speak to, and the way from there to its webhook. Face."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.client.webhook import DEFAULT_ACCOUNT, FORWARD, NoWebhookAnswerError
from agent.cli.options.settings_options import fail

if TYPE_CHECKING:
    from agent.kube.client.credentials import Credentials

INSTALLED_IN: Final = "plimsoll"
"""The namespace of Plimsoll unless another is named."""
_FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The cluster, and who asks."""

    credentials: Credentials
    namespace: str
    """Of pods that are named without one."""
    is_namespace_given: bool


def add_installed_in(group: argparse._ArgumentGroup) -> None:
    """Declare where Plimsoll is."""
    group.add_argument(
        "--plimsoll-namespace",
        metavar="NAME",
        dest="installed_in",
        default=INSTALLED_IN,
        help="namespace that Plimsoll is installed in (default: %(default)s)",
    )


def add_context(group: argparse._ArgumentGroup) -> None:
    """Declare which context of the kubeconfig is meant."""
    group.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: the current one)")


def connected(arguments: argparse.Namespace) -> ClusterAccess:
    """Return the cluster that kubectl would speak to; what cannot be used is one line and code 2."""
    from agent.kube.client.credentials import in_cluster
    from agent.kube.client.errors import CredentialsError
    from agent.kube.client.kubeconfig import context_namespace, from_kubeconfig
    from agent.named_file import is_missing

    given: Path | None = arguments.kubeconfig
    named: str | None = getattr(arguments, "namespace", None)
    usual = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube/config")
    path = given if given is not None else Path(usual)
    try:
        if given is None and arguments.context is None and not os.environ.get("KUBECONFIG") and is_missing(path):
            own = in_cluster()
            if own is None:
                fail(f"{arguments.verb}: no kubeconfig at {path}; allowed: --kubeconfig FILE, or KUBECONFIG")
            return ClusterAccess(own, named or "default", named is not None)
        namespace = context_namespace(path, arguments.context)
        credentials = from_kubeconfig(path, arguments.context)
    except CredentialsError as error:
        fail(f"{arguments.verb}: {error}")
    return ClusterAccess(credentials, named or namespace, named is not None)


@contextlib.contextmanager
def forwarded(arguments: argparse.Namespace) -> Iterator[None]:
    """Send the verb's questions through a forward to the webhook, which ends with the block.

    Raises:
        NoWebhookAnswerError: There is no way; one line.
        SystemExit: The kubeconfig cannot be used; one line, code 2.
    """
    from agent.cli.client.webhook_forward import NoWebhookError, WebhookForward
    from agent.kube.client.api import HttpApi
    from agent.kube.client.errors import KubeError
    from agent.kube.objects.json_reader import ConvertError

    credentials = connected(arguments).credentials
    where = arguments.installed_in
    if arguments.account == DEFAULT_ACCOUNT:
        arguments.account = f"{where}/{DEFAULT_ACCOUNT.partition('/')[2]}"
    try:
        forward = WebhookForward(HttpApi(credentials), credentials, where)
    except (NoWebhookError, KubeError, ConvertError) as error:
        raise NoWebhookAnswerError(refusal(error)) from error
    setattr(arguments, FORWARD, forward)
    try:
        yield
    finally:
        forward.close()


def refusal(error: Exception) -> str:
    """Return what the server said; a right that is missing by its name, which the server's message has."""
    from agent.kube.client.errors import ApiError

    if isinstance(error, ApiError) and error.status == _FORBIDDEN:
        return f"a right is missing: {error.message or error}"
    return str(error)
