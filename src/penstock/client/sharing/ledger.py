"""What a member of a shared group says of the messages it holds, each of them leased to it.

Not which messages those are, nor how brokers are told: a `settler` of each partition does that. The
invariant: a message is settled at most once by whoever holds it; what was settled before, or
belongs to another, is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import ClassVar, Final

from penstock.client.concurrency.backoff import Backoff
from penstock.client.concurrency.tasks import TaskScope
from penstock.client.connection.routes import Routes
from penstock.client.reading.ledger import Coordinates, Ledger
from penstock.client.requests.replies import Replying
from penstock.client.sharing.buffer import Hold
from penstock.client.sharing.settler import (
    ABANDON,
    ACKNOWLEDGED,
    FAIL,
    REJECT,
    RELEASE,
    Outcome,
    Settler,
)
from penstock.model.errors import ClientClosed, InvalidRequest, PenstockError
from penstock.model.ids import TopicPartition
from penstock.records import Message

logger = logging.getLogger(__name__)

# Who closes a consumer waits no longer for a broker that is gone.
_CLOSE_TIMEOUT_S: Final = 5.0


class LeaseLedger(Replying, Ledger):
    """For a consumer: what it has in its hands, and what it says became of it."""

    group_counts_attempts: ClassVar = True

    def __init__(
        self, group: str, member_id: str, routes: Routes, backoff: Backoff, scope: TaskScope
    ) -> None:
        """scope: the consumer's, which it closes after this."""
        super().__init__()
        self._group = group
        self.member_id = member_id
        self._routes = routes
        self._backoff = backoff
        self._scope = scope
        # By topic and partition. A plain tuple finds them too, and costs less for each message.
        self._settlers: dict[tuple[str, int], Settler] = {}
        self._is_closed = False
        self.held: dict[Coordinates, Hold] = {}
        """Taken by the reader, and without an outcome yet."""
        self.failure: PenstockError | None = None
        """Why no more can come: raised once, to who reads or says something next."""

    def open(self, partition: TopicPartition) -> None:
        """From now on messages of the partition may be held; also when they were before."""
        if partition not in self._settlers:
            settler = Settler(self._group, self.member_id, partition, self._routes, self._backoff)
            self._settlers[partition] = settler
            self._scope.start(settler.run(), name=f"outcomes of {partition}")

    async def close(self) -> None:
        """Tell all outcomes that there are, and that messages which have none were begun with."""
        self._is_closed = True
        for (_, _, offset), hold in self.held.items():
            self.settle(hold.partition, offset, Outcome(ABANDON))
        self.held.clear()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                endings = [_left(settler) for settler in self._settlers.values()]
                # Each partition for itself: outcomes of one are told though another is gone.
                outcomes = await asyncio.gather(*endings, return_exceptions=True)
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome
        except (TimeoutError, PenstockError) as error:
            logger.warning(
                "Not every outcome could be told before group %s was left: %s",
                self._group,
                str(error) or "there was no answer.",
            )

    @property
    def lost_count(self) -> int:
        """Messages whose lease had run out when their outcome was told: others got them too."""
        return sum(settler.lost_count for settler in self._settlers.values())

    def attempt(self, message: Message) -> int:
        hold = self.held.get((message.topic, message.partition, message.offset))
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
        if settler is None or (message.topic, message.partition, message.offset) not in self.held:
            raise InvalidRequest(f"{message!r} is not held: it was settled, or is another's.")
        await settler.extend(message.offset)

    async def told(self) -> None:
        """Returns when the brokers have all that was said."""
        self.raise_failure()
        for settler in list(self._settlers.values()):
            await settler.told()

    def settle(self, partition: tuple[str, int], offset: int, outcome: Outcome) -> None:
        """Of a message that the reader need not hold."""
        self._settlers[partition].put(offset, outcome)

    def raise_failure(self) -> None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def _settled(self, message: Message, outcome: Outcome) -> Awaitable[None]:
        if self._is_closed:
            raise ClientClosed("The consumer was closed before the message was settled.")
        self.raise_failure()
        place = message.topic, message.partition, message.offset
        if self.held.pop(place, None) is None:
            logger.debug("%s-%d offset %d was settled before.", *place)
        else:
            # The hot one: without a TopicPartition, which it equals.
            self._settlers[message.topic, message.partition].put(message.offset, outcome)
        return self._said


async def _left(settler: Settler) -> None:
    """Everything is told, and the partition is left, whatever was refused before."""
    refused: PenstockError | None = None
    try:
        await settler.told()
    except PenstockError as error:
        refused = error
    await settler.leave()
    if refused is not None:
        raise refused
