"""Answers and facts become tables and evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.model.removal import Removal
from penstock.spark.inspection.assemble import assemble
from penstock.spark.inspection.evidence.answers import Answers, Record
from penstock.spark.inspection.evidence.broker_facts import PartitionFacts, TopicFacts
from penstock.spark.inspection.evidence.evidence import TopicEvidence
from penstock.spark.inspection.evidence.holes import Lost
from penstock.spark.inspection.evidence.slow import Timed
from penstock.spark.inspection.evidence.tables import Tables

SIGHTINGS = ("missing", "skipped", "repeated", "swapped", "ahead", "back")


def total(partition: int, first: int, last: int, **changes: Any) -> Record:
    """The row of a healthy partition."""
    row: Record = {
        "topic": "orders",
        "partition": partition,
        "messages": last - first + 1,
        "batches": 2,
        "unkeyed_batches": 0,
        "unkeyed": 0,
        "stored_bytes": 1_000,
        "message_bytes": 900,
        "first_offset": first,
        "last_offset": last,
        "time_first_ms": 1_000,
        "time_last_ms": 2_000,
        "stamped_batches": 0,
        "thinned_batches": 0,
    }
    for name in SIGHTINGS:
        row |= {name: 0, f"{name}_examples": []}
    return row | changes


def place(offset: int, amount: int = 1, *, partition: int = 0) -> Record:
    known = {"producer_id": 7, "repeated_offset": 3, "back_ms": 0}
    return {"partition": partition, "offset": offset, "amount": amount, **known}


def answers(**changes: Any) -> Answers:
    fields: dict[str, Any] = {
        "partitions": [total(0, 0, 9)],
        "gaps": [],
        "codecs": [],
        "throughput": [],
        "bucket_widths_ms": {},
        "sizes": [{"topic": "orders", "low": 90, "messages": 10}],
        "delays": [{"topic": "orders", "low": 5, "messages": 10}],
        "producers": [],
        "slow": {},
        "slow_batches": [],
        "faults": [],
        "top_keys": [],
        "keys_by_count": [],
        "dead_letters": [],
    }
    return Answers(**(fields | changes))


def facts(*ends: tuple[int, int], **changes: Any) -> dict[str, TopicFacts]:
    """Where the partitions begin and end."""
    fields: dict[str, Any] = {
        "settings": {},
        "partitions": {
            number: PartitionFacts(
                start_offset=start,
                log_start_offset=start,
                end_offset=end,
                size_bytes=1,
                segment_count=1,
                removals=(),
            )
            for number, (start, end) in enumerate(ends)
        },
        "group_offsets": {},
    }
    return {"orders": TopicFacts(**(fields | changes))}


def assembled(
    given: Answers,
    known: dict[str, TopicFacts] | None = None,
    *,
    starts: dict[tuple[str, int], int] | None = None,
    compacted: frozenset[str] = frozenset(),
    lost: Sequence[Lost] = (),
) -> tuple[Tables, TopicEvidence]:
    tables, (evidence,) = assemble(
        ["orders"], {}, given, known or {}, compacted, starts or {}, lost
    )
    return tables, evidence


def test_a_topic_without_messages_has_its_row_too() -> None:
    nothing = answers(partitions=[], sizes=[], delays=[])
    tables, evidence = assembled(nothing, facts((0, 0)))
    assert tables.topics[0].messages == 0
    assert tables.topics[0].first_ms is None
    assert [row.partition for row in tables.partitions] == [0]
    assert evidence.missing.count == 0


def test_faults_are_added_up_over_partitions() -> None:
    one = total(0, 0, 9, repeated=2, repeated_examples=[place(4)])
    two = total(1, 0, 9, repeated=3, repeated_examples=[place(6, partition=1)])
    _, evidence = assembled(answers(partitions=[one, two]))
    assert evidence.repeated.count == 5
    assert [(each.partition, each.offset) for each in evidence.repeated.examples] == [
        (0, 4),
        (1, 6),
    ]
    assert evidence.repeated.examples[0].text == "producer 7: repeats offset 3"


def test_what_is_missing_and_not_lost_are_control_records() -> None:
    gaps = [place(2, 4), place(8, 2)]
    one = total(0, 0, 20, missing=6, missing_examples=gaps)
    tables, evidence = assembled(answers(partitions=[one]), lost=[Lost("orders", 0, 2, 4)])
    assert (evidence.missing.count, evidence.control.count) == (4, 2)
    (lost,), (control,) = evidence.missing.examples, evidence.control.examples
    assert (lost.offset, lost.text) == (2, "4 offsets missing from here on")
    assert (control.offset, control.text) == (8, "no message here")
    assert tables.partitions[0].missing_offsets == 4


def test_missing_offsets_explain_missing_sequences_of_their_partition() -> None:
    both = total(
        0, 0, 9, missing=4, missing_examples=[place(2, 4)], skipped=4, skipped_examples=[place(6)]
    )
    other = total(1, 0, 9, skipped=2, skipped_examples=[place(5, 2, partition=1)])
    lost = [Lost("orders", 0, 2, 4), Lost("payments", 1, 0, 1)]
    _, evidence = assembled(answers(partitions=[both, other]), lost=lost)
    assert (evidence.missing.count, evidence.skipped.count) == (4, 2)
    assert evidence.skipped.examples[0].partition == 1


def test_what_retention_took_meanwhile_is_not_missing() -> None:
    """Neither as a hole between what was read before and after, nor by the sequences in it."""
    torn = total(0, 0, 9, missing=4, missing_examples=[place(2, 4)], skipped=4)
    given = answers(partitions=[torn])
    _, evidence = assembled(given, facts((0, 10)), starts={("orders", 0): 6})
    assert (evidence.missing.count, evidence.control.count, evidence.skipped.count) == (0, 0, 0)
    _, evidence = assembled(given, facts((0, 10)), starts={("orders", 0): 0})
    assert (evidence.control.count, evidence.skipped.count) == (4, 4)


def test_faults_within_keys_come_with_what_they_refer_to() -> None:
    example = {"partition": 1, "offset": 8, "other": 3, "back_ms": 2_000}
    fault = {
        "topic": "orders",
        "far_copies": 1,
        **dict.fromkeys(("copied", "back", "interleaved"), 2),
        **{f"{name}_examples": [example] for name in ("copied", "back", "interleaved")},
    }
    _, evidence = assembled(answers(faults=[fault]))
    seen = (evidence.copied, evidence.key_back, evidence.interleaved)
    assert [each.count for each in seen] == [2, 2, 2]
    assert evidence.far_copies == 1
    texts = [each.examples[0].text for each in seen]
    assert texts == ["repeats offset 3", *["2 s older than offset 3"] * 2]


def test_a_topic_is_compacted_by_its_settings_its_folder_or_its_batches() -> None:
    by_settings = facts((0, 10), settings={"cleanup_policy": "compact,delete"})
    thinned = answers(partitions=[total(0, 0, 9, thinned_batches=1)])
    for tables, _ in (
        assembled(answers(), by_settings),
        assembled(answers(), compacted=frozenset({"orders"})),
        assembled(thinned),
    ):
        assert tables.topics[0].is_compacted
    assert not assembled(answers())[0].topics[0].is_compacted


def test_a_delay_is_exact_only_where_every_batch_is_stamped() -> None:
    stamped = answers(partitions=[total(0, 0, 9, stamped_batches=2)])
    partly = answers(partitions=[total(0, 0, 9, stamped_batches=1)])
    assert assembled(stamped)[0].topics[0].delay_basis == "append time"
    assert assembled(partly)[0].topics[0].delay_basis == "lower bound"


def test_lag_counts_what_is_there_and_what_was_removed_unread() -> None:
    known = facts((20, 100), group_offsets={"billing": {0: 90}, "audit": {0: 5, 9: 1}})
    tables, _ = assembled(answers(partitions=[total(0, 20, 99)]), known)
    assert [(row.group, row.lag, row.lost) for row in tables.lag] == [
        ("audit", 80, 15),
        ("billing", 10, 0),
    ]


def test_removals_are_told_as_the_broker_has_them() -> None:
    removal = Removal(
        first_offset=0, end_offset=20, cause="retention_time", at_ms=5, detail="retention_ms is 1"
    )
    known = PartitionFacts(
        start_offset=20,
        log_start_offset=20,
        end_offset=20,
        size_bytes=0,
        segment_count=1,
        removals=(removal,),
    )
    tables, _ = assembled(answers(partitions=[]), facts(partitions={0: known}))
    assert [(row.end_offset, row.cause) for row in tables.removals] == [(20, "retention_time")]


def test_keys_of_other_topics_do_not_count() -> None:
    given = answers(
        top_keys=[
            {
                "topic": "orders",
                "rank": 1,
                "key_start": bytearray(b"alice"),
                "messages": 6,
                "message_bytes": 60,
                "partition": 0,
                "first_offset": 2,
            }
        ],
        keys_by_count=[
            {"topic": "orders", "messages": 6, "keys": 1, "scattered": 0},
            {"topic": "orders", "messages": 2, "keys": 2, "scattered": 1},
            {"topic": "payments", "messages": 1, "keys": 9, "scattered": 9},
        ],
    )
    tables, evidence = assembled(given)
    assert tables.topics[0].keys == 3
    assert (tables.keys[0].key, tables.keys[0].share) == (b"alice", 0.6)
    assert evidence.scattered_keys == 1


def test_slow_producers_come_with_their_latest_batches() -> None:
    given = answers(
        slow={"orders": [(Timed(7, {30_000: 10}), 20)]},
        slow_batches=[
            {
                "topic": "orders",
                "producer_id": 7,
                "examples": [{"partition": 0, "offset": 4, "late_ms": 31_000}],
            }
        ],
    )
    _, evidence = assembled(given)
    (slow,) = evidence.slow
    assert (slow.producer_id, slow.messages, slow.delay_p50_ms) == (7, 10, 30_000)
    assert slow.examples[0].text == "31 s late"
