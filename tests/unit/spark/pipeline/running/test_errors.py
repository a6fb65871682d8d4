"""Spark's errors, and those of the user's own steps, as one sentence each."""

from __future__ import annotations

import pytest

from penstock.model.errors import UnknownTopic
from penstock.spark.pipeline.running.errors import sentence

ANALYSIS = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `amont` cannot be resolved. Did you \
mean `amount`? SQLSTATE: 42703; line 1 pos 7;
'Project ['amont]
+- Relation"""
WORKER = """Job aborted due to stage failure: Task 0 failed.
Traceback (most recent call last):
  File "x.py", line 3, in f
    raise ValueError("bad row")
ValueError: bad row

\tat org.apache.spark.api.python"""
OURS = """An exception was thrown: Traceback (most recent call last):
  File "y.py", line 3
penstock.model.errors.UnknownTopic: There is no topic 'x': create it.

SQLSTATE: 38000"""
JAVA = """An error occurred while calling o1.start.
: org.apache.spark.SparkException: Job aborted.
\tat x
Caused by: java.io.IOException: No space left on device
\tat y"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ANALYSIS, "A column `amont` cannot be resolved. Did you mean `amount`?"),
        (WORKER, "ValueError: bad row"),
        (OURS, "There is no topic 'x': create it."),
        (JAVA, "No space left on device"),
        ("plain", "plain"),
        ("", "RuntimeError"),
    ],
)  # fmt: skip
def test_sentences(text: str, expected: str) -> None:
    assert sentence(RuntimeError(text)) == expected


def test_our_own_error_is_its_message() -> None:
    assert sentence(UnknownTopic("There is none.")) == "There is none."
