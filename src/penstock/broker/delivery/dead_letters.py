"""Messages that nobody could deal with, into the dead-letter topic of their group (R-DEL-9).

Not the decision that one is dead, and not what is done with it later. The invariants: when `bury`
returns, the dead letters are committed; a message that is buried twice, because the broker that did
it was lost in between, is one dead letter, since the topic keeps one of each key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from penstock.broker.forwarding import Forwarding
from penstock.broker.partition import Partition
from penstock.broker.topics import Topics
from penstock.coordination.delivery.share_settings import DeadMessage
from penstock.model.dead_letter import (
    REDRIVES_MAX,
    SourceMessage,
    dead_letter_topic,
    write_dead_letter,
)
from penstock.model.errors import Busy, InvalidBatch, OffsetOutOfRange, PenstockError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.model.limits import BATCH_BYTES_MAX, KIB, OPENED_BATCH_BYTES_MAX
from penstock.model.message_headers import REDRIVES
from penstock.net.clock import Clock
from penstock.records import BatchBuilder, Codec, Message, decode_batch
from penstock.records.header import check_batch

logger = logging.getLogger(__name__)

_SETTINGS: Final = {
    "cleanup_policy": "compact",
    # A message as large as any topic takes, with its headers and those that tell of its death.
    "batch_bytes_max": str(BATCH_BYTES_MAX),
}
# Several dead ones travel together, up to this size; a larger one alone.
_BATCH_BYTES: Final = 256 * KIB


class DeadLetters:
    """One per broker."""

    def __init__(self, topics: Topics, forwarding: Forwarding, clock: Clock) -> None:
        self._topics = topics
        self._forwarding = forwarding
        self._clock = clock

    async def bury(self, group: str, partition: Partition, dead: Iterable[DeadMessage]) -> None:
        """Copy them to the group's dead-letter topic. PenstockError: perhaps not all are there."""
        builder, sources = _builder(), _Sources(partition)
        for one in sorted(dead, key=lambda each: each.offset):
            source = sources.find(one.offset)
            if source is None:
                logger.warning(
                    "Offset %d of %s was to become a dead letter of group %s, and is gone.",
                    one.offset,
                    partition.name,
                    group,
                )
                continue
            now_ms = self._clock.now_ms()
            letter = write_dead_letter(source, group, one.reason, one.attempts, now_ms)
            if builder.append(now_ms, *letter) < 0:
                await self._append(group, builder.build())
                builder = _builder()
                builder.append(now_ms, *letter)
        if builder.record_count:
            await self._append(group, builder.build())

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


class _Sources:
    """Messages of a partition. The batch that was opened last is kept: thousands that die together
    are often of one."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._opened: dict[int, Message] = {}

    def find(self, offset: int) -> SourceMessage | None:
        """None if it is gone; of a batch that cannot be opened, its place alone."""
        topic, partition = self._partition.name
        if offset not in self._opened:
            self._opened = {}
            try:
                batch = memoryview(self._partition.read(offset, 1).read())
            except OffsetOutOfRange:
                return None
            if not batch:
                return None
            header = check_batch(batch)
            try:
                messages = decode_batch(header, batch[: header.length], OPENED_BATCH_BYTES_MAX)
            except InvalidBatch:
                return SourceMessage(
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    timestamp_ms=header.max_timestamp_ms,
                    key=None,
                    value=None,
                    # It has nothing to be put back, unless somebody insists.
                    headers=((REDRIVES, b"%d" % REDRIVES_MAX),),
                )
            if not header.is_control:
                self._opened = {each.offset: each for each in messages if each.offset >= offset}
        message = self._opened.get(offset)
        if message is None:
            return None
        return SourceMessage(
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp_ms=message.timestamp_ms,
            key=message.key,
            value=message.value,
            headers=message.headers,
        )


def _builder() -> BatchBuilder:
    # Compressed: what a producer sent compressed may be larger than any batch without it.
    return BatchBuilder(_BATCH_BYTES, Codec.ZSTD)
