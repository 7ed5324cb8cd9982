"""``python -m tests.chart.generate``: values.schema.json, the table of values in the chart's README, SETTINGS.md."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from agent.settings.keys import SettingDoc, describe_settings
from agent.webhook.settings import WebhookSettings
from tests.chart.documented_values import documented_values
from tests.chart.values_schema import values_schema
from tests.cluster.chart import CHART

README: Final = CHART / "README.md"
SETTINGS: Final = CHART / "SETTINGS.md"
SCHEMA: Final = CHART / "values.schema.json"
_BEGIN, _END = "<!-- values: python -m tests.chart.generate -->", "<!-- /values -->"


def schema_text() -> str:
    """Return values.schema.json."""
    return json.dumps(values_schema(), indent=1) + "\n"


def value_table() -> str:
    """Return the table of all values."""
    rows = [f"| `{entry.key}` | {_default(entry.default)} | {entry.text} |" for entry in documented_values()]
    return "\n".join(["| value | default | what it does |", "|---|---|---|", *rows])


def readme_text(text: str) -> str:
    """Return the README with the table as it should be.

    Raises:
        ValueError: The marks between which it stands are not there.
    """
    begin, end = text.find(_BEGIN), text.find(_END)
    if not 0 <= begin < end:
        raise ValueError(f"{README}: {_BEGIN} and {_END} are not there")
    return f"{text[:begin]}{_BEGIN}\n{value_table()}\n{text[end:]}"


def settings_text() -> str:
    """Return SETTINGS.md: every setting of both programs."""
    agent, webhook = describe_settings(), describe_settings(WebhookSettings)
    shared = {entry.key for entry in agent} & {entry.key for entry in webhook}
    lines = [
        "# Settings",
        "",
        "Written by `python -m tests.chart.generate` from the program; `plimsoll settings` prints the same. The",
        "agent's go into the chart's value `settings`, the webhook's into `webhook.settings`, by section:",
        "`settings: {windows: {cpuWindowSeconds: 300}}`. Elsewhere: a YAML file (`--settings FILE`), a variable of the",
        "environment (`PLIMSOLL_WINDOWS_CPU_WINDOW_SECONDS`), `--set windows.cpuWindowSeconds=300`.",
        "",
        "## Agent",
        "",
        *_settings_table(agent),
        "",
        "## Webhook",
        "",
        "Beside these, the webhook goes by the agent's sections "
        f"{', '.join(f'`{name}`' for name in sorted({key.partition('.')[0] for key in shared}))}, with the same keys.",
        "",
        *_settings_table([entry for entry in webhook if entry.key not in shared]),
    ]
    return "\n".join(lines) + "\n"


def _settings_table(settings: Iterable[SettingDoc]) -> list[str]:
    rows = [
        f"| `{entry.key}` | `{entry.default}`{entry.by_profile} | {entry.allowed} | {entry.text} |".replace("``", "`")
        for entry in settings
    ]
    return ["| setting | default | allowed | what it does |", "|---|---|---|---|", *rows]


def _default(value: Any) -> str:
    shown = json.dumps(value, separators=(", ", ": ")) if not isinstance(value, str) or not value else value
    return f"`{shown}`"


def main() -> None:
    """Write all."""
    SETTINGS.write_text(settings_text())
    SCHEMA.write_text(schema_text())
    README.write_text(readme_text(README.read_text()))


if __name__ == "__main__":
    main()
