"""Request bytes of the two protocols, built before the clock starts, and just enough reading of
the answers to count them and to notice that one is an error.

Not a client: no connection, no retries, no decoding of records. It is written apart from the
product's own codec, so that the yardstick stays the same while the product changes. Invariant:
for the same batch both protocols carry the same bytes to the log, so a ratio compares servers,
not requests.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

import crc32c

from penstock.protocol import penstock_pb2 as messages

HEADER_BYTES: Final = 61
_BASE_TIMESTAMP_MS: Final = 1_700_000_000_000
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_NATIVE_HEADER: Final = struct.Struct(">HBBII")
_NATIVE_MAGIC: Final = 0x5053
_NATIVE_ERROR_TYPE: Final = 0x80
_KAFKA_PRODUCE: Final = 0
_KAFKA_FETCH: Final = 1


class ServerRefused(Exception):
    """The server answered with an error, so what was measured means nothing."""


class Wire(Protocol):
    """How one protocol says produce and fetch, and how its answers are told apart."""

    answer_head_bytes: int
    """How much of an answer `answer_bytes` must see; every answer has as many."""

    def produce(self, topic: str, partition: int, batch: bytes, request_id: int) -> bytes: ...

    def fetch(
        self, topic: str, partition: int, offset: int, bytes_max: int, request_id: int
    ) -> bytes: ...

    def answer_bytes(self, buffer: bytearray, position: int) -> int:
        """The whole length of the answer that starts here; ServerRefused if it is an error."""


class NativeWire:
    """Penstock's frames (docs/formats/frame.md)."""

    answer_head_bytes = 16

    def __init__(self, acks: int = 1) -> None:
        """acks: Kafka's number, so -1 for all."""
        self._acks = acks

    def produce(self, topic: str, partition: int, batch: bytes, request_id: int) -> bytes:
        envelope = messages.ProduceRequest(topic=topic, partition=partition, acks=self._acks)
        return self.call(messages.CALL_PRODUCE, request_id, envelope.SerializeToString(), batch)

    def fetch(
        self, topic: str, partition: int, offset: int, bytes_max: int, request_id: int
    ) -> bytes:
        envelope = messages.FetchRequest(
            topic=topic, partition=partition, offset=offset, max_bytes=bytes_max, min_bytes=1
        )
        return self.call(messages.CALL_FETCH, request_id, envelope.SerializeToString())

    def create_topic(self, topic: str, partitions: int, durability: str) -> bytes:
        envelope = messages.CreateTopicRequest(
            name=topic, partitions=partitions, config={"durability": durability}
        )
        return self.call(messages.CALL_CREATE_TOPIC, 1, envelope.SerializeToString())

    def delete_topic(self, topic: str) -> bytes:
        envelope = messages.DeleteTopicRequest(name=topic)
        return self.call(messages.CALL_DELETE_TOPIC, 1, envelope.SerializeToString())

    def call(self, call: int, request_id: int, envelope: bytes, payload: bytes = b"") -> bytes:
        body_bytes = 4 + len(envelope) + len(payload)
        head = _NATIVE_HEADER.pack(_NATIVE_MAGIC, 1, call, request_id, body_bytes)
        return b"".join((head, len(envelope).to_bytes(4, "big"), envelope, payload))

    def answer_bytes(self, buffer: bytearray, position: int) -> int:
        magic, _, kind, _, body_bytes = _NATIVE_HEADER.unpack_from(buffer, position)
        if magic != _NATIVE_MAGIC or kind == _NATIVE_ERROR_TYPE:
            error = bytes(buffer[position + 16 : position + 12 + body_bytes])
            raise ServerRefused(f"The broker answered with an error: {error!r}.")
        return 12 + int(body_bytes)


class KafkaWire:
    """Kafka's Produce v7 and Fetch v4 for one topic: its answers repeat the topic's name, so the
    place of the error code depends on it and on the request made last: one kind at a time."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        # Produce: length, correlation id, topics, name, partitions, partition; then the code.
        # Fetch has the throttle time before the topics.
        self._produce_code = struct.Struct(f">ii4x2x{len(topic)}x4x4xh")
        self._fetch_code = struct.Struct(f">ii4x4x2x{len(topic)}x4x4xh")
        self._code = self._produce_code
        self.answer_head_bytes = self._fetch_code.size

    def produce(self, topic: str, partition: int, batch: bytes, request_id: int) -> bytes:
        self._code = self._produce_code
        body = struct.pack(">hhi", -1, 1, 10_000)  # no transaction, acks=1, timeout
        body += self._one_partition(topic, partition) + struct.pack(">i", len(batch)) + batch
        return self._request(_KAFKA_PRODUCE, 7, request_id, body)

    def fetch(
        self, topic: str, partition: int, offset: int, bytes_max: int, request_id: int
    ) -> bytes:
        self._code = self._fetch_code
        body = struct.pack(">iiiib", -1, 500, 1, bytes_max, 0)
        body += self._one_partition(topic, partition) + struct.pack(">qi", offset, bytes_max)
        return self._request(_KAFKA_FETCH, 4, request_id, body)

    def answer_bytes(self, buffer: bytearray, position: int) -> int:
        length, _, code = self._code.unpack_from(buffer, position)
        if code:
            raise ServerRefused(f"The server answered with Kafka's error code {code}.")
        return 4 + int(length)

    def _one_partition(self, topic: str, partition: int) -> bytes:
        assert topic == self._topic, f"made for {self._topic}, asked for {topic}"
        name = topic.encode()
        return struct.pack(f">ih{len(name)}sii", 1, len(name), name, 1, partition)

    def _request(self, key: int, version: int, request_id: int, body: bytes) -> bytes:
        head = struct.pack(">hhih5s", key, version, request_id, 5, b"bench")
        return struct.pack(">i", len(head) + len(body)) + head + body


def record_batch(value_bytes: int, record_count: int) -> bytes:
    """A batch of equal records, without keys, headers or compression."""
    value = bytes(range(256)) * (value_bytes // 256) + bytes(value_bytes % 256)
    records = bytearray()
    for index in range(record_count):
        # attributes, timestamp delta 0, offset delta, null key, value, no headers
        body = b"\0\0" + _varint(index) + _varint(-1) + _varint(value_bytes) + value + b"\0"
        records += _varint(len(body)) + body
    checked = _AFTER_CRC.pack(
        0, record_count - 1, _BASE_TIMESTAMP_MS, _BASE_TIMESTAMP_MS, -1, -1, -1, record_count
    )
    checked += bytes(records)
    length = HEADER_BYTES - 12 + len(records)
    return _BEFORE_CRC.pack(0, length, -1, 2, crc32c.crc32c(checked)) + checked


def _varint(number: int) -> bytes:
    """Zigzag, as in Kafka's records."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
