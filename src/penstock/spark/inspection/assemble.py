"""From Spark's answers and the broker's facts to the tables, and to the evidence of each topic.

Pure: no Spark, no broker. The invariant: every inspected topic has its row and its evidence, also
where it holds no message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from penstock.spark.inspection.evidence.answers import Answers, Record, histogram
from penstock.spark.inspection.evidence.broker_facts import TopicFacts
from penstock.spark.inspection.evidence.distributions import (
    PERCENTILES,
    gini,
    lorenz,
    percentile,
    wide_classes,
)
from penstock.spark.inspection.evidence.evidence import Sighting, SlowProducer, TopicEvidence
from penstock.spark.inspection.evidence.holes import Lost
from penstock.spark.inspection.evidence.tables import (
    CodecRow,
    DeadLetterRow,
    KeyRow,
    LagRow,
    LorenzRow,
    PartitionRow,
    PercentileRow,
    ProducerRow,
    RemovalRow,
    SizeRow,
    Tables,
    ThroughputRow,
    TopicRow,
)
from penstock.spark.inspection.finding import EXAMPLES_MAX, Example
from penstock.spark.inspection.wording import counted, duration

Facts = Mapping[str, TopicFacts]


def assemble(
    topics: Sequence[str],
    dead_letters_of: Mapping[str, Sequence[str]],
    answers: Answers,
    facts: Facts,
    compacted: frozenset[str],
    starts: Mapping[tuple[str, int], int],
    lost: Sequence[Lost],
) -> tuple[Tables, list[TopicEvidence]]:
    """The tables of all topics, and the evidence of each. `starts`: where the logs began after
    they were read. `lost`: of the offsets without a message, those that should have one."""
    partitions = [row for topic in topics for row in _partition_rows(topic, answers, facts, lost)]
    topic_rows = [_topic_row(topic, partitions, answers, facts, compacted) for topic in topics]
    tables = Tables(
        topics=tuple(topic_rows),
        partitions=tuple(partitions),
        throughput=tuple(_throughput_rows(answers)),
        sizes=tuple(row for topic in topics for row in _size_rows(topic, answers)),
        percentiles=tuple(row for topic in topics for row in _percentile_rows(topic, answers)),
        keys=tuple(row for topic in topics for row in _key_rows(topic, answers)),
        lorenz=tuple(row for topic in topics for row in _lorenz_rows(topic, answers)),
        producers=tuple(row for topic in topics for row in _producer_rows(topic, answers)),
        codecs=tuple(_codec_row(row) for row in answers.codecs),
        lag=tuple(row for topic in topics for row in _lag_rows(topic, facts)),
        dead_letters=tuple(_dead_letter_row(row) for row in answers.dead_letters),
        removals=tuple(row for topic in topics for row in _removal_rows(topic, facts)),
    )
    evidence = []
    for row in topic_rows:
        of_topic = [each for each in lost if each.topic == row.topic]
        shortened = _shortened(row.topic, facts, starts)
        dead = dead_letters_of.get(row.topic, ())
        evidence.append(_evidence(row, tables, answers, of_topic, shortened, dead))
    return tables, evidence


def _evidence(
    row: TopicRow,
    tables: Tables,
    answers: Answers,
    lost: Sequence[Lost],
    shortened: Collection[int],
    dead_letter_topics: Sequence[str],
) -> TopicEvidence:
    topic = row.topic
    totals = _of(topic, answers.partitions)
    # What retention took while it was read explains all that is missing there, and missing offsets
    # explain missing sequences.
    read = [total for total in totals if total["partition"] not in shortened]
    with_hole = {each.partition for each in lost}
    whole = [total for total in read if total["partition"] not in with_hole]
    faults = _of(topic, answers.faults)
    return TopicEvidence(
        row=row,
        partitions=tuple(each for each in tables.partitions if each.topic == topic),
        unkeyed_batches=sum(total["unkeyed_batches"] for total in totals),
        missing=_lost_seen(lost),
        control=_control_seen(read, lost),
        skipped=_seen(whole, "skipped", _skipped_text),
        repeated=_seen(totals, "repeated", _repeated_text),
        swapped=_seen(totals, "swapped", _swapped_text),
        ahead=_seen(totals, "ahead", _ahead_text),
        producer_back=_seen(totals, "back", _back_text),
        key_back=_seen(faults, "back", _older_text),
        interleaved=_seen(faults, "interleaved", _older_text),
        copied=_seen(faults, "copied", _copied_text),
        far_copies=sum(fault["far_copies"] for fault in faults),
        scattered_keys=sum(each["scattered"] for each in _of(topic, answers.keys_by_count)),
        keys=tuple(each for each in tables.keys if each.topic == topic),
        slow=tuple(_slow_producers(topic, answers)),
        codecs=tuple(each for each in tables.codecs if each.topic == topic),
        lag=tuple(each for each in tables.lag if each.topic == topic),
        dead_letters=tuple(
            each for each in tables.dead_letters if each.topic in dead_letter_topics
        ),
    )


def _shortened(topic: str, facts: Facts, starts: Mapping[tuple[str, int], int]) -> frozenset[int]:
    """The partitions of which retention took something while they were read."""
    known = facts[topic].partitions if topic in facts else {}
    return frozenset(
        partition
        for partition, each in known.items()
        if starts.get((topic, partition), 0) > each.start_offset
    )


# --- faults ------------------------------------------------------------------------------------


def _seen(rows: Sequence[Record], name: str, text: Callable[[Record], str]) -> Sighting:
    """A fault in the rows of partitions, or in that of a topic's keys."""
    seen = Sighting()
    for row in rows:
        examples = tuple(
            Example(partition=place["partition"], offset=place["offset"], text=text(place))
            for place in row[f"{name}_examples"] or ()
        )
        seen += Sighting(row[name], examples)
    return seen


def _lost_seen(lost: Sequence[Lost]) -> Sighting:
    first = sorted(lost)[:EXAMPLES_MAX]
    return Sighting(
        sum(each.amount for each in lost),
        tuple(
            Example(partition=each.partition, offset=each.offset, text=_missing_text(each.amount))
            for each in first
        ),
    )


def _control_seen(totals: Sequence[Record], lost: Sequence[Lost]) -> Sighting:
    """All that is missing and not lost."""
    seen = _seen(totals, "missing", lambda _: "no message here")
    of_lost = sum(each.amount for each in lost)
    places = {(each.partition, each.offset) for each in lost}
    examples = (each for each in seen.examples if (each.partition, each.offset) not in places)
    return Sighting(max(0, seen.count - of_lost), tuple(examples))


def _missing_text(amount: int) -> str:
    if amount == 1:
        return "this one is missing"
    return f"{counted(amount, 'offset')} missing from here on"


def _skipped_text(place: Record) -> str:
    return (
        f"producer {place['producer_id']}: {counted(place['amount'], 'sequence number')} missing "
        f"before this"
    )


def _repeated_text(place: Record) -> str:
    return f"producer {place['producer_id']}: repeats offset {place['repeated_offset']}"


def _swapped_text(place: Record) -> str:
    return f"producer {place['producer_id']}: {counted(place['amount'], 'message')} too late"


def _ahead_text(place: Record) -> str:
    return f"{counted(place['amount'], 'message')} in the batch here"


def _back_text(place: Record) -> str:
    return f"producer {place['producer_id']}: {duration(place['back_ms'])} back"


def _older_text(place: Record) -> str:
    return f"{duration(place['back_ms'])} older than offset {place['other']}"


def _copied_text(place: Record) -> str:
    return f"repeats offset {place['other']}"


def _slow_producers(topic: str, answers: Answers) -> list[SlowProducer]:
    places = {row["producer_id"]: row["examples"] for row in _of(topic, answers.slow_batches)}
    return [
        SlowProducer(
            producer_id=timed.producer_id,
            messages=sum(timed.delays.values()),
            delay_p50_ms=timed.p50_ms,
            others_p50_ms=others_p50_ms,
            examples=tuple(
                Example(
                    partition=place["partition"],
                    offset=place["offset"],
                    text=f"{duration(place['late_ms'])} late",
                )
                for place in places.get(timed.producer_id, ())
            ),
        )
        for timed, others_p50_ms in answers.slow.get(topic, ())
    ]


# --- rows --------------------------------------------------------------------------------------


def _of(topic: str, rows: Sequence[Record]) -> list[Record]:
    return [row for row in rows if row["topic"] == topic]


def _topic_row(
    topic: str,
    partitions: Sequence[PartitionRow],
    answers: Answers,
    facts: Facts,
    compacted: frozenset[str],
) -> TopicRow:
    totals = _of(topic, answers.partitions)
    sizes, delays = histogram(answers.sizes, topic), histogram(answers.delays, topic)
    counts = _keys_by_count(topic, answers)
    times = [total[name] for total in totals for name in ("time_first_ms", "time_last_ms")]
    known_times = [time for time in times if time is not None]
    batches = sum(total["batches"] for total in totals)
    stamped = sum(total["stamped_batches"] for total in totals)
    producers = _of(topic, answers.producers)
    thinned = any(total["thinned_batches"] for total in totals)
    by_policy = topic in facts and facts[topic].is_compacted
    return TopicRow(
        topic=topic,
        partitions=sum(row.topic == topic for row in partitions),
        messages=sum(total["messages"] for total in totals),
        batches=batches,
        unkeyed_messages=sum(total["unkeyed"] for total in totals),
        message_bytes=sum(total["message_bytes"] for total in totals),
        stored_bytes=sum(total["stored_bytes"] for total in totals),
        first_ms=min(known_times, default=None),
        last_ms=max(known_times, default=None),
        keys=sum(keys for _, keys in counts),
        gini=gini(counts),
        producers=producers[0]["producers"] if producers else 0,
        size_p50=percentile(sizes, 0.5),
        size_p99=percentile(sizes, 0.99),
        delay_basis="append time" if batches and stamped == batches else "lower bound",
        delay_p50_ms=percentile(delays, 0.5),
        delay_p99_ms=percentile(delays, 0.99),
        is_compacted=by_policy or topic in compacted or thinned,
    )


def _partition_rows(
    topic: str, answers: Answers, facts: Facts, lost: Sequence[Lost]
) -> list[PartitionRow]:
    totals = {total["partition"]: total for total in _of(topic, answers.partitions)}
    known = facts[topic].partitions if topic in facts else {}
    rows = []
    for partition in sorted({*totals, *known}):
        total, fact = totals.get(partition, {}), known.get(partition)
        rows.append(
            PartitionRow(
                topic=topic,
                partition=partition,
                messages=total.get("messages", 0),
                batches=total.get("batches", 0),
                stored_bytes=total.get("stored_bytes", 0),
                first_offset=total.get("first_offset"),
                last_offset=total.get("last_offset"),
                log_start_offset=fact.log_start_offset if fact else None,
                log_end_offset=fact.end_offset if fact else None,
                size_bytes=fact.size_bytes if fact else None,
                segments=fact.segment_count if fact else None,
                missing_offsets=sum(
                    each.amount
                    for each in lost
                    if (each.topic, each.partition) == (topic, partition)
                ),
                missing_sequences=total.get("skipped", 0),
                repeated_sequences=total.get("repeated", 0),
            )
        )
    return rows


def _throughput_rows(answers: Answers) -> list[ThroughputRow]:
    return [
        ThroughputRow(width_ms=answers.bucket_widths_ms[row["topic"]], **row)
        for row in sorted(answers.throughput, key=lambda row: (row["topic"], row["start_ms"]))
    ]


def _size_rows(topic: str, answers: Answers) -> list[SizeRow]:
    return [
        SizeRow(topic=topic, low=low, end=end, messages=messages)
        for low, end, messages in wide_classes(histogram(answers.sizes, topic))
    ]


def _percentile_rows(topic: str, answers: Answers) -> list[PercentileRow]:
    return [
        PercentileRow(topic=topic, measure=measure, share=share, value=percentile(classes, share))
        for measure, classes in (
            ("size", histogram(answers.sizes, topic)),
            ("delay", histogram(answers.delays, topic)),
        )
        if classes
        for share in (*PERCENTILES, 1.0)
    ]


def _keys_by_count(topic: str, answers: Answers) -> list[tuple[int, int]]:
    return sorted((row["messages"], row["keys"]) for row in _of(topic, answers.keys_by_count))


def _key_rows(topic: str, answers: Answers) -> list[KeyRow]:
    keyed = sum(messages * keys for messages, keys in _keys_by_count(topic, answers))
    rows = sorted(_of(topic, answers.top_keys), key=lambda row: row["rank"])
    return [
        KeyRow(
            topic=topic,
            rank=row["rank"],
            key=bytes(row["key_start"]),
            messages=row["messages"],
            share=row["messages"] / keyed,
            message_bytes=row["message_bytes"],
            first_partition=row["partition"],
            first_offset=row["first_offset"],
        )
        for row in rows
    ]


def _lorenz_rows(topic: str, answers: Answers) -> list[LorenzRow]:
    return [
        LorenzRow(topic=topic, keys_share=keys, messages_share=messages)
        for keys, messages in lorenz(_keys_by_count(topic, answers))
    ]


def _producer_rows(topic: str, answers: Answers) -> list[ProducerRow]:
    found = {
        each["producer_id"]: each
        for row in _of(topic, answers.producers)
        for each in (*(row["slowest"] or ()), *(row["largest"] or ()))
    }
    rows = sorted(found.values(), key=lambda each: (-each["messages"], each["producer_id"]))
    return [ProducerRow(topic=topic, **row) for row in rows]


def _codec_row(row: Record) -> CodecRow:
    return CodecRow(ratio=row["expanded_bytes"] / row["stored_bytes"], **row)


def _lag_rows(topic: str, facts: Facts) -> list[LagRow]:
    if topic not in facts:
        return []
    rows = []
    for group, offsets in sorted(facts[topic].group_offsets.items()):
        for partition, offset in sorted(offsets.items()):
            known = facts[topic].partitions.get(partition)
            if known is None:
                continue
            next_offset = max(offset, known.log_start_offset)
            rows.append(
                LagRow(
                    topic=topic,
                    group=group,
                    partition=partition,
                    committed_offset=offset,
                    end_offset=known.end_offset,
                    lag=max(0, known.end_offset - next_offset),
                    lost=next_offset - offset,
                )
            )
    return rows


def _dead_letter_row(row: Record) -> DeadLetterRow:
    return DeadLetterRow(
        topic=row["topic"],
        cause=row["cause"],
        messages=row["messages"],
        first_ms=row["first_ms"],
        last_ms=row["last_ms"],
        partition=row["newest"]["partition"],
        offset=row["newest"]["offset"],
    )


def _removal_rows(topic: str, facts: Facts) -> list[RemovalRow]:
    if topic not in facts:
        return []
    return [
        RemovalRow(
            topic=topic,
            partition=partition,
            first_offset=removal.first_offset,
            end_offset=removal.end_offset,
            cause=removal.cause,
            at_ms=removal.at_ms,
            detail=removal.detail,
        )
        for partition, known in sorted(facts[topic].partitions.items())
        for removal in known.removals
    ]
