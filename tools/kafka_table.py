"""Writes the table of Kafka's APIs in docs/kafka.md from the table in the code: `make docs`.

Not the words around it. The invariant: what stands between the two marks is `made()`, which
tests/tidy/test_kafka_document.py checks.
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.protocol.kafka.apis import APIS, Api

DOCUMENT = Path(__file__).parents[1] / "docs" / "kafka.md"
BEGIN = "<!-- apis: made by `make docs` from protocol/kafka/apis.py -->\n"
END = "<!-- end of apis -->\n"


def made() -> str:
    """The table, a line for each API in the order of Kafka's numbers."""
    head = "| API | number | versions | flexible from | what it is |\n|---|---|---|---|---|\n"
    return head + "".join(_line(APIS[key]) for key in sorted(APIS))


def renewed(document: str) -> str:
    """The document with the table as the code has it now."""
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + made() + END + after


def _line(api: Api) -> str:
    if api.version_min == api.version_max:
        versions = str(api.version_min)
    else:
        versions = f"{api.version_min} to {api.version_max}"
    flexible = "never" if api.flexible_since is None else str(api.flexible_since)
    return f"| {api.name} | {api.key} | {versions} | {flexible} | {_purpose(api)} |\n"


def _purpose(api: Api) -> str:
    """What the module of the API's messages says of it, after its name and number."""
    text = " ".join((sys.modules[api.request.__module__].__doc__ or "").split())
    name, purpose = text.split(": ", 1)
    assert name == f"{api.name} (API {api.key})", name
    return purpose[0].upper() + purpose[1:]


if __name__ == "__main__":
    DOCUMENT.write_text(renewed(DOCUMENT.read_text()))
