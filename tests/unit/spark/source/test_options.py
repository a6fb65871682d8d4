"""The options of the source, as Spark's Kafka source has them and our own."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig, InvalidTopic
from penstock.model.ids import TopicPartition
from penstock.spark.planning.positions import AtEdge, AtOffsets, AtTimes
from penstock.spark.source.options import SourceOptions, check_batch, check_stream, parse_options

BASE = {"bootstrap": "127.0.0.1:9092", "subscribe": "orders"}


def parse(**options: str) -> SourceOptions:
    return parse_options({**BASE, **options})


def test_defaults() -> None:
    """R-SPK-1: the defaults are those of Spark's Kafka source."""
    options = parse()
    assert options.selection.topics == ("orders",)
    assert options.start is None
    assert options.end == AtEdge(edge="latest")
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.trigger_rows_max is None
    assert options.trigger_delay_ms_max == 900_000


def test_all_ways_to_say_what_is_read() -> None:
    only = {"bootstrap": "h:1"}
    several = parse_options({**only, "subscribe": "orders, bills,orders"})
    assert several.selection.topics == ("orders", "bills")
    assert parse_options({**only, "topic": "orders"}).selection.topics == ("orders",)
    assert parse_options({**only, "subscribePattern": "o.*"}).selection.pattern == "o.*"
    assigned = parse_options({**only, "assign": '{"orders":[0,2]}'}).selection.partitions
    assert assigned == {TopicPartition("orders", 0), TopicPartition("orders", 2)}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"subscribe": "orders", "assign": '{"orders":[0]}'},
        {"subscribePattern": "o", "subscribe": "orders"},
        {"subscribe": "orders", "topic": "bills"},
        {"subscribe": " , "},
        {"subscribePattern": "("},
        {"assign": "{}"},
        {"assign": '{"orders":[]}'},
        {"assign": '{"orders":[-1]}'},
        {"assign": '{"orders":["0"]}'},
        {"assign": "[0]"},
        {"assign": "orders"},
    ],
)
def test_what_is_read_is_said_once_and_rightly(given: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        parse_options({"bootstrap": "h:1", **given})


def test_a_name_that_no_topic_can_have() -> None:
    with pytest.raises(InvalidTopic):
        parse_options({"bootstrap": "h:1", "subscribe": "a/b"})


def test_a_broker_or_a_folder() -> None:
    assert parse_options({"path": "data", "subscribe": "orders"}).path == "data"
    for given in ({}, {"path": "data", "bootstrap": "h:1"}):
        with pytest.raises(InvalidConfig, match="Where to read from"):
            parse_options({**given, "subscribe": "orders"})


def test_starts_and_ends() -> None:
    assert parse(startingOffsets="EARLIEST").start == AtEdge(edge="earliest")
    offsets = '{"orders":{"0":5,"1":-2}}'
    assert parse(startingOffsets=offsets).start == AtOffsets(
        option="startingOffsets",
        offsets={TopicPartition("orders", 0): 5, TopicPartition("orders", 1): -2},
    )
    times = parse(startingOffsetsByTimestamp='{"orders":{"0":1000}}', startingOffsets="latest")
    assert times.start == AtTimes(
        option="startingOffsetsByTimestamp", times_ms={TopicPartition("orders", 0): 1000}
    )
    everywhere = parse(
        startingTimestamp="77",
        startingOffsetsByTimestamp='{"orders":{"0":1000}}',
        startingOffsetsByTimestampStrategy="latest",
    )
    assert everywhere.start == AtTimes(option="startingTimestamp", times_ms=77, or_latest=True)
    assert parse(endingTimestamp="88").end == AtTimes(option="endingTimestamp", times_ms=88)


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "first"},
        {"startingOffsets": '{"orders":5}'},
        {"startingOffsets": '{"orders":{"x":5}}'},
        {"startingOffsets": '{"orders":{"0":"5"}}'},
        {"startingOffsets": '{"orders":{"0":true}}'},
        {"startingOffsets": '{"orders":{"0":-3}}'},
        {"startingTimestamp": "-1"},
        {"startingTimestamp": "yesterday"},
        {"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'},
        {"startingOffsetsByTimestampStrategy": "earliest"},
        {"maxOffsetsPerTrigger": "0"},
        {"maxTriggerDelay": "soon"},
        {"minPartitions": "-4"},
        {"failOnDataLoss": "maybe"},
        {"valueFormat": "json"},
        {"valueSchema": "a INT"},
        {"onDamage": "repair"},
        {"groupId": "a", "kafka.group.id": "b"},
    ],
)
def test_what_makes_no_sense(given: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        parse(**given)


def test_durations_as_spark_writes_them() -> None:
    assert parse(maxTriggerDelay="15m").trigger_delay_ms_max == 900_000
    assert parse(maxTriggerDelay="30 s").trigger_delay_ms_max == 30_000
    assert parse(maxTriggerDelay="500").trigger_delay_ms_max == 500


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"orders":{"0":-1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"orders":{"0":-2}}'},
    ],
)
def test_a_batch_read_has_two_ends(given: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        check_batch(parse(**given), {**BASE, **given})


def test_what_is_for_streams_is_no_harm_to_a_batch_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {"maxOffsetsPerTrigger": "10"}
    check_batch(parse(**given), {**BASE, **given})
    assert "maxOffsetsPerTrigger" in caplog.text


@pytest.mark.parametrize(
    "given",
    [
        {"endingOffsets": "latest"},
        {"endingTimestamp": "5"},
        {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
    ],
)
def test_a_stream_has_no_end(given: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        check_stream(parse(**given), {**BASE, **given})


def test_a_stream_needs_a_broker() -> None:
    given = {"path": "data", "subscribe": "orders"}
    with pytest.raises(InvalidConfig, match="path is for batch reads"):
        check_stream(parse_options(given), given)
