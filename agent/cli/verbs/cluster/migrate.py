"""``plimsoll migrate vpa``: what would change of each VerticalPodAutoscaler under Plimsoll. It writes nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.options.row_options import add_look_options
from agent.cli.options.settings_options import fail, file_or_stdin
from agent.cli.text.program_name import program_name

if TYPE_CHECKING:
    from agent.cli.workloads.migrate_view import Migration
    from agent.core.autoscalers.vpa_orders import VpaSurroundings
    from agent.kube.client.api import Api

_ALLOWED = "output of kubectl get vpa -A -o json"
_NOT_FOUND = 404


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("what", choices=("vpa",), metavar="vpa", help="VerticalPodAutoscaler objects")
    parser.add_argument("--file", metavar="FILE", type=file_or_stdin, help=f"{_ALLOWED}; - reads standard input")
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="read the cluster by this file (default: the pod's own account)"
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="only those of one namespace")
    parser.add_argument(
        "--evictions", action="store_true", help="as with the chart's evictions.enabled; without it nobody is evicted"
    )
    parser.add_argument(
        "--vpa-admission",
        action="store_true",
        help="as where VPA's own admission controller is; of a cluster it is looked up",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    add_look_options(parser)
    parser.epilog = "Nothing is written. Exit code: 0 shown, 1 no answer, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Show it."""
    from agent.core.autoscalers.vpa_orders import VpaSurroundings
    from agent.kube.client.errors import KubeError

    has_theirs = arguments.vpa_admission
    if arguments.file is not None:
        if arguments.kubeconfig is not None:
            fail("migrate: --file and --kubeconfig are not allowed together")
        documents = _of_file(arguments.file)
    else:
        try:
            documents, cluster_has_theirs = _of_cluster(arguments.kubeconfig)
        except KubeError as error:
            print(f"{program_name()} migrate: {error}", file=sys.stderr)
            return 1
        has_theirs = has_theirs or cluster_has_theirs
    surroundings = VpaSurroundings(has_their_admission=has_theirs, are_evictions_on=arguments.evictions)
    items = [_migrating(document, surroundings) for document in documents]
    shown = sorted(
        (migration for migration in items if arguments.namespace in (None, migration.namespace)),
        key=lambda migration: (migration.namespace, migration.name),
    )
    _show(shown, arguments)
    return 0


def _show(shown: Sequence[Migration], arguments: argparse.Namespace) -> None:
    from agent.cli.text.paragraphs import Page
    from agent.cli.text.spans import Line, Span
    from agent.cli.top.terminal import look_from, write_lines, write_text
    from agent.cli.workloads.migrate_view import migrating_body, migrating_lines

    if arguments.output == "json":
        import json

        import msgspec

        write_text(json.dumps(msgspec.to_builtins([migrating_body(migration) for migration in shown]), indent=2) + "\n")
        return
    look = look_from(arguments)
    page = Page(width=look.width, glyphs=look.glyphs)
    lines: list[Line] = []
    for migration in shown:
        lines += [*migrating_lines(migration, page), ()]
    ours = sum(migration.is_ours for migration in shown)
    lines.append((Span(f"{len(shown)} objects, {ours} of the recommender plimsoll; nothing was written"),))
    write_lines(lines, has_colour=look.has_colour)


def _of_file(path: Path) -> list[object]:
    from agent.cli.workloads.admission_files import AdmissionFilesError, items_of

    try:
        return items_of(path, "VerticalPodAutoscaler", _ALLOWED)
    except AdmissionFilesError as error:
        fail(f"migrate: --file: {error}")


def _of_cluster(kubeconfig: Path | None) -> tuple[list[object], bool]:
    """Return all objects, and whether VPA's own admission controller is there."""
    from agent.core.autoscalers.vpa_orders import THEIR_ADMISSION
    from agent.kube.client.api import HttpApi
    from agent.kube.client.credentials import in_cluster
    from agent.kube.client.errors import CredentialsError
    from agent.kube.client.kubeconfig import from_kubeconfig
    from agent.kube.objects.vpa_json import GROUP_PATH, VPAS

    try:
        credentials = from_kubeconfig(kubeconfig) if kubeconfig is not None else in_cluster()
    except CredentialsError as error:
        fail(f"migrate: {error}")
    if credentials is None:
        fail("migrate: no pod's service account here; allowed: --kubeconfig FILE, or --file FILE")
    api = HttpApi(credentials)
    registrations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    try:
        answer = _object_at(api, f"{GROUP_PATH}/{VPAS}")
        items = answer.get("items") if isinstance(answer, dict) else None
        theirs = _object_at(api, f"{registrations}/{THEIR_ADMISSION}") is not None
        return (list(items) if isinstance(items, list) else []), theirs
    finally:
        api.close()


def _object_at(api: Api, path: str) -> object | None:
    from agent.kube.client.errors import ApiError

    try:
        return api.call("GET", path)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return None
        raise


def _migrating(document: object, surroundings: VpaSurroundings) -> Migration:
    from agent.cli.workloads.migrate_view import Migration
    from agent.core.autoscalers.vpa_orders import vpa_orders
    from agent.kube.objects.json_reader import ConvertError
    from agent.kube.objects.vpa_json import recommenders_of, vpa_from_json

    metadata = document.get("metadata") if isinstance(document, dict) else None
    head = metadata if isinstance(metadata, dict) else {}
    namespace, name = str(head.get("namespace") or "default"), str(head.get("name") or "?")
    try:
        orders = vpa_orders(vpa_from_json(document), surroundings)
        return Migration(namespace=namespace, name=name, recommenders=recommenders_of(document), orders=orders)
    except ConvertError as error:
        return Migration(namespace=namespace, name=name, fault=str(error))
