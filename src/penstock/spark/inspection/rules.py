"""The rules: which evidence is a finding, how bad it is, and the sentences that say so.

Pure: evidence in, findings out; the numbers that decide are `inspection.thresholds`. The
invariant: one cause gives one finding. What another finding explains (an imbalance by a hot key,
missing sequences by missing offsets) is not reported again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from penstock.spark.inspection.evidence.evidence import Sighting, TopicEvidence
from penstock.spark.inspection.finding import EXAMPLES_MAX, Example, Finding, Kind, Severity
from penstock.spark.inspection.thresholds import Thresholds
from penstock.spark.inspection.wording import counted, duration, foreign, share, size

Rule = Callable[[TopicEvidence, Thresholds], Iterator[Finding]]


def findings_of(evidence: TopicEvidence, thresholds: Thresholds) -> list[Finding]:
    """Everything worth telling of a topic."""
    return [finding for rule in RULES for finding in rule(evidence, thresholds)]


def _holes(evidence: TopicEvidence, _: Thresholds) -> Iterator[Finding]:
    if evidence.row.is_compacted:
        return
    if evidence.missing.count:
        yield _finding(
            evidence,
            Severity.CRITICAL,
            Kind.HOLE,
            evidence.missing,
            f"{counted(evidence.missing.count, 'offset')} in the middle of the log "
            f"{_has(evidence.missing.count)} no message, although the topic is not compacted.",
            "Messages that were acknowledged are lost, and no consumer can read them.",
            "Check the files with `penstock inspect DATA-FOLDER`, restore the missing offsets from "
            "a replica or an archive, and find out what touched the files.",
        )
    if evidence.skipped.count:
        yield _finding(
            evidence,
            Severity.CRITICAL,
            Kind.HOLE,
            evidence.skipped,
            f"{counted(evidence.skipped.count, 'sequence number')} of idempotent producers "
            f"{_is(evidence.skipped.count)} in no batch.",
            "Their producers sent messages that never came into the log.",
            "Look in the producers' logs for the time of the offsets below, and send again what "
            "is missing.",
        )
    if evidence.control.count:
        yield _finding(
            evidence,
            Severity.NOTE,
            Kind.CONTROL_RECORDS,
            evidence.control,
            f"{counted(evidence.control.count, 'offset')} between batches "
            f"{_has(evidence.control.count)} no message.",
            "Markers of transactions and of new leaders are there: each takes an offset and is "
            "shown to nobody.",
            "Nothing: it is so in topics that are written in transactions or are replicated.",
        )


def _duplicates(evidence: TopicEvidence, _: Thresholds) -> Iterator[Finding]:
    if evidence.repeated.count:
        yield _finding(
            evidence,
            Severity.CRITICAL,
            Kind.DUPLICATES,
            evidence.repeated,
            f"{counted(evidence.repeated.count, 'message')} {_is(evidence.repeated.count)} in the "
            f"log twice: same producer, epoch and sequence number.",
            "A retry was appended although the broker had the batch already; consumers count "
            "these messages twice.",
            "Let consumers drop what they have seen, by producer and sequence, and report it: a "
            "broker must refuse such batches.",
        )
    if evidence.copied.count:
        far = evidence.far_copies
        near = evidence.copied.count - far
        if near:
            likely = "a producer without idempotence sent a batch again after a lost answer"
        else:
            likely = "a job or an import was run again"
        yield _finding(
            evidence,
            Severity.WARNING,
            Kind.DUPLICATES,
            evidence.copied,
            f"{counted(evidence.copied.count, 'message')} "
            f"{'repeats' if evidence.copied.count == 1 else 'repeat'} an earlier one: same key, "
            f"value, headers and create time"
            + (f", {near:,} of them close by." if near and far else "."),
            f"Most likely {likely}; consumers handle these messages twice.",
            "Turn idempotence on in the producer (it is on by default in Penstock's), and let "
            "consumers drop what they have seen.",
        )


def _order(evidence: TopicEvidence, thresholds: Thresholds) -> Iterator[Finding]:
    if evidence.swapped.count:
        yield _finding(
            evidence,
            Severity.CRITICAL,
            Kind.ORDER,
            evidence.swapped,
            f"{counted(evidence.swapped.count, 'message')} "
            f"{'stands' if evidence.swapped.count == 1 else 'stand'} behind messages that the "
            f"same producer numbered later.",
            "The order of a producer in a partition is broken; consumers see its messages swapped.",
            "Report it: a broker must refuse such batches; until then order by the producer's "
            "sequence or by create time.",
        )
    seen = evidence.key_back + evidence.producer_back
    if not seen.count:
        return
    parts = []
    if evidence.key_back.count:
        parts.append(f"{counted(evidence.key_back.count, 'message')} within a key")
    if evidence.producer_back.count:
        batches = counted(evidence.producer_back.count, "batch", "batches")
        parts.append(f"{batches} within a producer")
    count = max(evidence.key_back.count, evidence.producer_back.count)
    yield _finding(
        evidence,
        Severity.WARNING,
        Kind.ORDER,
        Sighting(count, seen.examples),
        f"Create times go back by more than {duration(thresholds.order_tolerance_ms)}: "
        f"{' and '.join(parts)}.",
        "Whoever takes the last message of a key as the newest is wrong there.",
        "Allow one request in flight or turn idempotence on in the producer; where the "
        "application sets the times itself, order by time when reading.",
    )


def _interleaved(evidence: TopicEvidence, _: Thresholds) -> Iterator[Finding]:
    seen = evidence.interleaved
    if seen.count:
        yield _finding(
            evidence,
            Severity.NOTE,
            Kind.INTERLEAVED_PRODUCERS,
            seen,
            f"{counted(seen.count, 'message')} {_is(seen.count)} older than one before "
            f"{'it' if seen.count == 1 else 'them'} of the same key from another producer.",
            "Several producers write the same keys; between them a log promises no order.",
            "Let one producer own a key if the order matters.",
        )


def _hot_key(evidence: TopicEvidence, thresholds: Thresholds) -> Iterator[Finding]:
    if not _has_hot_key(evidence, thresholds):
        return
    key = evidence.keys[0]
    partitions = (
        "one partition and one consumer carry it"
        if len(evidence.partitions) > 1
        else "jobs that group by key have one task that does most of the work"
    )
    yield Finding(
        severity=Severity.WARNING,
        kind=Kind.HOT_KEY,
        topic=evidence.row.topic,
        problem=f"The key “{foreign(key.key)}” has {share(key.share)} of all messages with a key; "
        f"the other {counted(evidence.row.keys - 1, 'key')} share the rest.",
        meaning=f"Messages of a key stay together, so {partitions}.",
        advice="Spread the key (add a suffix that readers take off), or aggregate before sending.",
        count=key.messages,
        examples=_hot_key_places(evidence),
    )


def _has_hot_key(evidence: TopicEvidence, thresholds: Thresholds) -> bool:
    keyed = evidence.row.messages - evidence.row.unkeyed_messages
    if keyed < thresholds.hot_key_messages_min or evidence.row.keys < 2 or not evidence.keys:
        return False
    key = evidence.keys[0]
    others = (keyed - key.messages) / (evidence.row.keys - 1)
    return (
        key.share >= thresholds.hot_key_share and key.messages >= thresholds.hot_key_ratio * others
    )


def _hot_key_places(evidence: TopicEvidence) -> tuple[Example, ...]:
    key = evidence.keys[0]
    return (
        Example(
            partition=key.first_partition, offset=key.first_offset, text="the first of this key"
        ),
    )


def _slow_producers(evidence: TopicEvidence, _: Thresholds) -> Iterator[Finding]:
    for slow in evidence.slow:
        bound = "" if evidence.row.delay_basis == "append time" else "at least "
        yield Finding(
            severity=Severity.WARNING,
            kind=Kind.SLOW_PRODUCER,
            topic=evidence.row.topic,
            problem=f"Producer {slow.producer_id} is slow: half of its messages arrive {bound}"
            f"{duration(slow.delay_p50_ms)} after they were made, everybody else's within "
            f"{duration(slow.others_p50_ms)}.",
            meaning="Its messages wait in the producer or on the network, or its clock is behind.",
            advice="Check that producer's load, network, linger and clock.",
            count=slow.messages,
            examples=slow.examples,
        )


def _wrong_clock(evidence: TopicEvidence, thresholds: Thresholds) -> Iterator[Finding]:
    if evidence.ahead.count:
        yield _finding(
            evidence,
            Severity.WARNING,
            Kind.WRONG_CLOCK,
            evidence.ahead,
            f"{counted(evidence.ahead.count, 'message')} "
            f"{'says it was' if evidence.ahead.count == 1 else 'say they were'} made more than "
            f"{duration(thresholds.clock_ahead_ms)} from now.",
            "Retention by time keeps what is around them until then, and readers that seek by "
            "time land in the wrong place.",
            "Set the clock of the producer, or check that it gives milliseconds; "
            "timestamp_after_max_ms makes the broker refuse such messages.",
        )


def _imbalance(evidence: TopicEvidence, thresholds: Thresholds) -> Iterator[Finding]:
    partitions = evidence.partitions
    if len(partitions) < 2 or _has_hot_key(evidence, thresholds):
        return
    largest = max(partitions, key=lambda row: row.messages)
    average = evidence.row.messages / len(partitions)
    choices = evidence.row.keys + evidence.unkeyed_batches
    if (
        largest.messages < thresholds.imbalance_ratio * average
        or choices < thresholds.imbalance_choices_min * len(partitions)
        or largest.first_offset is None
    ):
        return
    yield Finding(
        severity=Severity.WARNING,
        kind=Kind.IMBALANCE,
        topic=evidence.row.topic,
        problem=f"Partition {largest.partition} has "
        f"{share(largest.messages / evidence.row.messages)} of the messages, "
        f"{largest.messages / average:.1f} times the average of {len(partitions)} partitions.",
        meaning="The consumer of that partition has more to do than the others, and no consumer "
        "can be added to help it.",
        advice="Choose keys that spread, or let the producer choose partitions by hash.",
        count=largest.messages,
        examples=(
            Example(
                partition=largest.partition, offset=largest.first_offset, text="its first message"
            ),
        ),
    )


def _lag(evidence: TopicEvidence, thresholds: Thresholds) -> Iterator[Finding]:
    for group in sorted({row.group for row in evidence.lag}):
        rows = [row for row in evidence.lag if row.group == group]
        lost, lag = sum(row.lost for row in rows), sum(row.lag for row in rows)
        if lost:
            yield Finding(
                severity=Severity.WARNING,
                kind=Kind.LAG,
                topic=evidence.row.topic,
                problem=f"{counted(lost, 'message')} {_was(lost)} removed before the group "
                f"“{group}” had read {'it' if lost == 1 else 'them'}.",
                meaning="The group will go on after them and never see them.",
                advice="Keep messages longer (retention_ms, retention_bytes), or delete the group "
                "if nobody uses it.",
                count=lost,
                examples=tuple(
                    Example(
                        partition=row.partition, offset=row.committed_offset, text="to be read next"
                    )
                    for row in rows
                    if row.lost
                )[:EXAMPLES_MAX],
            )
        if lag >= thresholds.lag_messages:
            yield Finding(
                severity=Severity.WARNING,
                kind=Kind.LAG,
                topic=evidence.row.topic,
                problem=f"The group “{group}” is {counted(lag, 'message')} behind.",
                meaning="What it does is late, and what retention removes it will never see.",
                advice="Add consumers up to the number of partitions, or find what slows them.",
                count=lag,
                examples=tuple(
                    Example(
                        partition=row.partition,
                        offset=row.committed_offset,
                        text=f"read up to here, {row.lag:,} to go",
                    )
                    for row in sorted(rows, key=lambda row: -row.lag)
                    if row.lag
                )[:EXAMPLES_MAX],
            )


def _dead_letters(evidence: TopicEvidence, _: Thresholds) -> Iterator[Finding]:
    """One finding for each topic of dead letters: the offsets are in there."""
    for topic in sorted({row.topic for row in evidence.dead_letters}):
        rows = [row for row in evidence.dead_letters if row.topic == topic]
        rows.sort(key=lambda row: -row.messages)
        total = sum(row.messages for row in rows)
        yield Finding(
            severity=Severity.WARNING,
            kind=Kind.DEAD_LETTERS,
            topic=topic,
            problem=f"{counted(total, 'dead letter')} of {evidence.row.topic}, "
            f"{rows[0].messages:,} of them for: {rows[0].cause}.",
            meaning="Consumers gave these messages up; nobody has handled them.",
            advice="Mend the cause, then send them again.",
            count=total,
            examples=tuple(
                Example(partition=row.partition, offset=row.offset, text=row.cause)
                for row in rows[:EXAMPLES_MAX]
            ),
        )


def _thrift(evidence: TopicEvidence, thresholds: Thresholds) -> Iterator[Finding]:
    """Small batches, poor compression: what costs more than it needs to."""
    row = evidence.row
    per_batch = row.messages / max(row.batches, 1)
    if (
        row.messages >= thresholds.small_batch_messages_min
        and per_batch < thresholds.small_batch_records
    ):
        yield _note(
            evidence,
            Kind.SMALL_BATCHES,
            row.batches,
            f"Batches hold {per_batch:.1f} messages on average.",
            "Every batch costs 61 bytes and a request; large ones also compress better.",
            "Let producers wait a little longer for a batch to fill (linger_ms).",
        )
    for codec in evidence.codecs:
        if codec.stored_bytes < thresholds.compression_bytes_min:
            continue
        if codec.codec == "none":
            yield _note(
                evidence,
                Kind.COMPRESSION,
                codec.batches,
                f"{size(codec.stored_bytes)} in {counted(codec.batches, 'batch', 'batches')} "
                f"{_is(codec.batches)} not compressed.",
                "Disk, network and retention carry it in full.",
                "Try compression in the producer: zstd or lz4 for text and JSON.",
            )
        elif codec.ratio < thresholds.compression_ratio_min:
            yield _note(
                evidence,
                Kind.COMPRESSION,
                codec.batches,
                f"{codec.codec} makes {size(codec.expanded_bytes)} only {codec.ratio:.2f} times "
                f"smaller.",
                "Producers and consumers pay for compression that gains nothing.",
                "Use larger batches, another codec, or none if the values are compressed already.",
            )


def _scattered(evidence: TopicEvidence, _: Thresholds) -> Iterator[Finding]:
    if evidence.scattered_keys:
        yield _note(
            evidence,
            Kind.SCATTERED_KEYS,
            evidence.scattered_keys,
            f"{counted(evidence.scattered_keys, 'key')} "
            f"{_is(evidence.scattered_keys)} in more than one partition.",
            "Order within a key ends at the border of a partition.",
            "Expected after partitions were added; otherwise let all producers use one "
            "partitioner (librdkafka's default is another one than Java's).",
        )


RULES: Final[tuple[Rule, ...]] = (
    _holes,
    _duplicates,
    _order,
    _hot_key,
    _slow_producers,
    _wrong_clock,
    _imbalance,
    _lag,
    _dead_letters,
    _interleaved,
    _scattered,
    _thrift,
)


def _finding(
    evidence: TopicEvidence,
    severity: Severity,
    kind: Kind,
    seen: Sighting,
    problem: str,
    meaning: str,
    advice: str,
) -> Finding:
    return Finding(
        severity=severity,
        kind=kind,
        topic=evidence.row.topic,
        problem=problem,
        meaning=meaning,
        advice=advice,
        count=seen.count,
        examples=seen.examples,
    )


def _note(
    evidence: TopicEvidence, kind: Kind, count: int, problem: str, meaning: str, advice: str
) -> Finding:
    return _finding(evidence, Severity.NOTE, kind, Sighting(count), problem, meaning, advice)


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _has(count: int) -> str:
    return "has" if count == 1 else "have"
