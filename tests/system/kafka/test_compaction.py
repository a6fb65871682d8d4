"""A compacted topic in the hands of real clients: written by several of them, with every codec and
with idempotence, compacted in the background, and read by all with the gaps that are left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.driver import PATIENCE_S, until
from tests.system.kafka.drivers.table import NAMES, Clients
from tests.system.kafka.messages import Message, Record
from tests.system.kafka.peer import IS_KAFKA, KafkaPeer, Peer, PenstockPeer

TOPIC = "compacted"
KEYS = 20
# Who writes, with which codec: the two ways of framing snappy among them.
WRITERS = (
    ("confluent-kafka", "snappy"),
    ("java", "snappy"),
    ("kafkajs", "gzip"),
    ("aiokafka", "lz4"),
    ("kafka-python", "none"),
    ("confluent-kafka", "zstd"),
    # What is left, which not every client can read with every codec.
    ("confluent-kafka", "gzip"),
)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One that looks for something to compact all the time."""
    folder = tmp_path_factory.mktemp("peer") / "data"
    quick: Peer
    if IS_KAFKA:
        quick = KafkaPeer(folder, "log.cleaner.backoff.ms=100")
    else:
        quick = PenstockPeer(folder, "retention_check_ms=100")
    with quick as running:
        yield running


@pytest.fixture(scope="module")
def compacted(clients: Clients, bootstrap: str, create_topic: CreateTopic) -> list[Record]:
    """What is left of it, as librdkafka reads it."""
    create_topic(
        TOPIC,
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="86400000",
    )
    for round_number, (name, codec) in enumerate(WRITERS):
        messages = [
            Message(
                key=b"key-%d" % (number % KEYS),
                value=b"%d of %d" % (number, round_number),
                headers=(("written by", name.encode()),),
            )
            for number in range(5 * KEYS)
        ]
        clients[name].produce(TOPIC, messages, codec=codec, idempotent=name == "confluent-kafka")
    gone = [Message(key=b"key-%d" % number, value=None) for number in range(3)]
    clients["confluent-kafka"].produce(TOPIC, gone)
    left: list[Record] = []

    def is_compacted() -> bool:
        # A segment is sealed when something comes after it, and the last one is never compacted.
        clients["confluent-kafka"].produce(TOPIC, [Message(key=b"last", value=b"one")])
        left[:] = read_all(bootstrap)
        return sum(record.key != b"last" for record in left) == KEYS

    until(is_compacted, "the topic is compacted")
    return left


def read_all(bootstrap: str) -> list[Record]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[Record] = []
    try:
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "silence"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            offset, key = message.offset(), message.key()
            assert offset is not None
            found.append(
                Record(
                    partition=0,
                    offset=offset,
                    key=key if isinstance(key, bytes) else None,
                    value=message.value(),
                    headers=tuple(message.headers() or ()),
                    timestamp_ms=message.timestamp()[1],
                )
            )
    finally:
        consumer.close()


def test_the_latest_record_of_every_key_is_left(compacted: list[Record]) -> None:
    last_round = len(WRITERS) - 1
    latest = {record.key: record for record in compacted if record.key != b"last"}
    assert len(latest) == KEYS
    for number in range(KEYS):
        record = latest[b"key-%d" % number]
        if number < 3:
            assert record.value is None
            assert record.offset == len(WRITERS) * 5 * KEYS + number
        else:
            assert record.value == b"%d of %d" % (4 * KEYS + number, last_round)
            assert record.headers == (("written by", b"confluent-kafka"),)
            assert record.offset == last_round * 5 * KEYS + 4 * KEYS + number
    offsets = [record.offset for record in compacted]
    assert offsets == sorted(set(offsets))
    assert offsets[0] == last_round * 5 * KEYS + 4 * KEYS + 3, "what came before is gone"


@pytest.mark.parametrize("name", NAMES)
def test_every_client_reads_what_is_left(
    clients: Clients, compacted: list[Record], name: str
) -> None:
    # Those of the last key may go at any time.
    expected = [record for record in compacted if record.key != b"last"]
    driver = clients[name]
    found = driver.consume({TOPIC: KEYS})[TOPIC]
    assert found == [driver.shows(record) for record in expected]
