"""Our sentence in Spark's errors."""

from __future__ import annotations

from penstock.model.errors import InvalidConfig, UnknownTopic
from penstock.spark.errors import DataLoss, sentence

# As Spark words it, shortened.
WORKER_TEXT = """\
[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source read: Traceback (most recent calls):
  File "x.py", line 1, in main
    partitions = reader.partitions()
penstock.model.errors.UnknownTopic: Topic nope does not exist: create it first.

SQLSTATE: 38000
"""


def test_our_sentence_is_found_in_what_spark_says() -> None:
    assert sentence(RuntimeError(WORKER_TEXT)) == "Topic nope does not exist: create it first."
    loss = WORKER_TEXT.replace(
        "penstock.model.errors.UnknownTopic", "penstock.spark.errors.DataLoss"
    )
    assert sentence(RuntimeError(loss)) == "Topic nope does not exist: create it first."


def test_the_last_of_several_is_what_stopped_the_job() -> None:
    chained = (
        "penstock.model.errors.TimedOut: No answer.\n\nDuring handling of the above exception, "
        "another exception occurred:\n\npenstock.spark.errors.DataLoss: Offsets are gone.\n"
    )
    assert sentence(RuntimeError(chained)) == "Offsets are gone."


def test_an_error_of_ours_that_spark_did_not_wrap() -> None:
    assert sentence(InvalidConfig("No.")) == "No."
    wrapped = RuntimeError("spark")
    wrapped.__cause__ = UnknownTopic("Gone.")
    assert sentence(wrapped) == "Gone."


def test_what_is_not_about_us() -> None:
    assert sentence(RuntimeError("java.lang.OutOfMemoryError: heap")) is None
    assert sentence(ValueError()) is None


def test_a_loss_has_a_sentence_of_its_own() -> None:
    assert str(DataLoss()) == "Messages were gone before the query could read them."
