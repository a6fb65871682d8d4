"""Which evidence is a finding, and how bad it is (R-SPK-3)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.spark.inspection import Example, Finding, Kind, Severity
from penstock.spark.inspection.evidence.evidence import Sighting, SlowProducer, TopicEvidence
from penstock.spark.inspection.evidence.tables import CodecRow, DeadLetterRow, LagRow
from penstock.spark.inspection.rules import findings_of
from penstock.spark.inspection.thresholds import DEFAULTS
from tests.kit.spark.healthy_topic import evidence, key_row, partition_row, topic_row

SEEN = Sighting(3, (Example(partition=0, offset=12, text="here"),))


def told(given: TopicEvidence) -> list[tuple[Severity, Kind]]:
    return [(finding.severity, finding.kind) for finding in findings_of(given, DEFAULTS)]


def only(given: TopicEvidence) -> Finding:
    (finding,) = findings_of(given, DEFAULTS)
    return finding


def test_a_healthy_topic_gives_nothing() -> None:
    assert told(evidence()) == []


@pytest.mark.parametrize(
    ("name", "severity", "kind"),
    [
        ("missing", Severity.CRITICAL, Kind.HOLE),
        ("skipped", Severity.CRITICAL, Kind.HOLE),
        ("control", Severity.NOTE, Kind.CONTROL_RECORDS),
        ("repeated", Severity.CRITICAL, Kind.DUPLICATES),
        ("copied", Severity.WARNING, Kind.DUPLICATES),
        ("swapped", Severity.CRITICAL, Kind.ORDER),
        ("ahead", Severity.WARNING, Kind.WRONG_CLOCK),
        ("key_back", Severity.WARNING, Kind.ORDER),
        ("producer_back", Severity.WARNING, Kind.ORDER),
        ("interleaved", Severity.NOTE, Kind.INTERLEAVED_PRODUCERS),
    ],
)
def test_each_fault_is_told_with_its_places(name: str, severity: Severity, kind: Kind) -> None:
    seen: dict[str, Any] = {name: SEEN}
    finding = only(evidence(**seen))
    assert (finding.severity, finding.kind, finding.count) == (severity, kind, 3)
    assert finding.examples == SEEN.examples
    for sentence in (finding.problem, finding.meaning, finding.advice):
        assert sentence.endswith(".")


def test_a_compacted_topic_may_have_holes() -> None:
    row = topic_row(is_compacted=True)
    assert told(evidence(row, missing=SEEN, skipped=SEEN, control=SEEN)) == []


def test_times_that_go_back_are_one_finding_by_key_and_by_producer() -> None:
    finding = only(evidence(key_back=SEEN, producer_back=Sighting(9)))
    assert "3 messages within a key and 9 batches within a producer" in finding.problem


def test_copies_far_away_are_called_a_second_run() -> None:
    near, far = only(evidence(copied=SEEN)), only(evidence(copied=SEEN, far_copies=3))
    assert "sent a batch again" in near.meaning
    assert "run again" in far.meaning
    assert "2 of them close by" in only(evidence(copied=SEEN, far_copies=1)).problem


def test_a_key_is_hot_by_its_share_and_beside_the_others() -> None:
    hot = only(evidence(keys=(key_row(b"<b>", 600),)))
    assert (hot.kind, hot.severity) == (Kind.HOT_KEY, Severity.WARNING)
    assert "“<b>” has 60 %" in hot.problem
    assert [(place.partition, place.offset) for place in hot.examples] == [(1, 17)]


@pytest.mark.parametrize(
    ("messages", "keys", "largest"),
    [
        (1_000, 2, 510),  # two keys that share evenly
        (1_000, 4, 400),  # above a fifth, but not far above the others
        (1_000, 500, 190),  # far above the others, but below a fifth
        (99, 50, 60),  # too few messages
        (1_000, 1, 1_000),  # the only key
    ],
)
def test_a_key_is_not_hot_by_chance(messages: int, keys: int, largest: int) -> None:
    row = topic_row(messages=messages, keys=keys)
    assert told(evidence(row, keys=(key_row(b"alice", largest, messages),))) == []


def uneven(**changes: Any) -> TopicEvidence:
    partitions = (partition_row(0, 900), partition_row(1, 50), partition_row(2, 50))
    return evidence(partitions=partitions, **changes)


def test_an_imbalance_needs_enough_choices() -> None:
    assert told(uneven()) == [], "100 keys in three partitions may fall like that"
    assert told(uneven(row=topic_row(keys=150))) == [(Severity.WARNING, Kind.IMBALANCE)]
    assert told(uneven(unkeyed_batches=50)) == [(Severity.WARNING, Kind.IMBALANCE)]


def test_a_hot_key_explains_an_imbalance() -> None:
    given = uneven(row=topic_row(keys=150), keys=(key_row(b"hot", 850),))
    assert told(given) == [(Severity.WARNING, Kind.HOT_KEY)]


def test_a_slow_producer_is_told_with_what_is_known_of_its_delay() -> None:
    slow = SlowProducer(
        producer_id=7, messages=50, delay_p50_ms=30_000, others_p50_ms=20, examples=SEEN.examples
    )
    bound = only(evidence(slow=(slow,)))
    assert "Producer 7 is slow: half of its messages arrive at least 30 s" in bound.problem
    exact = only(evidence(topic_row(delay_basis="append time"), slow=(slow,)))
    assert "arrive 30 s after" in exact.problem


def lag(group: str, committed: int, end: int, lost: int = 0) -> LagRow:
    return LagRow(
        topic="orders",
        group=group,
        partition=0,
        committed_offset=committed,
        end_offset=end,
        lag=end - committed - lost,
        lost=lost,
    )


def test_lag_is_told_from_a_number_on_and_loss_always() -> None:
    near = lag("billing", 0, DEFAULTS.lag_messages - 1)
    behind = lag("search", 0, DEFAULTS.lag_messages)
    lossy = lag("audit", 5, 100, lost=20)
    findings = findings_of(evidence(lag=(near, behind, lossy)), DEFAULTS)
    assert [finding.kind for finding in findings] == [Kind.LAG, Kind.LAG]
    assert "20 messages were removed before the group “audit”" in findings[0].problem
    assert "The group “search” is 10,000 messages behind" in findings[1].problem


def test_dead_letters_are_told_with_their_main_cause() -> None:
    rows = tuple(
        DeadLetterRow(
            topic="orders.dead",
            cause=cause,
            messages=messages,
            first_ms=0,
            last_ms=1,
            partition=0,
            offset=messages,
        )
        for cause, messages in (("Timeout", 2), ("BadAmount", 40))
    )
    finding = only(evidence(dead_letters=rows))
    assert finding.topic == "orders.dead", "the offsets are in there"
    assert finding.problem == "42 dead letters of orders, 40 of them for: BadAmount."


def codec(name: str, stored: int, expanded: int) -> CodecRow:
    return CodecRow(
        topic="orders",
        codec=name,
        batches=10,
        messages=1_000,
        stored_bytes=stored,
        expanded_bytes=expanded,
        ratio=expanded / stored,
    )


def test_thrift_is_a_note() -> None:
    large = 2 * DEFAULTS.compression_bytes_min
    note = [(Severity.NOTE, Kind.COMPRESSION)]
    assert told(evidence(codecs=(codec("none", large, large),))) == note
    assert told(evidence(codecs=(codec("zstd", large, large + 1),))) == note
    assert told(evidence(codecs=(codec("zstd", large, 3 * large),))) == []
    assert told(evidence(codecs=(codec("none", 1_000, 1_000),))) == []
    small = topic_row(messages=20_000, batches=15_000)
    assert told(evidence(small)) == [(Severity.NOTE, Kind.SMALL_BATCHES)]


def test_keys_in_several_partitions_are_a_note() -> None:
    assert told(evidence(scattered_keys=1)) == [(Severity.NOTE, Kind.SCATTERED_KEYS)]
