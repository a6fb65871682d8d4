"""kafka-python: the blocking client in pure Python."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence

from tests.system.kafka.drivers.aio import to_record
from tests.system.kafka.drivers.driver import PATIENCE_S, Reading, WholeDriver
from tests.system.kafka.messages import Message, Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its own files in an old way
    from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition


class KafkaPythonDriver(WholeDriver):
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def can_send(self, message: Message) -> bool:
        """It refuses a message that has neither key nor value, and a header without a value."""
        is_nothing = message.key is None and message.value is None
        return not is_nothing and all(value is not None for _, value in message.headers)

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            linger_ms=20,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=0,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            for future in futures:
                future.get(timeout=PATIENCE_S)
        finally:
            producer.close()

    def consume(self, counts: Mapping[str, int]) -> dict[str, list[Record]]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=None, fetch_max_wait_ms=20
        )
        reading = Reading(counts)
        try:
            partitions = [TopicPartition(topic, 0) for topic in counts]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            _read(consumer, reading)
        finally:
            consumer.close()
        return reading.records

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Record]:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20,
        )
        reading = Reading({topic: count})
        try:
            _read(consumer, reading)
            after = reading.records[topic][-1].offset + 1
            consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(after, "", -1)})
        finally:
            consumer.close()
        return reading.records[topic]

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None)
        try:
            partition = TopicPartition(topic, 0)
            found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
            return None if found is None else int(found.offset)
        finally:
            consumer.close()

    def commit(self, topic: str, partition: int, group: str, offset: int, note: str) -> None:
        """As a consumer that is no member of the group."""
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=group)
        try:
            place = TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.commit({place: OffsetAndMetadata(offset, note, -1)})
        finally:
            consumer.close()

    def committed(self, topic: str, partition: int, group: str) -> tuple[int, str]:
        """The group's offset and the note it left with it."""
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=group)
        try:
            found = consumer.committed(TopicPartition(topic, partition), metadata=True)
            return found.offset, found.metadata
        finally:
            consumer.close()


def _read(consumer: KafkaConsumer, reading: Reading) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reading.is_complete:
        assert time.monotonic() < deadline, f"too few messages: {reading}"
        for partition, received in consumer.poll(timeout_ms=1000).items():
            for one in received:
                reading.add(partition.topic, to_record(one))
