"""Topics for tests of the inspection: clean ones of any shape, and faults planted in them.

A topic is a list of batches in the order of their appends. `assign_offsets` gives them places;
`write_folder` makes real record batches of them, in the files of a data folder, where a fault can
be put that no honest broker would take.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.model.ids import TopicPartition
from penstock.records import BatchBuilder, Codec, control_batch, murmur2
from penstock.records.header import stamp, stamp_append_time

START_MS = 1_700_000_000_000
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    created_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(slots=True, kw_only=True)
class Batch:
    """One append. `producer`: id, epoch, first sequence; -1 for none of them."""

    partition: int
    records: list[Record]
    producer: tuple[int, int, int] = (-1, -1, -1)
    codec: Codec = Codec.NONE
    appended_ms: int = 0
    offset: int = -1
    fault: str | None = None
    is_lost: bool = False
    """It has offsets, and is not there."""
    is_control: bool = False
    """It has an offset, and is shown to nobody."""

    @property
    def offsets(self) -> range:
        return range(self.offset, self.offset + len(self.records))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a generated topic looks like."""

    seed: int
    partitions: int = 1
    producers: tuple[bool, ...] = (True,)
    """For each producer whether it is idempotent."""
    keys: int = 20
    """0: no message has a key."""
    unkeyed_share: float = 0.0
    batches: int = 40
    batch_records_max: int = 8
    values: str = "unique"
    """`unique`, `few` (equal values at different times), `empty` or `null`."""
    headers: bool = False
    codecs: tuple[Codec, ...] = (Codec.NONE,)
    append_time: bool = False
    marks: int = 0
    """Places where control records are, one to three side by side."""


@dataclass(slots=True, kw_only=True)
class Topic:
    """A generated topic: its batches, and what goes on growing while faults are planted."""

    shape: Shape
    random: random.Random
    batches: list[Batch] = field(default_factory=list)
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    clock_ms: int = START_MS
    serial: int = 0
    contents: dict[tuple[bytes | None, bytes, int], int] = field(default_factory=dict)

    def assign_offsets(self) -> None:
        ends: dict[int, int] = {}
        for batch in self.batches:
            batch.offset = ends.get(batch.partition, 0)
            ends[batch.partition] = batch.offset + len(batch.records)

    def of(self, fault: str) -> list[Batch]:
        return [batch for batch in self.batches if batch.fault == fault]

    def places(self, fault: str) -> set[tuple[int, int]]:
        """Partition and offset of every message with this fault."""
        return {(batch.partition, offset) for batch in self.of(fault) for offset in batch.offsets}

    def next_sequence(self, producer_id: int, partition: int, count: int) -> int:
        first = self.sequences.get((producer_id, partition), 0)
        self.sequences[producer_id, partition] = first + count
        return first

    def record(self, created_ms: int, key: bytes | None) -> Record:
        self.serial += 1
        match self.shape.values:
            case "few":
                value: bytes | None = self._few(created_ms, key)
            case "empty":
                value = b""
            case "null":
                value = None
            case _:
                value = b'{"serial": %d}' % self.serial
        headers: Headers = (("trace", b"%d" % self.serial),) if self.shape.headers else ()
        return Record(created_ms=created_ms, key=key, value=value, headers=headers)

    def _few(self, created_ms: int, key: bytes | None) -> bytes:
        """One of three values, but not the same of a key in the same millisecond in two batches:
        nobody could tell that from a copy."""
        value = b"state-%d" % (self.serial % 3)
        batch = self.contents.setdefault((key, value, created_ms), len(self.batches))
        return value if batch == len(self.batches) else b"state %d" % self.serial


def clean_topic(shape: Shape) -> Topic:
    """A topic with nothing wrong."""
    topic = Topic(shape=shape, random=random.Random(shape.seed))
    for _ in range(shape.batches):
        topic.batches.append(_clean_batch(topic))
    return topic


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def _clean_batch(topic: Topic) -> Batch:
    shape, rng = topic.shape, topic.random
    topic.clock_ms += rng.randint(1, 60)
    producer = rng.randrange(len(shape.producers))
    keys = _keys_of_batch(topic)
    partition = partition_of(keys[0], shape.partitions) if keys else rng.randrange(shape.partitions)
    count = rng.randint(1, shape.batch_records_max)
    # A producer stamps a message when it is handed over, and sends the batch a moment later.
    times = sorted(topic.clock_ms - rng.randint(0, 300) for _ in range(count))
    records = [topic.record(at, rng.choice(keys) if keys else None) for at in times]
    return Batch(
        partition=partition,
        records=records,
        producer=_numbered(topic, producer, partition, count),
        codec=rng.choice(shape.codecs),
        appended_ms=topic.clock_ms + rng.randint(0, 5),
    )


def _keys_of_batch(topic: Topic) -> list[bytes]:
    """The keys that share a partition with one drawn from all; none for a batch without keys."""
    shape, rng = topic.shape, topic.random
    if not shape.keys or rng.random() < shape.unkeyed_share:
        return []
    names = [b"key-%d" % number for number in range(shape.keys)]
    home = partition_of(rng.choice(names), shape.partitions)
    return [name for name in names if partition_of(name, shape.partitions) == home]


def _numbered(topic: Topic, producer: int, partition: int, count: int) -> tuple[int, int, int]:
    if not topic.shape.producers[producer]:
        return (-1, -1, -1)
    producer_id = 100 + producer
    return (producer_id, 0, topic.next_sequence(producer_id, partition, count))


# --- faults ------------------------------------------------------------------------------------


def plant_repeated_batch(topic: Topic) -> None:
    """A retry that the broker should have refused: same producer, epoch and sequence."""
    index = _pick(topic, lambda batch: batch.producer[0] >= 0 and batch.fault is None)
    copy = replace(topic.batches[index], fault="repeated")
    topic.batches[index].fault = "original"
    topic.batches.insert(_later(topic, index, 3), copy)


def plant_copied_batch(topic: Topic) -> None:
    """A batch of a producer without idempotence, sent again after a lost answer."""
    rng = topic.random
    partition = rng.randrange(topic.shape.partitions)
    topic.clock_ms += 10
    records = [
        Record(
            created_ms=topic.clock_ms + number,
            key=b"paid-%d" % number if topic.shape.keys else None,
            value=b"payment %d of %d" % (number, topic.clock_ms),
        )
        for number in range(3)
    ]
    first = Batch(
        partition=partition, records=records, appended_ms=topic.clock_ms, fault="original"
    )
    index = rng.randint(1, len(topic.batches))
    topic.batches.insert(index, first)
    topic.batches.insert(_later(topic, index, 3), replace(first, fault="copied"))
    _date(topic, index, first)


def plant_hole(topic: Topic) -> None:
    """A batch that is gone, from the middle of its partition."""
    index = _pick(topic, lambda batch: len(batch.records) > 1 and batch.fault is None, middle=True)
    topic.batches[index].fault = "hole"
    topic.batches[index].is_lost = True


def plant_swapped_batches(topic: Topic) -> None:
    """Two batches of one producer in the wrong order."""
    batches = topic.batches
    for index in topic.random.sample(range(len(batches)), len(batches)):
        first = batches[index]
        later = next(
            (at for at in range(index + 1, len(batches)) if _follows(batches[at], first)), 0
        )
        if first.producer[0] >= 0 and later and first.fault is batches[later].fault is None:
            batches[index], batches[later] = batches[later], first
            first.fault = "swapped"
            batches[index].fault = "original"  # without it nothing would be swapped
            return
    raise AssertionError("no two batches of one producer")


def _follows(batch: Batch, other: Batch) -> bool:
    return (batch.producer[:2], batch.partition) == (other.producer[:2], other.partition)


def plant_old_message(topic: Topic) -> None:
    """Of one key, a message that was made 5 s before the one in front of it."""
    key = b"key-late"
    partition = partition_of(key, topic.shape.partitions)
    index = topic.random.randint(len(topic.batches) // 2, len(topic.batches))
    at_ms = topic.batches[index - 1].appended_ms
    new, old = (
        Batch(
            partition=partition,
            records=[topic.record(created_ms, key)],
            appended_ms=at_ms,
            fault=fault,
        )
        for created_ms, fault in ((at_ms, None), (at_ms - 5_000, "old"))
    )
    topic.batches[index:index] = [new, old]


def plant_hot_key(topic: Topic) -> None:
    """Twice as many messages of one key as there are of all others."""
    key = b"hot"
    partition = partition_of(key, topic.shape.partitions)
    total = sum(len(batch.records) for batch in topic.batches)
    wanted = max(200, 2 * total)
    indexes = sorted(topic.random.randrange(1, len(topic.batches)) for _ in range(8))
    for number, index in enumerate(indexes):
        at_ms = topic.batches[index + number - 1].appended_ms
        records = [topic.record(at_ms, key) for _ in range(wanted // 8)]
        batch = Batch(partition=partition, records=records, appended_ms=at_ms, fault="hot")
        topic.batches.insert(index + number, batch)


def plant_slow_producer(topic: Topic) -> None:
    """A producer whose messages arrive half a minute late."""
    total = sum(len(batch.records) for batch in topic.batches)
    count = max(12, total // 8) // 4
    for _ in range(4):
        # Not at the beginning: what is late shows beside what is in time, in the same partition.
        index = topic.random.randint(len(topic.batches) // 2, len(topic.batches))
        at_ms = topic.batches[index - 1].appended_ms
        partition = topic.batches[index - 1].partition
        records = [topic.record(at_ms - 30_000 + number, None) for number in range(count)]
        producer = (900, 0, -1)
        batch = Batch(
            partition=partition, records=records, producer=producer, appended_ms=at_ms, fault="slow"
        )
        topic.batches.insert(index, batch)
    for batch in topic.batches:  # numbered in the order of the log
        if batch.fault == "slow":
            first = topic.next_sequence(900, batch.partition, count)
            batch.producer = (900, 0, first)


def plant_control_records(topic: Topic) -> None:
    """No fault: markers of transactions and of new leaders, anywhere in the log."""
    rng = topic.random
    for _ in range(topic.shape.marks):
        index = rng.randint(0, len(topic.batches))
        partition = rng.randrange(topic.shape.partitions)
        topic.batches[index:index] = [
            Batch(
                partition=partition,
                records=[Record(created_ms=topic.clock_ms, key=b"", value=b"")],
                appended_ms=topic.clock_ms,
                is_control=True,
            )
            for _ in range(rng.randint(1, 3))
        ]


def _date(topic: Topic, index: int, batch: Batch) -> None:
    """Give an inserted batch and its copies the time of the place where they are."""
    at_ms = topic.batches[index - 1].appended_ms
    shift_ms = at_ms - batch.records[-1].created_ms
    moved = [replace(record, created_ms=record.created_ms + shift_ms) for record in batch.records]
    given = batch.records
    for each in topic.batches:
        if each.records is given:
            each.records = moved
            each.appended_ms = at_ms


def _pick(topic: Topic, is_fit: object, *, middle: bool = False) -> int:
    assert callable(is_fit)
    indexes = list(range(len(topic.batches)))
    topic.random.shuffle(indexes)
    for index in indexes:
        batch = topic.batches[index]
        same = [at for at, each in enumerate(topic.batches) if each.partition == batch.partition]
        if is_fit(batch) and (not middle or same[0] < index < same[-1]):
            return index
    raise AssertionError("no batch is fit for this fault")


def _later(topic: Topic, index: int, steps: int) -> int:
    return min(len(topic.batches), index + topic.random.randint(1, steps))


# --- as a data folder, and as rows -------------------------------------------------------------


def encode(batch: Batch, *, append_time: bool) -> bytearray:
    if batch.is_control:
        return control_batch(
            2, b"", timestamp_ms=batch.records[0].created_ms, base_offset=batch.offset
        )
    builder = BatchBuilder(1 << 24, batch.codec)
    for record in batch.records:
        builder.append(record.created_ms, record.key, record.value, record.headers)
    producer_id, producer_epoch, base_sequence = batch.producer
    data = builder.build(
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )
    view = memoryview(data)
    if append_time:
        stamp_append_time(view, batch.appended_ms)
    stamp(view, batch.offset, 0)
    return data


def write_folder(topic: Topic, folder: Path, name: str) -> None:
    """The topic in the files of a data folder; a hole lies between two segments."""
    topic.assign_offsets()
    for place, batches in _segments(topic, name):
        partition = folder / "topics" / name / str(place.partition)
        partition.mkdir(parents=True, exist_ok=True)
        first, last = batches[0].offsets[0], batches[-1].offsets[-1]
        data = b"".join(encode(batch, append_time=topic.shape.append_time) for batch in batches)
        (partition / f"{first:020}-{last:020}.log").write_bytes(data)


def _segments(topic: Topic, name: str) -> Iterator[tuple[TopicPartition, list[Batch]]]:
    for number in range(topic.shape.partitions):
        run: list[Batch] = []
        for batch in (each for each in topic.batches if each.partition == number):
            if not batch.is_lost:
                run.append(batch)
            elif run:
                yield TopicPartition(name, number), run
                run = []
        if run:
            yield TopicPartition(name, number), run


def as_rows(topic: Topic, name: str) -> list[tuple[object, ...]]:
    """What the source gives for the topic with `includeBatch` and `includeHeaders`."""
    from datetime import UTC, datetime

    topic.assign_offsets()
    rows: list[tuple[object, ...]] = []
    for batch in topic.batches:
        if batch.is_lost or batch.is_control:
            continue
        stored = len(encode(batch, append_time=topic.shape.append_time))
        producer_id, epoch, sequence = batch.producer
        for index, record in enumerate(batch.records):
            created = datetime.fromtimestamp(record.created_ms / 1000, UTC)
            appended = datetime.fromtimestamp(batch.appended_ms / 1000, UTC)
            rows.append(
                (
                    record.key,
                    record.value,
                    name,
                    batch.partition,
                    batch.offset + index,
                    appended if topic.shape.append_time else created,
                    int(topic.shape.append_time),
                    [{"key": key, "value": value} for key, value in record.headers],
                    batch.offset,
                    len(batch.records),
                    stored,
                    batch.codec.name.lower(),
                    producer_id,
                    epoch,
                    sequence + index if producer_id >= 0 else -1,
                    appended if topic.shape.append_time else None,
                    created,
                )
            )
    return rows
