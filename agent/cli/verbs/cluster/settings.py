"""``plimsoll settings``: every setting with its default, range and reason; or those in force."""

from __future__ import annotations

import argparse
import json

from agent.cli.options.settings_options import (
    CGROUP_OPTIONS,
    SAMPLING_OPTIONS,
    SERVING_OPTIONS,
    add_options,
    settings_from,
    sourced_settings_from,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--in-force", action="store_true", help="print the settings in force here, as JSON")
    parser.add_argument(
        "--sources",
        action="store_true",
        help="print the settings in force here that are no defaults, and where from",
    )
    parser.add_argument(
        "--webhook", action="store_true", help="list the settings of plimsoll webhook instead of the agent's"
    )
    add_options(parser, CGROUP_OPTIONS, SAMPLING_OPTIONS, SERVING_OPTIONS)


def run(arguments: argparse.Namespace) -> int:
    """List what can be set, or what is."""
    from agent.settings import settings_help

    if arguments.sources:
        _print_sources(arguments)
        return 0
    if arguments.webhook:
        from agent.cli.verbs.cluster.webhook import webhook_settings_from
        from agent.webhook.settings import WebhookSettings

        of_webhook = webhook_settings_from(arguments)
        print(json.dumps(of_webhook.to_dict(), indent=2) if arguments.in_force else settings_help(WebhookSettings))
        return 0
    settings = settings_from(arguments)
    print(json.dumps(settings.to_dict(), indent=2) if arguments.in_force else settings_help())
    return 0


def _print_sources(arguments: argparse.Namespace) -> None:
    """Print each setting that is no default: key, value, and the file, variable, option or profile that it is from."""
    from agent.cli.text.spans import harmless
    from agent.core.orders.profile import value_text

    sources: dict[str, str] = {}
    if arguments.webhook:
        from agent.cli.verbs.cluster.webhook import webhook_settings_from

        in_force = webhook_settings_from(arguments, sources=sources).to_dict()
    else:
        settings, from_where = sourced_settings_from(arguments)
        in_force = settings.to_dict()
        sources.update(from_where)
    for key, source in sorted(sources.items()):
        section, _, name = key.rpartition(".")
        values = in_force[section] if section else in_force
        value = values[name] if isinstance(values, dict) else None
        print(harmless(f"{key} = {value_text(value)}  ({source})"))
