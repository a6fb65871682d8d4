"""Spark's errors as one sentence each.

Ours, raised in Spark's workers, are found by `penstock.spark.errors`; this is for Spark's own: a
query that names no such column, a step of the user that raises, a job that fails, a JVM that ends.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.spark import errors
from penstock.spark.sessions.gateway import end_sentence

# `[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column … SQLSTATE: 42703; line 1 pos 7;` and a plan.
_CLASS: Final = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
# The last line of a Python traceback, and the message of a Java exception.
_PYTHON: Final = re.compile(
    r"^(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Exit)): (?P<text>.+)$", re.MULTILINE
)
_JAVA: Final = re.compile(
    r"^(?:Caused by: |: )?(?:[a-z]\w*\.)+[A-Z]\w*: (?P<text>.+)$", re.MULTILINE
)


def sentence(error: BaseException) -> str:
    """What is wrong, in one sentence."""
    return errors.sentence(error) or end_sentence(error) or _of_spark(error)


def _of_spark(error: BaseException) -> str:
    text = str(error).strip()
    if python := _PYTHON.findall(text):
        kind, message = python[-1]
        return f"{kind.rpartition('.')[2]}: {message.strip()}"
    if java := _JAVA.findall(text):
        text = str(java[-1])
    text = _STATE.sub("", _CLASS.sub("", text))
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first or type(error).__name__
