"""What became of messages, for consumers that have their partitions for themselves.

A group has one place in a partition, and nothing of single messages: so attempts are counted here,
in this process; of leased messages (`sharing.ledger`) the broker counts them. The invariant: a
message that is rejected is durably among the group's dead letters before it is acknowledged
(R-DEL-9).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import ClassVar, Final, NoReturn

from penstock.client.connection.routes import Routes
from penstock.client.consuming.committer import Committer
from penstock.client.reading.ledger import Coordinates, Ledger
from penstock.client.requests.replies import Replying
from penstock.model.errors import InvalidRequest
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DEAD_LETTER
from penstock.records import Message

logger = logging.getLogger(__name__)

# Failed and neither acknowledged nor rejected; beyond it the oldest are forgotten.
_FAILED_MAX: Final = 100_000


class NotLeased:
    """What only a lease has: of a partition that one member has, every message is its own."""

    def release(self, message: Message, delay_s: float = 0.0) -> NoReturn:
        del delay_s
        raise InvalidRequest(
            f"Nobody else of the group could take {_name(message)}: its partition is this "
            "consumer's. Try it again here, reject() it, or share the topic with mq.share()."
        )

    def extend(self, message: Message) -> NoReturn:
        raise InvalidRequest(
            f"{_name(message)} is not leased, and stays this consumer's: only messages of "
            "mq.share() are extended."
        )


class PlaceLedger(NotLeased, Replying, Ledger):
    """For a consumer: where its group is in the partitions that it reads."""

    group_counts_attempts: ClassVar = False

    def __init__(self, routes: Routes, committer: Committer | None) -> None:
        """committer: None: there is no group."""
        super().__init__()
        self._routes = routes
        self._committer = committer
        # How often messages have failed, of those that are neither acknowledged nor rejected.
        self._failures: dict[Coordinates, int] = {}

    def acknowledge(self, message: Message) -> Awaitable[None]:
        """The group begins again at the first message that was not acknowledged."""
        committer = self.committer
        committer.raise_failure()
        committer.note(message)
        if self._failures:
            self._failures.pop((message.topic, message.partition, message.offset), None)
        return self._said

    @property
    def committer(self) -> Committer:
        """Keeps the group's place; InvalidRequest if there is no group."""
        if self._committer is None:
            raise InvalidRequest(
                "The consumer has no group to acknowledge for: give it one, as in group='billing'."
            )
        return self._committer

    def attempt(self, message: Message) -> int:
        """How often it failed in this process, and once more."""
        return self._failures.get((message.topic, message.partition, message.offset), 0) + 1

    def fail(self, message: Message, reason: str = "") -> Awaitable[None]:
        """An attempt is counted. The message is still this consumer's: try it again, or reject it.
        Until it is acknowledged or rejected, the group's place stays before it."""
        self.committer.raise_failure()
        place = message.topic, message.partition, message.offset
        failures = self._failures.pop(place, 0) + 1
        while len(self._failures) >= _FAILED_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[place] = failures
        logger.info("%s failed, attempt %d: %s", _name(message), failures, reason)
        return self._said

    async def reject(self, message: Message, reason: str = "") -> None:
        """Acknowledged when it is among the group's dead letters, durably; then this returns."""
        committer = self.committer
        committer.raise_failure()
        if not committer.is_open(message):
            logger.debug("%s was settled before, or is another's now.", _name(message))
            return
        place = message.topic, message.partition, message.offset
        request = pb.DeadLetterRequest(
            group=committer.group,
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            reason=reason,
            attempts=max(self._failures.get(place, 0), 1),
        )
        name = TopicPartition(message.topic, message.partition)
        await self._routes.call_leader(name, DEAD_LETTER, request)
        self.acknowledge(message)


def _name(message: Message) -> str:
    return f"Offset {message.offset} of {message.topic}-{message.partition}"
