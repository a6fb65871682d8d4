"""Dead letters by their cause, as the headers that various systems put there tell it.

Which topics hold dead letters: those that are given, and those named after an inspected topic.
Not the rest of an inspection: dead letters are counted and dated, nothing more. Of a header that
holds a message for people, digits are left out: so one cause is one row, not one for each order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

# After the topic's name, whatever the case: orders.dead, orders-dlq, orders.DLT, orders_dead_letter
_SUFFIX: Final = re.compile(r"[._-](dead|dlq|dlt|dead[._-]?letters?)", re.IGNORECASE)
# The first of these that a message has says why it is dead: Penstock's own, Spring's, Kafka
# Connect's, and a common one.
_KINDS: Final = (
    "penstock-dead-cause",
    "kafka_dlt-exception-cause-fqcn",
    "kafka_dlt-exception-fqcn",
    "__connect.errors.exception.class.name",
    "x-death-reason",
)
_SENTENCES: Final = ("kafka_dlt-exception-message", "__connect.errors.exception.message")
_CAUSE_CHARACTERS_MAX: Final = 200
_UNKNOWN: Final = "not said"
_OTHERS: Final = "other causes"


def dead_letter_topics(
    topics: Collection[str], given: Iterable[str], existing: Iterable[str]
) -> list[str]:
    """The topics of dead letters: the given ones, and those that exist for an inspected topic."""
    found = [name for name in existing if any(_is_named_after(name, topic) for topic in topics)]
    listed = [topic for topic in topics if is_dead_letter_name(topic)]
    return sorted({*given, *found, *listed})


def by_owner(topics: Sequence[str], dead: Iterable[str]) -> dict[str, list[str]]:
    """Whose dead letters these topics hold: those of the topic that they are named after; where
    that is not inspected, their own if they are; else the first topic's."""
    owners: dict[str, list[str]] = {}
    for name in dead:
        named = [topic for topic in topics if _is_named_after(name, topic)]
        owner = named[0] if named else name if name in topics else topics[0]
        owners.setdefault(owner, []).append(name)
    return owners


def _is_named_after(name: str, topic: str) -> bool:
    return name.startswith(topic) and _SUFFIX.fullmatch(name[len(topic) :]) is not None


def is_dead_letter_name(topic: str) -> bool:
    """Whether a topic's own name says that dead letters are in it."""
    return re.search(_SUFFIX.pattern + "$", topic, re.IGNORECASE) is not None


def causes(messages: DataFrame, causes_max: int) -> DataFrame:
    """Rows of the source, by topic and cause: how many, since when, and where the newest is. Of
    each topic so many causes, those of most messages; the others count as one."""
    place = F.struct("partition", "offset")
    rows = messages.select(
        "topic", "partition", "offset", F.unix_millis("timestamp").alias("time_ms"), _cause()
    )
    counted = rows.groupBy("topic", "cause").agg(
        F.count("*").alias("messages"),
        F.min("time_ms").alias("first_ms"),
        F.max("time_ms").alias("last_ms"),
        F.max_by(place, "time_ms").alias("newest"),
    )
    by_messages = Window.partitionBy("topic").orderBy(F.desc("messages"), "cause")
    is_shown = F.row_number().over(by_messages) <= causes_max
    ranked = counted.withColumn("cause", F.when(is_shown, F.col("cause")).otherwise(_OTHERS))
    return ranked.groupBy("topic", "cause").agg(
        F.sum("messages").alias("messages"),
        F.min("first_ms").alias("first_ms"),
        F.max_by("newest", "last_ms").alias("newest"),
        F.max("last_ms").alias("last_ms"),
    )


def _cause() -> Column:
    said = [F.trim(_header(name)) for name in _KINDS]
    # A sentence's first line, without the numbers in it.
    said += [
        F.regexp_replace(F.substring_index(_header(name), "\n", 1), r"\d+", "#")
        for name in _SENTENCES
    ]
    known = [F.when(F.length(text) > 0, text) for text in said]
    return F.substring(F.coalesce(*known, F.lit(_UNKNOWN)), 1, _CAUSE_CHARACTERS_MAX).alias("cause")


def _header(name: str) -> Column:
    """The text of the first header of this name; bytes that are no text are replaced."""
    values = F.filter("headers", lambda header: header["key"] == name)
    return F.make_valid_utf8(F.try_element_at(values, F.lit(1))["value"].cast("string"))
