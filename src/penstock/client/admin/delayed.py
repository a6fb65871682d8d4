"""Messages that wait on the broker until they are due (R-DEL-13): published, cancelled, described.

The broker that looks after them keeps them on disk and delivers them. The invariant: a call that
had to be repeated counts once, and messages of one partition are accepted in the order in which
they were given.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import time_ns
from typing import Final

from penstock.client.concurrency.tasks import all_of
from penstock.client.connection.routes import DELAYED, Routes
from penstock.client.producing.accumulator import Headers
from penstock.client.producing.options import with_queue_headers
from penstock.client.producing.partitioner import partition_of_key
from penstock.client.producing.producer import explained
from penstock.client.producing.receipts import Receipt
from penstock.model.errors import InvalidDelay, InvalidRequest, MalformedFrame, UnknownTopic
from penstock.model.limits import DELAY_MS_MAX, KIB
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CANCEL_DELAYED, DELAY, DESCRIBE_DELAYED
from penstock.records import BatchBuilder
from penstock.records.header import Buffer

_CALL_BYTES: Final = 512 * KIB
_CALL_MESSAGES: Final = 2_000
_CANCELLED_PER_CALL: Final = 1_000
_TOKEN_BYTES: Final = 16
# How often, and after how long each time, a topic is asked for that the broker has not heard of.
_NEWS_TRIES: Final = 30
_NEWS_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class DelayedMessage:
    """A message with its options (`MessageOptions`), and when it is to be delivered: after so long,
    or at that time."""

    value: bytes | None
    key: bytes | None = None
    delay_s: float | None = None
    deliver_at: datetime | None = None
    headers: Headers | None = None
    partition: int | None = None
    tag: str | None = None
    ttl_s: float | None = None
    """From when it is due."""
    priority: int | None = None

    def all_headers(self, now_ms: int, due_ms: int) -> Headers | None:
        """With those of the queue's own. due_ms: in ms from now, unless a time was given."""
        from_ms = due_ms if self.deliver_at is not None else now_ms + due_ms
        from_ms = max(from_ms, now_ms)  # what was due in the past is delivered now
        return with_queue_headers(self.headers, self.tag, self.ttl_s, self.priority, from_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedTopic:
    """What waits for a topic."""

    topic: str
    pending: int
    pending_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedStatus:
    """Everything that waits; and, since the broker that looks after it began to, what it did."""

    topics: Sequence[DelayedTopic]
    next_due_ms: int | None
    """Of all topics; None if one was asked for."""
    delivered: int
    cancelled: int
    dropped: int
    """Their topic was deleted."""
    late_ms_max: int
    log_bytes: int

    @property
    def pending(self) -> int:
        return sum(topic.pending for topic in self.topics)


class Delayed:
    """Made by `Client.delayed`."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def publish_many(
        self, topic: str, messages: Iterable[DelayedMessage], *, ordered: bool = False
    ) -> list[Receipt]:
        """Let the messages wait; returns when the broker has all of them durably, with a receipt
        for each that has an id.

        ordered: none comes before one of the same key that was accepted earlier.
        """
        given = list(messages)
        if not given:
            return []
        dues_ms = [_due_ms(message) for message in given]  # all of them, before one is sent
        route = await self._routes.topic(topic, create=True)
        count = route.partition_count
        # Those without a key are spread over all partitions in turn, also where each comes alone.
        turn = secrets.randbelow(count)
        by_partition: dict[int, list[int]] = defaultdict(list)
        for number, message in enumerate(given):
            by_partition[_partition_of(message, turn + number, topic, count)].append(number)
        receipts: dict[int, Receipt] = {}

        async def publish(partition: int, numbers: Sequence[int]) -> None:
            for part in _parts(given, numbers):
                receipts.update(
                    await self._publish(topic, partition, given, dues_ms, part, ordered)
                )

        await all_of(publish(partition, numbers) for partition, numbers in by_partition.items())
        return [receipts[number] for number in range(len(given))]

    async def _publish(
        self,
        topic: str,
        partition: int,
        given: Sequence[DelayedMessage],
        dues_ms: Sequence[int],
        numbers: Sequence[int],
        ordered: bool,
    ) -> dict[int, Receipt]:
        now_ms = time_ns() // 1_000_000
        builder = BatchBuilder(2**31 - 1)
        request = pb.DelayRequest(
            topic=topic,
            partition=partition,
            ordered_by_key=ordered,
            token=secrets.token_bytes(_TOKEN_BYTES),
            # By the broker's clock, unless times were given.
            is_relative=given[numbers[0]].deliver_at is None,
        )
        for number in numbers:
            message = given[number]
            due_ms = dues_ms[number]
            request.due_ms.append(due_ms)
            try:
                headers = message.all_headers(now_ms, due_ms)
                builder.append(now_ms, message.key, message.value, headers)
            except (TypeError, ValueError) as error:
                raise explained(error, message.key, message.value, message.headers) from None
        batch = builder.build()
        answer = await self._delay(request, batch)
        if not len(answer.due_ms) == len(answer.numbers) == len(numbers):
            raise MalformedFrame("The broker's answer is for other messages than were sent.")
        return {
            number: Receipt(
                topic=topic,
                partition=partition,
                offset=-1,
                timestamp_ms=due_ms,
                id=f"{due_ms:x}-{accepted:x}",
            )
            for number, due_ms, accepted in zip(numbers, answer.due_ms, answer.numbers, strict=True)
        }

    async def _delay(self, request: pb.DelayRequest, batch: Buffer) -> pb.DelayResponse:
        """Whoever looks after delayed messages may hear of a topic that was just made after this
        client has."""
        failures = 0
        while True:
            try:
                return await self._routes.call_coordinator(DELAYED, DELAY, request, (batch,))
            except UnknownTopic:
                failures += 1
                if failures > _NEWS_TRIES:
                    raise
            await asyncio.sleep(_NEWS_S)
            await self._routes.topic(request.topic, refresh=True)  # raises if it is gone

    async def cancel(self, *ids: str) -> list[bool]:
        """Let these messages not be delivered; whether each was still waiting."""
        dues = [_parse_id(each) for each in ids]
        outcomes: list[bool] = []
        for at in range(0, len(dues), _CANCELLED_PER_CALL):
            part = dues[at : at + _CANCELLED_PER_CALL]
            request = pb.CancelDelayedRequest(
                due_ms=[due_ms for due_ms, _ in part], numbers=[number for _, number in part]
            )
            answer = await self._routes.call_coordinator(DELAYED, CANCEL_DELAYED, request)
            outcomes += answer.cancelled
        return outcomes

    async def describe(self, topic: str = "") -> DelayedStatus:
        """What waits: for all topics, or for one."""
        answer = await self._routes.call_coordinator(
            DELAYED, DESCRIBE_DELAYED, pb.DescribeDelayedRequest(topic=topic)
        )
        return DelayedStatus(
            topics=[
                DelayedTopic(
                    topic=each.topic, pending=each.pending, pending_bytes=each.pending_bytes
                )
                for each in answer.topics
            ],
            next_due_ms=answer.next_due_ms or None,
            delivered=answer.delivered,
            cancelled=answer.cancelled,
            dropped=answer.dropped,
            late_ms_max=answer.late_ms_max,
            log_bytes=answer.log_bytes,
        )


def _partition_of(message: DelayedMessage, number: int, topic: str, count: int) -> int:
    """Without a key, that of its number."""
    if message.partition is not None:
        if not 0 <= message.partition < count:
            raise UnknownTopic(
                f"Topic {topic!r} has no partition {message.partition}: it has {count}, numbered "
                "from 0."
            )
        return message.partition
    if message.key is None:
        return number % count
    try:
        return partition_of_key(message.key, count)
    except TypeError as error:
        raise explained(error, message.key, message.value, message.headers) from None


def _parts(given: Sequence[DelayedMessage], numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """What goes in one call: not too much, and delays apart from times."""
    start = size_bytes = 0
    for at, number in enumerate(numbers):
        message = given[number]
        length = len(message.value or b"") + len(message.key or b"") + 64
        length += sum(len(name) + len(value or b"") for name, value in message.headers or ())
        is_other = (message.deliver_at is None) != (given[numbers[start]].deliver_at is None)
        is_full = size_bytes + length > _CALL_BYTES or at - start >= _CALL_MESSAGES
        if at > start and (is_other or is_full):
            yield numbers[start:at]
            start, size_bytes = at, 0
        size_bytes += length
    yield numbers[start:]


def _due_ms(message: DelayedMessage) -> int:
    """In ms from now, or since 1970."""
    if (message.delay_s is None) == (message.deliver_at is None):
        raise InvalidDelay("Say when a message is to be delivered: by delay_s, or by deliver_at.")
    if message.deliver_at is not None:
        try:
            due_s = message.deliver_at.timestamp()
        except (AttributeError, OverflowError, ValueError):
            raise InvalidDelay(
                f"deliver_at is {message.deliver_at!r}: give a datetime, as in datetime.now(UTC) + "
                "timedelta(hours=1)."
            ) from None
        # Not before 1970: that is past in any case.
        return max(math.ceil(due_s * 1000), 0)
    delay_s = message.delay_s
    if not isinstance(delay_s, int | float) or not 0 <= delay_s <= DELAY_MS_MAX / 1000:
        raise InvalidDelay(
            f"A delay is {delay_s!r}: give seconds, from 0 to {DELAY_MS_MAX // 1000}, which are "
            "ten years."
        )
    return math.ceil(delay_s * 1000)


def _parse_id(text: str) -> tuple[int, int]:
    due_ms, _, number = text.partition("-")
    try:
        parsed = int(due_ms, 16), int(number, 16)
    except ValueError:
        parsed = (-1, -1)
    if not (0 <= parsed[0] < 2**62 and 0 < parsed[1] < 2**62):
        raise InvalidRequest(f"{text[:80]!r} is no id of a delayed message: its receipt has it.")
    return parsed
