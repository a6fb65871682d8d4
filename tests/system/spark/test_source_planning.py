"""The plans of streams on a real broker, call by call as Spark makes them, without a JVM.

What Spark does with them is in the other tests of the source.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
)

from penstock.model.errors import InvalidConfig, UnknownTopic
from penstock.spark.errors import DataLoss
from penstock.spark.planning.offsets import StreamOffset
from penstock.spark.source.data_source import PenstockDataSource
from penstock.spark.source.stream_reader import StreamReader
from penstock.spark.source.task_reader import RangePartition
from tests.system.spark.source_support import Topics, broker_topics

Json = dict[str, Any]
ALL = ReadAllAvailable()


@pytest.fixture
def topics() -> Iterator[Topics]:
    with broker_topics() as topics:
        yield topics


class Query:
    """A stream as Spark drives it; `restart` is another process."""

    def __init__(self, topics: Topics, **options: str) -> None:
        given = {"bootstrap": topics.address, "startingOffsets": "earliest", **options}
        if not {"subscribePattern", "assign"} & options.keys():
            given.setdefault("subscribe", "orders")
        self._options = CaseInsensitiveDict(given)
        self.restart()
        self.place: Json = {}

    def restart(self, **options: str) -> None:
        source = PenstockDataSource(self._options | options)
        reader = source.streamReader(source.schema())
        assert isinstance(reader, StreamReader)
        self.reader: StreamReader = reader

    def begin(self) -> None:
        self.place = through_json(self.reader.initialOffset())

    def next_batch(self, limit: ReadLimit = ALL) -> list[str]:
        """Plan the next batch and be where it ends."""
        end = through_json(self.reader.latestOffset(self.place, limit))
        ranges = self.plan(self.place, end)
        self.place = end
        return ranges

    def plan(self, start: Json, end: Json) -> list[str]:
        parts = pickle.loads(pickle.dumps(self.reader.partitions(start, end)))
        assert all(isinstance(part, RangePartition) for part in parts)
        return [str(part.offsets) for part in parts]


def through_json(offset: Json) -> Json:
    parsed: Json = json.loads(json.dumps(offset))
    return parsed


def lost(place: Json) -> int:
    return StreamOffset.from_json(place).lost_total


def test_batches_follow_each_other(topics: Topics) -> None:
    topics.admin.create_topic("orders", 2)
    topics.fill("orders", 10)
    query = Query(topics)
    query.begin()
    assert query.next_batch() == ["orders[0] 0 to 10"]
    assert query.next_batch() == []
    before = query.place
    topics.fill("orders", 5)
    topics.fill("orders", 3, partition=1)
    assert query.next_batch() == ["orders[0] 10 to 15", "orders[1] 0 to 3"]
    after = query.place
    # Nothing new is exactly the same offset, or Spark would run empty batches for ever.
    assert query.reader.latestOffset(after, ALL) == after
    query.restart()
    assert query.plan(before, after) == ["orders[0] 10 to 15", "orders[1] 0 to 3"]


def test_the_first_batch_is_the_same_after_a_restart(topics: Topics) -> None:
    """Spark asks for the initial offset again: it fails on nothing that has changed since."""
    topics.admin.create_topic("orders", 1)
    topics.admin.create_topic("bills", 1)
    topics.fill("orders", 10)
    asked = '{"orders": {"0": 2}, "bills": {"0": -1}}'
    query = Query(topics, subscribe="orders,bills", startingOffsets=asked, failOnDataLoss="false")
    query.begin()
    assert query.next_batch() == ["orders[0] 2 to 10"]
    first = query.place
    topics.admin.add_partitions("orders", 2)
    topics.fill("orders", 5, partition=1)
    topics.admin.delete_topic("bills")
    query.restart()
    assert query.plan(query.reader.initialOffset(), first) == ["orders[0] 2 to 10"]
    assert query.next_batch() == ["orders[1] 0 to 5"]


def test_a_first_batch_without_rows_loses_none(topics: Topics) -> None:
    topics.admin.create_topic("orders", 1)
    query = Query(topics, startingOffsets="latest")
    query.begin()
    assert query.next_batch() == []
    topics.fill("orders", 5)
    query.restart()
    # Spark asks for the initial offset again, and "latest" is elsewhere by then.
    assert query.plan(query.reader.initialOffset(), query.place) == []
    assert query.next_batch() == ["orders[0] 0 to 5"]


def test_a_rate_limit(topics: Topics) -> None:
    """R-SPK-1: rows per batch, spread in proportion."""
    topics.admin.create_topic("orders", 2)
    topics.fill("orders", 30)
    topics.fill("orders", 10, partition=1)
    query = Query(topics, maxOffsetsPerTrigger="20")
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(20)
    query.begin()
    assert query.next_batch(ReadMaxRows(20)) == ["orders[0] 0 to 15", "orders[1] 0 to 5"]
    assert query.reader.reportLatestOffset()["orders"] == {"0": 30, "1": 10}  # type: ignore[index]
    # Spark may ask for everything whatever the options say: then it is everything.
    assert query.next_batch(ALL) == ["orders[0] 15 to 30", "orders[1] 5 to 10"]


def test_a_batch_waits_for_its_least_number_of_rows(topics: Topics) -> None:
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 5)
    query = Query(topics, minOffsetsPerTrigger="10")
    assert query.reader.getDefaultReadLimit() == ReadMinRows(10)
    query.begin()
    # As in Spark's Kafka source, the first batch goes at once.
    assert query.next_batch(ReadMinRows(10)) == ["orders[0] 0 to 5"]
    topics.fill("orders", 5)
    assert query.next_batch(ReadMinRows(10)) == []
    topics.fill("orders", 5)
    assert query.next_batch(ReadMinRows(10)) == ["orders[0] 5 to 15"]
    query.restart(maxTriggerDelay="0s")
    query.next_batch(ReadMinRows(10))
    topics.fill("orders", 5)
    assert query.next_batch(ReadMinRows(10)) == ["orders[0] 15 to 20"]


def test_available_now_reads_what_was_there(topics: Topics) -> None:
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 10)
    query = Query(topics, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="5")
    query.reader.prepareForTriggerAvailableNow()
    query.begin()
    limit = query.reader.getDefaultReadLimit()
    assert query.next_batch(limit) == ["orders[0] 0 to 6"]
    topics.fill("orders", 10)
    topics.admin.add_partitions("orders", 2)
    topics.fill("orders", 1, partition=1)
    assert query.next_batch(limit) == ["orders[0] 6 to 10"]
    assert query.reader.latestOffset(query.place, limit) == query.place
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    assert query.next_batch(ALL) == ["orders[0] 10 to 20", "orders[1] 0 to 1"]


def test_what_arrives_between_the_target_and_the_start_is_no_loss(topics: Topics) -> None:
    """Spark asks AvailableNow's target first, then where a new query begins."""
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 10)
    query = Query(topics, startingOffsets="latest")
    query.reader.prepareForTriggerAvailableNow()
    topics.fill("orders", 2)
    topics.admin.add_partitions("orders", 2)
    query.begin()
    assert query.next_batch() == [], "it begins after the target, and nothing is gone"


def test_new_partitions_and_topics_are_read_from_their_beginning(topics: Topics) -> None:
    """R-SPK-1: what is added while the query runs is found."""
    topics.admin.create_topic("orders-eu", 1)
    query = Query(topics, subscribePattern="orders-.*", startingOffsets="latest")
    query.begin()
    assert query.next_batch() == []
    topics.admin.add_partitions("orders-eu", 2)
    topics.fill("orders-eu", 3, partition=1)
    topics.admin.create_topic("orders-us", 1)
    topics.fill("orders-us", 4)
    topics.admin.create_topic("bills", 1)
    before = query.place
    end = through_json(query.reader.latestOffset(before, ALL))
    for part in query.reader.partitions(before, end):
        # Also by a worker that knew the topic with one partition.
        assert sum(rows.num_rows for rows in query.reader.read(part)) in (3, 4)
    assert query.next_batch() == ["orders-eu[1] 0 to 3", "orders-us[0] 0 to 4"]
    # Planned again when the first of them are gone, the batch knows where it began.
    topics.delete_before("orders-us", 2)
    query.restart()
    with pytest.raises(DataLoss, match=r"Offsets 0 to 1 of orders-us\[0\]"):
        query.plan(before, query.place)


def test_a_pattern_that_matches_nothing_yet(topics: Topics) -> None:
    query = Query(topics, subscribePattern="orders.*")
    query.begin()
    assert query.next_batch() == []
    assert query.reader.reportLatestOffset() is None
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 2)
    assert query.next_batch() == ["orders[0] 0 to 2"]


def test_large_partitions_are_split(topics: Topics) -> None:
    topics.admin.create_topic("orders", 2)
    topics.fill("orders", 90)
    topics.fill("orders", 10, partition=1)
    query = Query(topics, minPartitions="10")
    query.begin()
    planned = query.next_batch()
    assert len(planned) == 10
    assert planned[-1] == "orders[1] 0 to 10"
    query = Query(topics, maxRecordsPerPartition="40")
    query.begin()
    assert len(query.next_batch()) == 4


def test_retention_under_a_stopped_query(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    """R-SPK-3: the loss is explained, and the query goes on where it was told to."""
    topics.admin.create_topic("orders", 1, {"segment_bytes": "65536"})
    query = Query(topics)
    query.begin()
    query.next_batch()
    with topics.mq.producer() as producer:
        for _ in range(100):
            producer.send("orders", bytes(10_000))
            producer.flush()
    topics.expire("orders", 96)  # the last segment stays
    start = topics.admin.find_offset("orders", 0, "earliest")
    query.restart()
    with pytest.raises(DataLoss) as raised:
        query.next_batch()
    told = str(raised.value)
    expected = f"Offsets 0 to {start - 1} of orders[0] ({start} messages) are gone: "
    assert told.startswith(expected)
    assert "removed by retention (retention_bytes is 1) at 20" in told
    assert told.endswith(
        f"failOnDataLoss=false to go on at offset {start}, or with a new checkpoint."
    )
    query.restart(failOnDataLoss="false")
    before = query.place
    assert query.next_batch() == [f"orders[0] {start} to 100"]
    assert lost(query.place) == start
    assert expected in caplog.text
    assert query.next_batch() == []
    # The batch itself, run again, is the same.
    assert query.plan(before, query.place) == [f"orders[0] {start} to 100"]


def test_a_loss_that_a_plan_finds_is_counted_in_the_next_batch(topics: Topics) -> None:
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 10)
    query = Query(topics, failOnDataLoss="false")
    query.begin()
    end = through_json(query.reader.latestOffset(query.place, ALL))
    topics.delete_before("orders", 4)
    assert query.plan(query.place, end) == ["orders[0] 4 to 10"]
    assert query.plan(query.place, end) == ["orders[0] 4 to 10"], "Spark may plan a batch twice"
    query.place = end
    assert lost(query.place) == 0
    query.next_batch()
    assert lost(query.place) == 4
    assert query.next_batch() == []
    # What is gone beyond the end of a batch is the next one's loss.
    topics.fill("orders", 10)
    end = through_json(query.reader.latestOffset(query.place, ALL))
    topics.fill("orders", 10)
    topics.delete_before("orders", 25)
    assert query.plan(query.place, end) == []
    query.place = end
    assert query.next_batch() == ["orders[0] 25 to 30"]
    assert lost(query.place) == 4 + 15


def test_a_log_that_was_cut_by_a_crash_and_has_grown_again(tmp_path: Path) -> None:
    """R-SPK-3: what the query read is not what the log has there now."""
    with broker_topics(data=str(tmp_path)) as topics:
        topics.admin.create_topic("orders", 1, {"durability": "os"})
        for _ in range(4):
            topics.fill("orders", 5)
        query = Query(topics)
        query.begin()
        start = query.place
        assert query.next_batch() == ["orders[0] 0 to 20"]
    # The machine went down before the last bytes were on the disk.
    (log,) = (tmp_path / "topics" / "orders" / "0").glob("*.open.log")
    os.truncate(log, log.stat().st_size - 1)
    with broker_topics(data=str(tmp_path)) as topics:
        assert topics.admin.find_offset("orders", 0, "latest") == 15
        topics.fill("orders", 5)
        query.restart(bootstrap=topics.address)
        told = r"Offsets 15 to 19 of orders\[0\] .* cut off by recovery .*"
        with pytest.raises(DataLoss, match=told + " at offset 15, or with"):
            query.next_batch()
        with pytest.raises(DataLoss, match=told):
            query.plan(start, query.place)
        query.restart(bootstrap=topics.address, failOnDataLoss="false")
        # A batch that is run again takes what is left of it, and the next one what is new: also if
        # that ends where the query stood.
        assert query.plan(start, query.place) == ["orders[0] 0 to 15"]
        query.restart(bootstrap=topics.address, failOnDataLoss="false")
        assert query.next_batch() == ["orders[0] 15 to 20"]
        assert lost(query.place) == 0, "the query has the messages that were cut off"
        query.restart(bootstrap=topics.address)
        topics.fill("orders", 1)
        assert query.next_batch() == ["orders[0] 20 to 21"], "it is told once"


def test_a_topic_deleted_under_a_running_query(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topics.admin.create_topic("orders", 1)
    topics.admin.create_topic("bills", 1)
    topics.fill("orders", 10)
    query = Query(topics, subscribe="orders,bills", maxOffsetsPerTrigger="4")
    query.begin()
    query.next_batch(ReadMaxRows(4))
    topics.admin.delete_topic("orders")
    told = r"Topic orders was deleted at 20.*: Offsets 4 to 9 of orders\[0\] \(6 messages\)"
    with pytest.raises(DataLoss, match=told):
        query.next_batch()
    topics.fill("bills", 3)
    query.restart(failOnDataLoss="false")
    assert query.next_batch() == ["bills[0] 0 to 3"]
    assert "orders" not in query.place
    assert lost(query.place) == 6
    assert "Topic orders was deleted" in caplog.text
    assert query.next_batch() == []


def test_a_deleted_topic_that_had_been_read(topics: Topics) -> None:
    """Nothing is lost; but a topic that was asked for by name has to be there."""
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 10)
    named, matched = Query(topics), Query(topics, subscribePattern="orders")
    for query in (named, matched):
        query.begin()
        query.next_batch()
    topics.admin.delete_topic("orders")
    with pytest.raises(UnknownTopic, match="Topic orders does not exist"):
        named.next_batch()
    assert matched.next_batch() == []
    assert lost(matched.place) == 0


def test_a_topic_made_anew(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 10)
    query = Query(topics, maxOffsetsPerTrigger="4")
    query.begin()
    query.next_batch(ReadMaxRows(4))
    topics.admin.delete_topic("orders")
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 20)
    told = r"deleted and made anew under its name at 20.*: Offsets 4 to 9 of orders\[0\]"
    with pytest.raises(DataLoss, match=told):
        query.next_batch()
    query.restart(failOnDataLoss="false")
    before = query.place
    assert query.next_batch() == ["orders[0] 0 to 20"]
    assert lost(query.place) == 6
    assert query.plan(before, query.place) == ["orders[0] 0 to 20"]
    assert "made anew" in caplog.text


def test_a_topic_made_anew_between_plan_and_task(topics: Topics) -> None:
    """Rows of the new topic are not taken for those that were planned."""
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 10)
    query = Query(topics)
    query.begin()
    end = through_json(query.reader.latestOffset(query.place, ALL))
    (part,) = query.reader.partitions(query.place, end)
    topics.admin.delete_topic("orders")
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 10)
    with pytest.raises(DataLoss, match="made anew"):
        list(query.reader.read(part))


def test_a_query_that_changes_its_mind_drops_topics_without_a_word(topics: Topics) -> None:
    for topic in ("orders", "bills"):
        topics.admin.create_topic(topic, 1)
        topics.fill(topic, 5)
    query = Query(topics, subscribe="orders,bills")
    query.begin()
    query.next_batch()
    query.restart(subscribe="orders")
    assert query.next_batch() == []
    assert "bills" not in query.place


def test_a_place_in_other_topics_is_refused(topics: Topics) -> None:
    """Spark gives places to the sources of a query by their order: none is forgotten unasked."""
    for topic in ("orders", "bills"):
        topics.admin.create_topic(topic, 1)
        topics.fill(topic, 5)
    query = Query(topics)
    query.begin()
    start = query.place
    query.next_batch()
    query.restart(subscribe="bills")
    told = "has a place in orders, which this source does not read"
    with pytest.raises(InvalidConfig, match=told):
        query.next_batch()
    with pytest.raises(InvalidConfig, match=told):
        query.plan(start, query.place)
    query.restart(subscribe="bills", failOnDataLoss="false")
    assert query.next_batch() == ["bills[0] 0 to 5"]


def test_a_topic_that_is_not_there(topics: Topics) -> None:
    query = Query(topics)
    query.begin()
    with pytest.raises(UnknownTopic, match="Topic orders does not exist: create it first"):
        query.next_batch()


def test_progress_shows_as_the_lag_of_a_group(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """R-SPK-1: Spark's progress is where people look for lag."""
    topics.admin.create_topic("orders", 1)
    topics.fill("orders", 10)
    query = Query(topics, groupId="reports")
    query.begin()
    query.next_batch()
    (lag,) = topics.admin.group_lag("reports")
    assert lag.lag == 10
    # Spark asks for the next batch when this one is done, and calls commit after that.
    query.next_batch()
    (lag,) = topics.admin.group_lag("reports")
    assert (lag.committed, lag.lag) == (10, 0)
    query.reader.commit(query.place)
    # A topic that is gone keeps nobody from seeing the others' lag.
    topics.admin.create_topic("bills", 1)
    topics.fill("bills", 3)
    query.restart(subscribe="orders,bills")
    query.next_batch()
    topics.admin.delete_topic("bills")
    topics.fill("orders", 2)
    query.restart(subscribe="orders,bills", failOnDataLoss="false")
    query.next_batch()
    assert "not committed to group" not in caplog.text
    query.restart(groupId="x" * 1000)
    query.next_batch()
    assert "not committed to group" in caplog.text


def test_assigned_partitions(topics: Topics) -> None:
    topics.admin.create_topic("orders", 3)
    for partition in range(3):
        topics.fill("orders", 5, partition=partition)
    query = Query(topics, assign='{"orders":[0,2]}')
    query.begin()
    assert query.next_batch() == ["orders[0] 0 to 5", "orders[2] 0 to 5"]
