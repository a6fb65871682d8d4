"""aiokafka: the asyncio client in Python."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.system.kafka.drivers.driver import PATIENCE_S, Reading, WholeDriver
from tests.system.kafka.messages import Message, Record


class AiokafkaDriver(WholeDriver):
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def can_send(self, message: Message) -> bool:
        """It refuses a message that has neither key nor value."""
        return not (message.key is None and message.value is None)

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        async def send() -> None:
            async with AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=idempotent,
                linger_ms=20,
            ) as producer:
                futures = [
                    await producer.send(
                        topic,
                        message.value,
                        message.key,
                        partition=0,
                        timestamp_ms=message.timestamp_ms,
                        headers=list(message.headers),
                    )
                    for message in messages
                ]
                await asyncio.wait_for(asyncio.gather(*futures), PATIENCE_S)

        asyncio.run(send())

    def consume(self, counts: Mapping[str, int]) -> dict[str, list[Record]]:
        async def read() -> dict[str, list[Record]]:
            reading = Reading(counts)
            async with AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=20,
            ) as consumer:
                partitions = [TopicPartition(topic, 0) for topic in counts]
                consumer.assign(partitions)
                await consumer.seek_to_beginning(*partitions)
                await _read(consumer, reading)
            return reading.records

        return asyncio.run(read())

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Record]:
        async def read() -> list[Record]:
            reading = Reading({topic: count})
            async with AIOKafkaConsumer(
                topic,
                bootstrap_servers=self._bootstrap,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=20,
            ) as consumer:
                await _read(consumer, reading)
                after = reading.records[topic][-1].offset + 1
                await consumer.commit({TopicPartition(topic, 0): after})
            return reading.records[topic]

        return asyncio.run(read())

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        async def find() -> int | None:
            async with AIOKafkaConsumer(bootstrap_servers=self._bootstrap) as consumer:
                partition = TopicPartition(topic, 0)
                found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
                return None if found is None else found.offset

        return asyncio.run(find())


async def _read(consumer: AIOKafkaConsumer, reading: Reading) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not reading.is_complete:
            received = await consumer.getone()
            reading.add(received.topic, to_record(received))


def to_record(received: Any) -> Record:
    """aiokafka's and kafka-python's records have the same fields."""
    return Record(
        partition=received.partition,
        offset=received.offset,
        key=received.key,
        value=received.value,
        headers=tuple((name, value) for name, value in received.headers),
        timestamp_ms=received.timestamp,
    )
