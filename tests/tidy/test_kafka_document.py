"""docs/kafka.md says what the code speaks."""

from __future__ import annotations

from tools.kafka_table import DOCUMENT, renewed


def test_the_table_of_apis_is_made_from_the_code() -> None:
    """R-NET-5."""
    document = DOCUMENT.read_text()
    assert renewed(document) == document, "run `make docs` and commit what it made"
