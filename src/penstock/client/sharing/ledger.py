"""What a member of a shared group says of the messages it holds, each of them leased to it.

Not which messages those are. The invariant: a message is settled at most once by whoever holds it;
what was settled before, or belongs to another, is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import ClassVar

from penstock.client.reading.ledger import Ledger
from penstock.client.sharing.buffer import Hold
from penstock.client.sharing.settler import (
    ACKNOWLEDGED,
    FAIL,
    REJECT,
    RELEASE,
    Outcome,
    Settler,
)
from penstock.model.errors import ClientClosed, InvalidRequest, PenstockError
from penstock.records import Message

logger = logging.getLogger(__name__)


class LeaseLedger(Ledger):
    """For a consumer: what it has in its hands, and what it says became of it."""

    group_counts_attempts: ClassVar = True

    def __init__(self) -> None:
        super().__init__()
        # By topic and partition. A plain tuple finds them too, and costs less for each message.
        self._settlers: dict[tuple[str, int], Settler] = {}
        # Taken by the reader, and without an outcome yet.
        self._held: dict[tuple[str, int, int], Hold] = {}
        self._failure: PenstockError | None = None
        self._is_closed = False

    @property
    def lost_count(self) -> int:
        """Messages whose lease had run out when their outcome was told: others got them too."""
        return sum(settler.lost_count for settler in self._settlers.values())

    def attempt(self, message: Message) -> int:
        hold = self._held.get((message.topic, message.partition, message.offset))
        return 1 if hold is None else hold.attempts.get(message.offset, 1)

    def acknowledge(self, message: Message) -> Awaitable[None]:
        return self._settled(message, ACKNOWLEDGED)

    def release(self, message: Message, delay_s: float = 0.0) -> Awaitable[None]:
        if delay_s < 0:
            raise InvalidRequest(f"delay_s is {delay_s}: it cannot be negative.")
        return self._settled(message, Outcome(RELEASE, delay_ms=int(delay_s * 1000)))

    def fail(self, message: Message, reason: str = "") -> Awaitable[None]:
        return self._settled(message, Outcome(FAIL, reason))

    def reject(self, message: Message, reason: str = "") -> Awaitable[None]:
        return self._settled(message, Outcome(REJECT, reason))

    async def extend(self, message: Message) -> None:
        """UnknownLease: it ran out before."""
        settler = self._settlers.get((message.topic, message.partition))
        if settler is None or (message.topic, message.partition, message.offset) not in self._held:
            raise InvalidRequest(f"{message!r} is not held: it was settled, or is another's.")
        await settler.extend(message.offset)

    async def commit(self) -> None:
        self._raise_failure()
        for settler in list(self._settlers.values()):
            await settler.told()

    def _settled(self, message: Message, outcome: Outcome) -> Awaitable[None]:
        if self._is_closed:
            raise ClientClosed("The consumer was closed before the message was settled.")
        self._raise_failure()
        place = message.topic, message.partition, message.offset
        if self._held.pop(place, None) is None:
            logger.debug("%s-%d offset %d was settled before.", *place)
        else:
            # The hot one: without a TopicPartition, which it equals.
            self._settlers[message.topic, message.partition].put(message.offset, outcome)
        return self._said

    def _settle(self, partition: tuple[str, int], offset: int, outcome: Outcome) -> None:
        self._settlers[partition].put(offset, outcome)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
