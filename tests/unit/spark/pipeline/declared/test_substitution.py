"""Variables of the environment in a pipeline's texts."""

from __future__ import annotations

from penstock.spark.pipeline.declared.substitution import substituted
from penstock.spark.pipeline.declared.toml_lines import Path


def test_variables_are_replaced_wherever_a_text_is() -> None:
    missing: list[tuple[Path, str]] = []
    value = {
        "a": "${HOST}:${PORT:-9092}",
        "list": ["${HOST}", 5, {"deep": "${NONE}"}],
        "plain": "$HOST {HOST} ${not a name}",
        "empty": "${EMPTY:-}",
    }
    found = substituted(value, {"HOST": "h"}, lambda path, name: missing.append((path, name)))
    assert found == {
        "a": "h:9092",
        "list": ["h", 5, {"deep": "${NONE}"}],
        "plain": "$HOST {HOST} ${not a name}",
        "empty": "",
    }
    assert missing == [(("list", 2, "deep"), "NONE")]
