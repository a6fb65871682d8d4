"""An inspection from question to findings: the broker is asked, the log read, rules applied.

The shell around the pure parts. The invariant: the range is settled before anything is read, so
that what producers append meanwhile is neither half in nor a hole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.folder.folder import Folder
from penstock.spark.inspection.assemble import assemble
from penstock.spark.inspection.evidence.analysis import STEPS, ask_spark
from penstock.spark.inspection.evidence.broker_facts import (
    TopicFacts,
    ask_broker,
    compacted_in_folder,
    first_offsets,
)
from penstock.spark.inspection.evidence.dead_letters import by_owner, dead_letter_topics
from penstock.spark.inspection.evidence.holes import find_lost
from penstock.spark.inspection.evidence.messages import read_messages
from penstock.spark.inspection.evidence.tables import Tables
from penstock.spark.inspection.finding import Finding, Severity, ranked
from penstock.spark.inspection.options import InspectOptions
from penstock.spark.inspection.report.files import write_files
from penstock.spark.inspection.rules import findings_of
from penstock.spark.source.data_source import register

_TASKS_PER_CORE: Final = 2
# What one task sorts in memory, and in seconds.
_TASK_MESSAGES: Final = 500_000
_TASKS_MAX: Final = 10_000

Progress = Callable[[int, int, str], None]
"""Called with the number of steps done, of all steps, and what is done now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was found, and the tables it was found in."""

    options: InspectOptions
    at_ms: int
    took_ms: int
    findings: tuple[Finding, ...]
    """The worst first."""
    tables: Tables

    @property
    def is_offline(self) -> bool:
        """Whether no broker was asked: then nothing is known of settings, lag and removals."""
        return self.options.path is not None

    def worst(self) -> Severity | None:
        """The severity of the worst finding."""
        return self.findings[0].severity if self.findings else None

    def summary(self) -> dict[str, object]:
        """Findings and topics as JSON can say them."""
        return {
            "at_ms": self.at_ms,
            "took_ms": self.took_ms,
            "findings": [asdict(finding) for finding in self.findings],
            "topics": [asdict(row) for row in self.tables.topics],
        }

    def write_report(self, folder: str) -> str:
        """Write `report.html` and the tables as Parquet; the path of the report."""
        return write_files(
            folder,
            self.options,
            self.findings,
            self.tables,
            at_ms=self.at_ms,
            took_ms=self.took_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Where the log is read, and what is known of it beforehand."""

    messages: DataFrame
    dead: DataFrame | None
    dead_topics: tuple[str, ...]
    facts: Mapping[str, TopicFacts]
    compacted: frozenset[str]
    folder: Folder | None = None
    """Where it is read from, if not from a broker."""


def inspect(
    spark: SparkSession, options: InspectOptions, progress: Progress | None = None
) -> Inspection:
    """Inspect topics. Spark errors and PenstockErrors of the source come through."""
    began = time.monotonic()
    steps = iter(range(len(STEPS)))

    def step(text: str) -> None:
        if progress is not None:
            progress(next(steps, len(STEPS)), len(STEPS), text)

    now_ms = time.time_ns() // 1_000_000
    source = _open(spark, options)
    answers = ask_spark(
        source.messages,
        source.dead,
        doubtful=set(options.topics) - source.compacted if source.folder else (),
        thresholds=options.thresholds,
        now_ms=now_ms,
        step=step,
    )
    starts = first_offsets(options.bootstrap, options.topics) if options.bootstrap else {}
    tables, evidence = assemble(
        options.topics,
        by_owner(options.topics, source.dead_topics),
        answers,
        source.facts,
        source.compacted,
        starts,
        find_lost(source.folder.headers, answers.gaps) if source.folder else (),
    )
    findings = [finding for each in evidence for finding in findings_of(each, options.thresholds)]
    return Inspection(
        options=options,
        at_ms=now_ms,
        took_ms=round((time.monotonic() - began) * 1000),
        findings=ranked(findings),
        tables=tables,
    )


def _open(spark: SparkSession, options: InspectOptions) -> _Source:
    if options.path is not None:
        # A damaged log is what an inspection is for: what can be read of it is.
        place = {"path": options.path, "onDamage": "skip"}
        folder = Folder(options.path, "skip")
        extents = [each for topic in options.topics for each in folder.partitions(topic).values()]
        spark = _sized(spark, sum(extent.size for extent in extents))
        dead = dead_letter_topics(options.topics, options.dead_letters, folder.topics())
        return _Source(
            messages=read_messages(spark, place, options.topics, None, options.since_ms),
            dead=read_messages(spark, place, dead, None, options.since_ms) if dead else None,
            dead_topics=tuple(dead),
            facts={},
            compacted=frozenset(compacted_in_folder(options.path, options.topics)),
            folder=folder,
        )
    assert options.bootstrap is not None
    place = {"bootstrap": options.bootstrap}
    facts, existing = ask_broker(options.bootstrap, options.topics, options.since_ms)
    known = [partition for fact in facts.values() for partition in fact.partitions.values()]
    spark = _sized(spark, sum(each.end_offset - each.start_offset for each in known))
    ranges = {
        topic: {
            number: (partition.start_offset, partition.end_offset)
            for number, partition in fact.partitions.items()
        }
        for topic, fact in facts.items()
    }
    dead = dead_letter_topics(options.topics, options.dead_letters, existing)
    return _Source(
        messages=read_messages(spark, place, options.topics, ranges, None),
        dead=read_messages(spark, place, dead, None, options.since_ms) if dead else None,
        dead_topics=tuple(dead),
        facts=facts,
        compacted=frozenset(),
    )


def _sized(spark: SparkSession, messages: int) -> SparkSession:
    """A session of the same Spark, beside the caller's, that cuts its work into as many tasks as
    so many messages are worth. Spark's own 200 are too few for billions, and for the few of a
    small topic they are all that it does."""
    tasks = max(_TASKS_PER_CORE * spark.sparkContext.defaultParallelism, messages // _TASK_MESSAGES)
    sized = spark.newSession()
    sized.conf.set("spark.sql.shuffle.partitions", str(min(tasks, _TASKS_MAX)))
    register(sized)
    return sized
