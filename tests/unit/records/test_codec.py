"""records.codec: messages out of batches, ours and others'."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.errors import ClientClosed
from penstock.model.message_headers import EXPIRES_MS
from penstock.records import (
    COMPILED,
    Codec,
    build_batch,
    control_batch,
    decode_messages,
)
from penstock.records.header import (
    HEADER_BYTES,
    read_header,
    stamp_append_time,
    write_header,
)
from tests.kit.records.implementations import IMPLEMENTATIONS, Implementation
from tests.kit.records.oracles import ORACLE_IDS, ORACLES, Build
from tests.unit.records.test_builder import RECORDS

Decode = Any


def rows(messages: list[Any]) -> list[tuple[object, ...]]:
    return [
        (message.offset, message.timestamp_ms, message.key, message.value, message.headers)
        for message in messages
    ]


def raw_batch(records: bytes, **changes: int) -> bytes:
    """A batch with a right checksum around these bytes, said to be one record."""
    batch = bytearray(HEADER_BYTES) + records
    header = read_header(build_batch([(None, None)]))
    write_header(batch, header._replace(**changes))
    return bytes(batch)


def raw_record(body: bytes) -> bytes:
    assert len(body) < 64
    return bytes([len(body) * 2]) + body


def test_the_compiled_codec_is_what_users_get_where_it_exists() -> None:
    expected = IMPLEMENTATIONS[-1].reading.decode_messages
    assert decode_messages is expected
    assert (IMPLEMENTATIONS[-1].name == "compiled") == COMPILED


@pytest.mark.parametrize(("name", "build", "read", "codec"), ORACLES, ids=ORACLE_IDS)
def test_reads_what_other_clients_write(
    name: str, build: Build, read: object, codec: int, implementation: Implementation
) -> None:
    batch = build(RECORDS, codec)
    messages = implementation.reading.decode_messages(batch, "orders", 3, 0)
    assert rows(messages) == [(index, *record) for index, record in enumerate(RECORDS)]
    assert {(message.topic, message.partition) for message in messages} == {("orders", 3)}


def test_batches_end_to_end_from_an_offset(implementation: Implementation) -> None:
    """R-STO-2: a read starts exactly at the asked offset."""
    payload = b"".join(
        bytes(build_batch([(None, b"%d" % (start + i)) for i in range(4)], base_offset=start))
        for start in (100, 104, 108)
    )
    for view in (payload, bytearray(payload), memoryview(payload)):
        for start_offset in range(98, 114):
            messages = implementation.reading.decode_messages(view, "t", 0, start_offset)
            offsets = [message.offset for message in messages]
            assert offsets == list(range(max(start_offset, 100), 112))
            assert [message.value for message in messages] == [b"%d" % o for o in offsets]


def test_control_batches_are_skipped(implementation: Implementation) -> None:
    payload = (
        control_batch(2, b"leader", timestamp_ms=1, base_offset=0)
        + build_batch([(None, b"data")], base_offset=1)
        + control_batch(1, b"commit", timestamp_ms=1, base_offset=2)
    )
    assert [m.offset for m in implementation.reading.decode_messages(payload, "t", 0, 0)] == [1]
    assert implementation.column_reading.decode_columns(payload, 0).record_count == 1


def test_append_time(implementation: Implementation) -> None:
    batch = build_batch([(None, b"a"), (None, b"b")], timestamp_ms=1000)
    assert implementation.reading.decode_messages(batch, "t", 0, 0)[0].timestamp_type == "create"
    stamp_append_time(memoryview(batch), 5000)
    messages = implementation.reading.decode_messages(batch, "t", 0, 0)
    assert [(m.timestamp_ms, m.timestamp_type) for m in messages] == [(5000, "append")] * 2
    assert [*implementation.column_reading.decode_columns(batch, 0).timestamps_ms] == [5000, 5000]


def test_a_compacted_batch_has_gaps(implementation: Implementation) -> None:
    """Records 1 and 4 of 0 to 9 are left; or none at all."""
    records = raw_record(b"\0\0\x02\x01\x01\0") + raw_record(b"\0\0\x08\x01\x01\0")
    batch = raw_batch(records, record_count=2, last_offset_delta=9, base_offset=20)
    assert [m.offset for m in implementation.reading.decode_messages(batch, "t", 0, 0)] == [21, 24]
    emptied = raw_batch(b"", record_count=0, last_offset_delta=9)
    assert implementation.reading.decode_messages(emptied, "t", 0, 0) == []
    assert implementation.column_reading.decode_columns(emptied, 0).record_count == 0


def test_nothing_decodes_to_nothing(implementation: Implementation) -> None:
    assert implementation.reading.decode_messages(b"", "t", 0, 0) == []


class Source:
    """Takes acknowledgements."""

    def acknowledge(self, message: object) -> object:
        return ("acknowledged", message)


def test_a_message(implementation: Implementation) -> None:
    batch = build_batch([(b"k", b"v")], timestamp_ms=9, base_offset=4)
    source = Source()
    (message,) = implementation.reading.decode_messages(batch, "orders", 2, 0, source)
    assert message.source is source
    assert message.ack() == ("acknowledged", message)
    assert repr(message) == (
        "Message('orders', 2, offset=4, key=b'k', value=b'v', timestamp_ms=9, headers=())"
    )
    for name in ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers", "new"):
        with pytest.raises(AttributeError):
            setattr(message, name, None)


def test_a_message_does_not_keep_its_source(implementation: Implementation) -> None:
    """Else a consumer that holds messages and is dropped would never be collected."""
    source = Source()
    batch = build_batch([(b"k", b"v")])
    (message,) = implementation.reading.decode_messages(batch, "orders", 2, 0, source)
    del source
    assert message.source is None
    with pytest.raises(ClientClosed, match="is gone"):
        message.ack()
    (message,) = implementation.reading.decode_messages(batch, "orders", 2, 0)
    with pytest.raises(ClientClosed, match="is gone"):
        message.ack()


# --- time to live ------------------------------------------------------------------------------

NOW_MS = 1_700_000_000_000


def expiring(at_ms: object) -> list[tuple[str, bytes | None]]:
    return [("x", b"y"), (EXPIRES_MS, str(at_ms).encode())]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_messages_whose_time_is_over_are_left_out(
    codec: Codec, implementation: Implementation
) -> None:
    builder = implementation.writing.BatchBuilder(1 << 20, codec)
    for number, headers in enumerate(
        [
            None,
            expiring(NOW_MS),
            expiring(NOW_MS + 1),
            [("penstock-expired-ms", b"1")],  # a name as long, and another
            expiring("soon"),  # what cannot be read does not count
            [*expiring(NOW_MS - 1), *expiring(NOW_MS + 1)],  # the last counts
            [*expiring(NOW_MS + 1), *expiring(0)],
        ]
    ):
        builder.append(0, None, b"%d" % number * 100, headers)
    decode = implementation.reading.decode_unexpired
    batch = builder.build()
    messages, lifetimes = decode(batch, "orders", 0, 0, None, NOW_MS)
    assert [message.offset for message in messages] == [0, 2, 3, 4, 5]
    assert (lifetimes.expired_count, lifetimes.is_any_limited) == (2, True)
    # What was handed out before is not counted once more.
    messages, lifetimes = decode(batch, "orders", 0, 6, None, NOW_MS)
    assert messages == []
    assert (lifetimes.expired_count, lifetimes.is_any_limited) == (1, False)
    everything = implementation.reading.decode_messages(batch, "orders", 0, 0)
    assert len(everything) == 7
