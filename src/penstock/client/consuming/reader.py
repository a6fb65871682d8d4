"""From fetched bytes to what the reader gets: lists of messages, or columns.

Decodes one chunk at a time, when it is asked for, and remembers where the reader stopped within
it. The invariant: a feed's position is the offset after the last message handed out, so what was
decoded and not taken is never skipped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import length_hint
from time import time_ns
from typing import Any

from penstock.client.concurrency.turn import TURN
from penstock.client.consuming.batch_feed import Chunk
from penstock.client.consuming.damage import damaged, one_by_one
from penstock.client.consuming.fetcher import Fetcher
from penstock.client.consuming.progress import Progress
from penstock.model.errors import BatchError
from penstock.records import Columns, Message, decode_columns, decode_unexpired, expiry_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumns:
    """Messages of one partition, as columns."""

    topic: str
    partition: int
    columns: Columns


class Hand:
    """Decoded messages of one chunk on their way to the reader, who may stop in the middle."""

    __slots__ = ("_messages", "chunk")

    def __init__(self, chunk: Chunk, messages: list[Message]) -> None:
        self.chunk = chunk
        # A list's iterator keeps its place while loops over it come and go.
        self._messages = iter(messages)

    def __iter__(self) -> Iterator[Message]:
        """What is left, one by one, until the reader moves or pauses the partition."""
        feed, generation = self.chunk.feed, self.chunk.generation
        supply = feed.supply
        for message in self._messages:
            if supply.generation != generation:
                return
            feed.position = message.offset + 1
            yield message

    @property
    def is_spent(self) -> bool:
        """Nothing is left, or the reader has moved or paused the partition since."""
        return self.chunk.is_stale or length_hint(self._messages) == 0

    def take(self, max_messages: int | None = None) -> list[Message]:
        """The next messages of the hand; they count as handed out."""
        feed = self.chunk.feed
        if max_messages is None or max_messages >= length_hint(self._messages):
            feed.position = self.chunk.next_offset
            return list(self._messages)
        messages = [next(self._messages) for _ in range(max_messages)]
        feed.position = messages[-1].offset + 1
        return messages


class ExpiringHand(Hand):
    """One with messages whose time to live may be over before the reader comes to them: a slow
    reader holds a hand for long. Such messages are left out, and acknowledged for their group."""

    __slots__ = ("_left", "_on_expired")

    def __init__(
        self, chunk: Chunk, messages: list[Message], on_expired: Callable[[Message], None]
    ) -> None:
        super().__init__(chunk, [])
        self._left = deque(messages)
        self._on_expired = on_expired

    def __iter__(self) -> Iterator[Message]:
        while self._left and not self.chunk.is_stale:
            message = self._left.popleft()
            self.chunk.feed.position = message.offset + 1
            if not self._has_expired(message):
                yield message

    @property
    def is_spent(self) -> bool:
        if self.chunk.is_stale:
            return True
        while self._left and self._has_expired(self._left[0]):
            self._left.popleft()
        return not self._left

    def take(self, max_messages: int | None = None) -> list[Message]:
        # Who takes has just seen that the hand is not spent: the first message is to be had.
        messages = [self._left.popleft()]
        while self._left and (max_messages is None or len(messages) < max_messages):
            message = self._left.popleft()
            if not self._has_expired(message):
                messages.append(message)
        feed = self.chunk.feed
        feed.position = self._left[0].offset if self._left else self.chunk.next_offset
        return messages

    def _has_expired(self, message: Message) -> bool:
        expires_ms = expiry_ms(message.headers)
        if expires_ms is None or expires_ms > _now_ms():
            return False
        self._on_expired(message)
        return True


class Reader:
    """Takes chunks from a fetcher and decodes them."""

    def __init__(
        self,
        fetcher: Fetcher,
        progress: Mapping[tuple[str, int], Progress],
        ledger: Any,
        on_skipped: Callable[[], None] | None = None,
    ) -> None:
        """ledger: whom messages tell what became of them, or a facade of it. on_skipped: told when
        a group's place has moved without a message."""
        self._on_skipped = on_skipped
        self._fetcher = fetcher
        self._progress = progress
        self._ledger = ledger
        self._hand: Hand | None = None
        # Of a chunk with a damaged batch, taken one by one: those before it come first.
        self._pieces: deque[Chunk] = deque()
        self.expired_count = 0
        """Messages whose time to live was over before they could be handed out."""
        # Several tasks may read: one waits for the next chunk, the others for what it leaves.
        self._turn = asyncio.Lock()

    async def next_hand(self) -> Hand:
        """What is left of the last hand, or the next one as soon as there is one."""
        async with self._turn:
            if self._hand is not None and not self._hand.is_spent:
                return self._hand
            self._hand = None
            while True:
                chunk = await self._next_chunk()
                hand = self._decode(chunk)
                if hand is not None:
                    self._hand = hand
                    return hand

    async def next_columns(self, *, include_headers: bool) -> list[PartitionColumns]:
        """Everything that was fetched, as soon as there is something: one entry per chunk."""
        async with self._turn:
            self._put_back()
            while True:
                chunk = await self._next_chunk()
                if fetched := self._take_columns(chunk, include_headers):
                    return fetched

    def _take_columns(self, chunk: Chunk | None, include_headers: bool) -> list[PartitionColumns]:
        """This chunk and all that were fetched after it, those without a message left out."""
        fetched: list[PartitionColumns] = []
        while chunk is not None:
            try:
                columns = self._decode_columns(chunk, include_headers)
            except BatchError:
                if not fetched:
                    raise
                break  # what came before it first; it fails again next time
            if columns.columns.record_count:
                fetched.append(columns)
            chunk = self._next_piece() or self._fetcher.take()
        return fetched

    async def _next_chunk(self) -> Chunk:
        # Before the chunk is taken: who is cancelled here has lost nothing.
        await TURN
        if (piece := self._next_piece()) is not None:
            return piece
        while True:
            self._fetcher.raise_failure()
            if (chunk := self._fetcher.take()) is not None:
                return chunk
            await self._fetcher.wait()

    def _next_piece(self) -> Chunk | None:
        while self._pieces:
            piece = self._pieces.popleft()
            if not piece.is_stale:
                return piece
        return None

    def _part(self, chunk: Chunk, error: BatchError) -> Chunk:
        """The first batch of a chunk in which one cannot be read; the others are the next to be
        taken. Raises DamagedBatch if it has no more than one: it stays where it is until the reader
        seeks past it."""
        feed = chunk.feed
        first, *others = [
            chunk._replace(payload=payload, start_offset=start_offset, next_offset=next_offset)
            for payload, start_offset, next_offset in one_by_one(
                chunk.payload, chunk.start_offset, chunk.next_offset
            )
        ]
        if not others:
            self._fetcher.seek(feed, feed.position)
            raise damaged(feed.partition, chunk.payload, error) from error
        self._pieces.extendleft(reversed(others))
        return first

    def _put_back(self) -> None:
        """The reader goes on in another way: what is left of the hand is fetched again."""
        if self._hand is not None and not self._hand.is_spent:
            feed = self._hand.chunk.feed
            self._fetcher.seek(feed, feed.position)
        self._hand = None

    def _decode(self, chunk: Chunk) -> Hand | None:
        """None: there is nothing for the user in it."""
        feed = chunk.feed
        try:
            messages, lifetimes = decode_unexpired(
                chunk.payload,
                *feed.partition,
                chunk.start_offset,
                self._ledger,
                _now_ms(),
            )
        except BatchError as error:
            return self._decode(self._part(chunk, error))
        progress = self._progress.get(feed.partition)
        if progress is not None:
            if chunk.start_offset < feed.position:
                # The partition was cut or made anew, and reading has gone back.
                progress.restart(chunk.start_offset)
                feed.position = chunk.start_offset
            progress.hand_out(feed.position, messages, chunk.next_offset)
            if not messages and progress.is_due and self._on_skipped is not None:
                self._on_skipped()
        self.expired_count += lifetimes.expired_count
        if not messages:
            feed.position = chunk.next_offset
            return None
        if lifetimes.is_any_limited:
            return ExpiringHand(chunk, messages, self._on_expired)
        return Hand(chunk, messages)

    def _on_expired(self, message: Message) -> None:
        """One of a hand, perhaps in another thread: acknowledged as its reader would."""
        self.expired_count += 1
        if (message.topic, message.partition) in self._progress:
            message.ack()

    def _decode_columns(self, chunk: Chunk, include_headers: bool) -> PartitionColumns:
        feed = chunk.feed
        try:
            columns = decode_columns(chunk.payload, chunk.start_offset, include_headers)
        except BatchError as error:
            return self._decode_columns(self._part(chunk, error), include_headers)
        feed.position = chunk.next_offset
        topic, number = feed.partition
        return PartitionColumns(topic=topic, partition=number, columns=columns)


def _now_ms() -> int:
    return time_ns() // 1_000_000
