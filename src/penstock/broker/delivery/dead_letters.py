"""Messages that nobody could deal with, into the dead-letter topic of their group (R-DEL-9).

Not the decision that one is dead, and not what is done with it later. The invariants: when `bury`
returns, the dead letters are committed; a message that is buried twice, because the broker that did
it was lost in between, is one dead letter, since the topic keeps one of each key.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Final

from penstock.broker.carrier.forwarding import Forwarding
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.unopened import Unopened
from penstock.broker.topics.topics import Topics
from penstock.broker.turns.fair_turns import FairTurns, Pieces, Unanswered
from penstock.coordination.delivery.shared_settings import DeadMessage
from penstock.model.dead_letter import (
    REDRIVES_MAX,
    SourceMessage,
    dead_letter_topic,
    write_dead_letter,
)
from penstock.model.errors import BatchError, Busy, OffsetOutOfRange, PenstockError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.model.limits import (
    BATCH_BYTES_MAX,
    KIB,
    MIB,
    OPENED_AT_ONCE_BYTES_MAX,
    OPENED_BATCH_BYTES_MAX,
    RECORD_HEADERS_MAX,
)
from penstock.model.message_headers import REDRIVES
from penstock.net.clock import Clock
from penstock.records import BatchBuilder, Codec, Message, decode_batch
from penstock.records.header import check_batch, read_header
from penstock.records.slicing import SliceableBatch

logger = logging.getLogger(__name__)

_SETTINGS: Final = {
    "cleanup_policy": "compact",
    # A message as large as any topic takes, with its headers and those that tell of its death.
    "batch_bytes_max": str(BATCH_BYTES_MAX),
}
# Several dead ones travel together, up to this size; a larger one alone.
_BATCH_BYTES: Final = 256 * KIB
# What each burial may hold of an opened batch, while it waits for letters to be committed.
_SOURCE_BYTES_MAX: Final = 8 * MIB


class DeadLetters:
    """One per broker."""

    def __init__(
        self, topics: Topics, forwarding: Forwarding, turns: FairTurns, clock: Clock
    ) -> None:
        self._topics = topics
        self._forwarding = forwarding
        self._turns = turns
        self._clock = clock

    async def bury(self, group: str, partition: Partition, dead: Iterable[DeadMessage]) -> None:
        """Copy them to the group's dead-letter topic. PenstockError: perhaps not all are there."""
        letters = _Letters(group, partition, dead, self._clock)
        # The turn is the burial's: whoever rejected the messages may be gone.
        buried = Unanswered()
        while (batch := await self._turns.outcome(buried, letters.next_batch())) is not None:
            await self._append(group, batch)

    async def _append(self, group: str, batch: bytes | bytearray) -> None:
        topic = dead_letter_topic(group)
        try:
            await self._write(topic, batch)
        except UnknownTopic as error:
            # Its leader has not heard of it yet, or somebody is just deleting it: it is there, or
            # made anew, at the next try. Whoever rejected a message knows no such topic.
            raise Busy(f"{topic} is being made, or deleted: try again.") from error

    async def _write(self, topic: str, batch: bytes | bytearray) -> None:
        await self._topics.keep(topic, 1, _SETTINGS)
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: PenstockError | None) -> None:
            if committed.done():
                return
            if error is None:
                committed.set_result(None)
            else:
                committed.set_exception(error)

        self._forwarding.append(TopicPartition(topic, 0), batch, done)
        await committed


class _Letters:
    """The letters of one burial, a batch of them at a time: as work in turns, since what a dead
    message is read from may be large. One source is open, a large one while letters of it are made,
    and one batch made."""

    def __init__(
        self, group: str, partition: Partition, dead: Iterable[DeadMessage], clock: Clock
    ) -> None:
        self._group = group
        self._sources = _Sources(partition)
        self._partition = partition
        self._clock = clock
        self._dead = deque(sorted(dead, key=lambda each: each.offset))

    def next_batch(self) -> Pieces[bytes | bytearray | None]:
        """None: there are no more."""
        builder = _builder()
        while self._dead:
            one = self._dead[0]
            source = yield from self._sources.find(one.offset)
            if source is not None:
                put = partial(self._put, builder, source, one)
                # To write a large one takes as long as to open it.
                index = put() if _size_of(source) <= _BATCH_BYTES else (yield put)
                if index < 0:
                    break
            else:
                logger.warning(
                    "Offset %d of %s was to become a dead letter of group %s, and is gone.",
                    one.offset,
                    self._partition.name,
                    self._group,
                )
            self._dead.popleft()
            yield None
        self._sources.let_go()
        if not builder.record_count:
            return None
        batch: bytes | bytearray = yield builder.build
        return batch

    def _put(self, builder: BatchBuilder, source: SourceMessage, one: DeadMessage) -> int:
        """Negative if the batch is full."""
        now_ms = self._clock.now_ms()
        letter = write_dead_letter(source, self._group, one.reason, one.attempts, now_ms)
        if len(letter.headers) > RECORD_HEADERS_MAX:
            # What is known of its end was too much: no compacted topic would take it.
            source = self._sources.place_alone(source.offset, source.timestamp_ms)
            letter = write_dead_letter(source, self._group, one.reason, one.attempts, now_ms)
        return builder.append(now_ms, *letter)


class _Sources:
    """Messages of a partition. The batch that was opened last is kept: thousands that die together
    are often of one."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._opened: SliceableBatch | None = None

    def find(self, offset: int) -> Pieces[SourceMessage | None]:
        """None if it is gone; of a batch that is damaged, or cannot be opened, its place alone."""
        opened = self._opened
        if opened is None or not opened.base_offset <= offset < opened.next_offset:
            self._opened = None
            try:
                batch = memoryview(self._partition.read(offset, 1).read())
            except OffsetOutOfRange:
                return None
            if not batch:
                return None
            header = read_header(batch)
            if header.is_control or not header.base_offset <= offset < header.next_offset:
                return None
            batch = batch[: header.length]
            try:
                check_batch(batch)
                opened = yield from Unopened(
                    header, batch, partial(SliceableBatch, batch)
                ).in_turn()
            except BatchError:
                return self.place_alone(offset, header.max_timestamp_ms)
            self._opened = opened
        take = partial(_message_at, opened, offset)
        message = take() if opened.size_bytes <= OPENED_AT_ONCE_BYTES_MAX else (yield take)
        return None if message is None else self._source(message)

    def let_go(self) -> None:
        """Hold no more than a little while a batch of letters is on its way."""
        if self._opened is not None and self._opened.size_bytes > _SOURCE_BYTES_MAX:
            self._opened = None

    def place_alone(self, offset: int, timestamp_ms: int) -> SourceMessage:
        """All that is known of a message that cannot be kept."""
        topic, partition = self._partition.name
        return SourceMessage(
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp_ms=timestamp_ms,
            key=None,
            value=None,
            # It has nothing to be put back, unless somebody insists.
            headers=((REDRIVES, b"%d" % REDRIVES_MAX),),
        )

    def _source(self, message: Message) -> SourceMessage:
        topic, partition = self._partition.name
        return SourceMessage(
            topic=topic,
            partition=partition,
            offset=message.offset,
            timestamp_ms=message.timestamp_ms,
            key=message.key,
            value=message.value,
            headers=message.headers,
        )


def _message_at(opened: SliceableBatch, offset: int) -> Message | None:
    piece = memoryview(opened.between(offset, offset))
    if not piece:
        return None
    return decode_batch(read_header(piece), piece, OPENED_BATCH_BYTES_MAX)[0]


def _size_of(source: SourceMessage) -> int:
    return len(source.key or b"") + len(source.value or b"")


def _builder() -> BatchBuilder:
    # Compressed: what a producer sent compressed may be larger than any batch without it.
    return BatchBuilder(_BATCH_BYTES, Codec.ZSTD)
