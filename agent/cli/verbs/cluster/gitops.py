"""``plimsoll gitops``: requests and limits of known workloads, written into a checkout of their manifests."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.client.webhook import NoWebhookAnswerError, WebhookReader, add_webhook_options
from agent.cli.options.row_options import add_look_options
from agent.cli.options.settings_options import add_options, fail, file_or_stdin
from agent.cli.text.output_files import OutputError, check_output, put_output
from agent.cli.text.program_name import program_name
from agent.cli.verbs.cluster.webhook import SETTINGS_LISTER

if TYPE_CHECKING:
    from agent.cli.gitops.amounts import ContainerChange
    from agent.cli.gitops.known import KnownWorkloads
    from agent.cli.gitops.manifests import Instance
    from agent.cli.gitops.values_map import MappedContainer
    from agent.core.admission.options import AdmissionSettings
    from agent.webhook.queries.workload_bodies import WorkloadBody

_DEFAULT_PERCENT: Final = 10.0
_MOST_PERCENT: Final = 1000.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "directory", metavar="DIR", type=Path, help="a checkout: manifests, Kustomizations, Helm values"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where something would change")
    parser.add_argument(
        "--min-change",
        metavar="PERCENT",
        type=_percent,
        default=_DEFAULT_PERCENT,
        help="leave amounts that differ by less, for instance 10%% (default: 10%%)",
    )
    parser.add_argument("--pr-body", metavar="FILE", type=Path, help="write what changed and why, as Markdown")
    parser.add_argument(
        "--map",
        metavar="FILE",
        type=Path,
        help="YAML that says which values are whose: FILE: {NAMESPACE/KIND/NAME/CONTAINER: path.to.resources}",
    )
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="namespace of manifests that state none (default: they are left)"
    )
    parser.add_argument(
        "--history",
        metavar="FILE",
        type=file_or_stdin,
        help="a file that plimsoll workloads wrote with output history, instead of asking the webhook",
    )
    add_look_options(parser)
    add_webhook_options(parser)
    add_options(parser, lister=SETTINGS_LISTER)
    parser.epilog = "Exit code: 0 written or nothing to do, 1 drift (--check), 2 bad input, 3 no answer or not written."


def _percent(text: str) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= _MOST_PERCENT:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: a percentage such as 10%")
    return percent


def run(arguments: argparse.Namespace) -> int:
    """Propose, and write unless that is not wanted."""
    from agent.cli.gitops.checkout import Checkout, CheckoutError
    from agent.cli.gitops.known import KnownFileError
    from agent.cli.gitops.proposal import propose
    from agent.cli.gitops.report import lines_of, markdown
    from agent.cli.gitops.scan import instances_of
    from agent.cli.top.terminal import look_from, write_lines

    settings = admission_settings(arguments)
    mapped = mapped_of(arguments)
    try:
        if arguments.pr_body is not None:
            check_output(arguments.pr_body)
        checkout = Checkout(arguments.directory)
        known = _known(arguments)
        instances = instances_of(checkout, mapped)
        sizes = _Sizes(known, settings, arguments)
        proposal = propose(instances, sizes.of)
        left = [*proposal.left, *checkout.left]
        if not arguments.check:
            checkout.replace(proposal.files)
        if arguments.pr_body is not None:
            body = markdown(proposal, left, sizes.body, min_change_percent=arguments.min_change)
            put_output(arguments.pr_body, body.encode())
    except (KnownFileError, OutputError) as error:
        fail(f"gitops: {error}")
    except (CheckoutError, NoWebhookAnswerError) as error:
        print(f"{program_name()} gitops: {error}", file=sys.stderr)
        return 3
    look = look_from(arguments)
    write_lines(list(lines_of(proposal, left, is_check=arguments.check)), has_colour=look.has_colour)
    return 1 if arguments.check and proposal.changes else 0


def admission_settings(arguments: argparse.Namespace) -> AdmissionSettings:
    """Return the webhook's settings: it is the one that would admit the pods."""
    try:
        from agent.cli.verbs.cluster.webhook import webhook_settings_from

        return webhook_settings_from(arguments).of_admission()
    except ModuleNotFoundError as error:
        fail(f"{arguments.verb}: {error.name} is not installed; allowed: pip install 'plimsoll[webhook]'")


def mapped_of(arguments: argparse.Namespace) -> tuple[MappedContainer, ...]:
    """Return what ``--map`` says; a file that cannot be used is one line and code 2."""
    if arguments.map is None:
        return ()
    from agent.cli.gitops.values_map import ValuesMapError, mapped_containers
    from agent.core.numbers.document_text import DocumentTextError, decoded, yaml_values
    from agent.named_file import PAGE_MOST_BYTES, read_named

    try:
        documents = yaml_values(decoded(read_named(arguments.map, most_bytes=PAGE_MOST_BYTES)))
        return tuple(entry for document in documents if document is not None for entry in mapped_containers(document))
    except OSError as error:
        fail(f"{arguments.verb}: --map {arguments.map}: cannot be read: {error.strerror or error}")
    except (DocumentTextError, ValuesMapError) as error:
        fail(f"{arguments.verb}: --map {arguments.map}: {error}")


def _known(arguments: argparse.Namespace) -> KnownWorkloads:
    from agent.cli.gitops.known import of_file, of_webhook

    return of_webhook(WebhookReader(arguments)) if arguments.history is None else of_file(arguments.history)


class _Sizes:
    """What is known of the workloads of the checkout, each asked for once."""

    def __init__(self, known: KnownWorkloads, settings: AdmissionSettings, arguments: argparse.Namespace) -> None:
        self._known: Final = known
        self._settings: Final = settings
        self._namespace: Final[str | None] = arguments.namespace
        self._ratio: Final = arguments.min_change / 100
        self._now: Final = time.time()

        self._bodies: Final[dict[str, WorkloadBody | None]] = {}

    def body(self, instance: Instance) -> WorkloadBody | None:
        """Return what is known of a workload; None = nothing."""
        name = str(instance)
        if name not in self._bodies:
            self._bodies[name] = self._known.of(instance.namespace or "", instance.kind, instance.name)
        return self._bodies[name]

    def of(self, instance: Instance) -> tuple[ContainerChange, ...] | None:
        """Return what its containers should have; None = nothing is known of it. WithoutAmounts = it is left."""
        from agent.cli.gitops.amounts import WithoutAmounts, sized

        instance.namespace = instance.namespace or self._namespace
        if instance.namespace is None:
            places = self._known.namespaces_of(instance.kind, instance.name)
            if places:
                raise WithoutAmounts(
                    f"states no namespace, known in {', '.join(places[:3])}; allowed: --namespace NAME"
                )
            return None
        body = self.body(instance)
        if body is None:
            return None
        return sized(instance, body, self._settings, min_change_ratio=self._ratio, now=self._now)
