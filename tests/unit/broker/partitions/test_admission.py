"""Admission: what a topic's settings let in, made anew, or refuse with what to do."""

from __future__ import annotations

import pytest

from penstock.broker.partitions.admission import Admission
from penstock.model.errors import BatchError, BatchTooLarge, Busy, InvalidBatch, InvalidTimestamp
from penstock.model.limits import BATCH_BYTES_MAX, MIB, OPENED_BATCH_BYTES_MAX
from penstock.model.topic_config import INT64_MAX, TopicConfig, with_settings
from penstock.records import BatchBuilder, decode_messages
from penstock.records.compression import Codec
from penstock.records.header import check_produced
from tests.kit.broker.running import ManualClock, peak_bytes

HOUR_MS = 60 * 60 * 1000


def admission(clock: ManualClock | None = None, /, **settings: str) -> Admission:
    config = with_settings(TopicConfig(), settings)
    return Admission("orders", config, clock or ManualClock())


def made(
    *timestamps_ms: int,
    codec: Codec = Codec.NONE,
    key: bytes | None = b"k",
    value: bytes = b"value" * 100,
) -> memoryview:
    builder = BatchBuilder(1 << 24, codec=codec)
    for timestamp_ms in timestamps_ms or (1_000,):
        builder.append(timestamp_ms, key, value)
    return memoryview(bytearray(builder.build()))


def test_a_default_topic_needs_no_look_at_a_batch() -> None:
    clock = ManualClock()
    door = admission(clock)
    batch = made(clock.time_ms)
    header = check_produced(batch)
    assert door.admit(batch, header) == (batch, header)
    assert not door.looks_at_all
    assert header.max_timestamp_ms <= door.latest_ms == clock.time_ms + HOUR_MS


def test_times_too_far_ahead_are_refused() -> None:
    clock = ManualClock()
    door = admission(clock, timestamp_after_max_ms="500")
    for allowed_ms in (0, clock.time_ms, clock.time_ms + 500):
        door.admit(batch := made(allowed_ms), check_produced(batch))
    batch = made(clock.time_ms, clock.time_ms + 501)
    with pytest.raises(InvalidTimestamp, match=r"501 ms after .*timestamp_after_max_ms"):
        door.admit(batch, check_produced(batch))
    clock.time_ms += 1
    door.admit(batch, check_produced(batch))


def test_times_too_far_back_are_refused() -> None:
    clock = ManualClock()
    door = admission(clock, timestamp_before_max_ms="500")
    assert door.looks_at_all
    for allowed_ms in (-1, clock.time_ms - 500, clock.time_ms):
        door.admit(batch := made(allowed_ms), check_produced(batch))
    batch = made(clock.time_ms - 501, clock.time_ms)
    with pytest.raises(InvalidTimestamp, match=r"501 ms before .*timestamp_before_max_ms"):
        door.admit(batch, check_produced(batch))


def test_the_brokers_time_has_no_limits() -> None:
    clock = ManualClock()
    door = admission(
        clock, timestamp_type="append", timestamp_before_max_ms="0", timestamp_after_max_ms="0"
    )
    batch = made(1, 2**60)
    _, header = door.admit(batch, check_produced(batch))
    assert header.is_append_time
    assert header.max_timestamp_ms == clock.time_ms


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_needs_keys(codec: Codec, policy: str) -> None:
    door = admission(cleanup_policy=policy)
    door.admit(batch := made(1, 2, codec=codec), check_produced(batch))
    door.admit(batch := made(1, 2, codec=codec, key=b""), check_produced(batch))
    batch = made(1, 2, codec=codec, key=None)
    with pytest.raises(InvalidBatch, match=r"no key: the topic is compacted"):
        door.admit(batch, check_produced(batch))


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("timestamp_type", ["create", "append"])
def test_a_topics_compression_is_given_to_what_came_otherwise(
    codec: Codec, wanted: str, timestamp_type: str
) -> None:
    door = admission(compression_type=wanted, timestamp_type=timestamp_type)
    batch = made(1, 2, 3, codec=codec)
    before = [(message.key, message.value) for message in decode_messages(batch, "t", 0, 0)]
    admitted, header = door.admit(batch, check_produced(batch))
    assert header.codec == Codec["NONE" if wanted == "uncompressed" else wanted.upper()]
    after = decode_messages(admitted, "t", 0, 0)
    assert [(message.key, message.value) for message in after] == before
    if codec == header.codec:
        assert admitted is batch


def test_the_level_of_the_compression_can_be_chosen() -> None:
    sizes = []
    for level in ("1", "9"):
        door = admission(compression_type="gzip", compression_gzip_level=level)
        batch = made(value=b"".join(b"order %d, " % (number * 7919) for number in range(5_000)))
        sizes.append(door.admit(batch, check_produced(batch))[1].length)
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize(
    ("batch", "settings", "error", "says"),
    [
        (made(), {"batch_bytes_max": "200"}, BatchTooLarge, "batch_bytes_max"),
        (
            made(codec=Codec.ZSTD, value=bytes(10_000)),
            {"batch_bytes_max": "5000", "compression_type": "uncompressed"},
            BatchTooLarge,
            "larger than the 5000",
        ),
    ],
    ids=["as it came", "as it would be kept"],
)
def test_what_is_too_large_is_refused(
    batch: memoryview, settings: dict[str, str], error: type[BatchError], says: str
) -> None:
    with pytest.raises(error, match=says):
        admission(**settings).admit(batch, check_produced(batch))


def test_a_batch_that_expands_without_end_is_not_opened() -> None:
    bomb = made(codec=Codec.ZSTD, value=bytes(68_000_000))
    assert len(bomb) < 10_000
    for settings in ({"compression_type": "gzip"}, {"cleanup_policy": "compact"}):
        with pytest.raises(InvalidBatch, match="more than 16777216 bytes"):
            admission(**settings).admit(bomb, check_produced(bomb))


@pytest.mark.parametrize(
    ("batch_bytes_max", "opened_bytes_max"),
    [(1_000, 4 * MIB), (1 * MIB, 16 * MIB), (BATCH_BYTES_MAX, OPENED_BATCH_BYTES_MAX)],
)
def test_what_is_opened_is_bounded_by_what_a_topic_takes(
    batch_bytes_max: int, opened_bytes_max: int
) -> None:
    door = admission(cleanup_policy="compact", batch_bytes_max=str(batch_bytes_max))
    assert door.opening.bytes_max == opened_bytes_max


def test_what_was_opened_for_other_settings_is_not_taken() -> None:
    """It waited, or its topic was looked for elsewhere: it is sent again, and opened anew."""
    batch = made(1)
    before = admission(cleanup_policy="delete").opening
    door = admission(cleanup_policy="compact")
    with pytest.raises(Busy, match="changed"):
        door.admit(batch, check_produced(batch), opened_by=before)
    alike = admission(cleanup_policy="compact", retention_ms="5000")
    assert alike.admit(batch, check_produced(batch), opened_by=door.opening)[0] is batch


def test_a_look_for_keys_makes_nothing_of_the_records() -> None:
    """Records with millions of headers fit in a few kB: they are not made, on the loop least."""
    builder = BatchBuilder(1 << 24, codec=Codec.ZSTD)
    for _ in range(200):
        builder.append(1_000, b"k", None, [("", b"")] * 1_000)
    bomb = memoryview(builder.build())
    assert len(bomb) < 1_000
    door = admission(cleanup_policy="compact")
    assert peak_bytes(lambda: door.admit(bomb, check_produced(bomb))) < 5_000_000


@pytest.mark.parametrize(
    ("settings", "looks_at_all"),
    [
        ({}, False),
        ({"cleanup_policy": "none"}, False),
        ({"timestamp_before_max_ms": str(INT64_MAX)}, False),
        ({"timestamp_before_max_ms": "1"}, True),
        ({"timestamp_type": "append"}, True),
        ({"cleanup_policy": "compact"}, True),
        ({"compression_type": "uncompressed"}, True),
    ],
)
def test_only_settings_that_need_it_are_looked_at(
    settings: dict[str, str], looks_at_all: bool
) -> None:
    assert admission(**settings).looks_at_all is looks_at_all
