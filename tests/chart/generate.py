"""``python -m tests.chart.generate``: values.schema.json, and the table of values in the chart's README."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.chart.documented_values import documented_values
from tests.chart.values_schema import values_schema
from tests.cluster.chart import CHART

README: Final = CHART / "README.md"
SCHEMA: Final = CHART / "values.schema.json"
_BEGIN, _END = "<!-- values: python -m tests.chart.generate -->", "<!-- /values -->"


def schema_text() -> str:
    """Give values.schema.json."""
    return json.dumps(values_schema(), indent=1) + "\n"


def value_table() -> str:
    """Give the table of all values."""
    rows = [f"| `{one.key}` | {_default(one.default)} | {one.text} |" for one in documented_values()]
    return "\n".join(["| value | default | what it does |", "|---|---|---|", *rows])


def readme_text(text: str) -> str:
    """Give the README with the table as it should be.

    Raises:
        ValueError: The marks between which it stands are not there.
    """
    begin, end = text.find(_BEGIN), text.find(_END)
    if not 0 <= begin < end:
        raise ValueError(f"{README}: {_BEGIN} and {_END} are not there")
    return f"{text[:begin]}{_BEGIN}\n{value_table()}\n{text[end:]}"


def _default(value: Any) -> str:
    shown = json.dumps(value, separators=(", ", ": ")) if not isinstance(value, str) or not value else value
    return f"`{shown}`"


def main() -> None:
    """Write both."""
    SCHEMA.write_text(schema_text())
    README.write_text(readme_text(README.read_text()))


if __name__ == "__main__":
    main()
