"""Tells brokers what became of leased messages: in ranges, one call at a time for each partition.

Not which messages those are. The invariants: of one message at most one outcome is told, the first;
an outcome is told until a broker has answered, or the lease has run out; and what is settled while
a call is under way goes with the next, so a million acknowledgements cost some thousand calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.client.concurrency.backoff import Backoff
from penstock.client.connection.routes import Routes
from penstock.client.reading.teller import Teller
from penstock.model.error_codes import from_code
from penstock.model.errors import PenstockError, UnknownLease
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import SETTLE

logger = logging.getLogger(__name__)

Kind = pb.SettleRequest.Kind
ACKNOWLEDGE: Final = pb.SettleRequest.KIND_ACKNOWLEDGE
RELEASE: Final = pb.SettleRequest.KIND_RELEASE
REJECT: Final = pb.SettleRequest.KIND_REJECT
EXTEND: Final = pb.SettleRequest.KIND_EXTEND
FAIL: Final = pb.SettleRequest.KIND_FAIL
ABANDON: Final = pb.SettleRequest.KIND_ABANDON

# Outcomes gather for so long before the first call; later ones gather while that is under way.
_GATHER_S: Final = 0.002
# Ranges in one call. Who settles every other message has one for each.
_RANGES_MAX: Final = 5_000


class Outcome(NamedTuple):
    """What became of a message. A tuple: there is one for each."""

    kind: Kind
    reason: str = ""
    delay_ms: int = 0


ACKNOWLEDGED: Final = Outcome(ACKNOWLEDGE)


class Settler(Teller):
    """Of one member in one partition."""

    def __init__(
        self,
        group: str,
        member_id: str,
        partition: TopicPartition,
        routes: Routes,
        backoff: Backoff,
    ) -> None:
        super().__init__(_GATHER_S, backoff)
        self._group = group
        self._member_id = member_id
        self._partition = partition
        self._routes = routes
        self._outcomes: dict[int, Outcome] = {}
        self._all_told = asyncio.Event()
        self._all_told.set()
        # Leases that had run out when their outcome was told.
        self.lost_count = 0
        # Those whose extension somebody waits for, with why it was refused.
        self._extending: dict[int, PenstockError | None] = {}

    async def extend(self, offset: int) -> None:
        """Returns when the lease is longer; raises why it is not."""
        self._extending[offset] = None
        self.put(offset, Outcome(EXTEND))
        try:
            await self.told()
        finally:
            error = self._extending.pop(offset, None)
        if error is not None:
            raise error

    async def leave(self) -> None:
        """The member asks no more there: what it still holds it has not begun with."""
        request = pb.SettleRequest(
            group=self._group,
            member_id=self._member_id,
            topic=self._partition.topic,
            partition=self._partition.partition,
            leaves=True,
        )
        await self._routes.call_leader(self._partition, SETTLE, request)

    def put(self, offset: int, outcome: Outcome) -> None:
        """An outcome, to be told soon."""
        if not self._outcomes:
            self._all_told.clear()
            self.wake()
        self._outcomes[offset] = outcome

    async def told(self) -> None:
        """Wait until every outcome is durable, or was refused."""
        await self._all_told.wait()
        self.raise_failure()

    async def _tell(self) -> None:
        outcomes, self._outcomes = self._outcomes, {}
        try:
            await self._settle(outcomes)
        except PenstockError as error:
            if error.retriable:
                self._outcomes = {**outcomes, **self._outcomes}
            raise
        finally:
            if not self._outcomes:
                self._all_told.set()

    def _passes(self, error: PenstockError) -> bool:
        if error.retriable:
            logger.info("Outcomes of %s cannot be told now: %s", self._partition, error)
        else:
            logger.error("Outcomes of %s are lost: %s", self._partition, error)
        return error.retriable

    async def _settle(self, outcomes: dict[int, Outcome]) -> None:
        ranges, singles = list(_ranges(outcomes)), list[pb.SettleRequest.Range]()
        while ranges or singles:
            if not ranges:
                ranges, singles = singles, []
            part, ranges = ranges[:_RANGES_MAX], ranges[_RANGES_MAX:]
            request = pb.SettleRequest(
                group=self._group,
                member_id=self._member_id,
                topic=self._partition.topic,
                partition=self._partition.partition,
                ranges=part,
            )
            answer = await self._routes.call_leader(self._partition, SETTLE, request)
            for one, error in zip(part, answer.outcomes, strict=True):
                is_lost = error.code == UnknownLease.code
                if is_lost and one.first < one.last:
                    # All of a range, or none: told alone, those that are held go through.
                    singles += [
                        _range(offset, offset, outcomes[offset])
                        for offset in range(one.first, one.last + 1)
                    ]
                    continue
                for offset in range(one.first, one.last + 1):
                    outcomes.pop(offset, None)
                    if error.code and one.kind == EXTEND and offset in self._extending:
                        self._extending[offset] = from_code(error.code, error.message)
                if error.code and not is_lost:
                    self._failure = from_code(error.code, error.message)
                elif is_lost and one.kind not in (RELEASE, ABANDON):
                    # Whoever gives a message back that it has no longer has lost nothing.
                    self.lost_count += one.kind != EXTEND
                    logger.warning(
                        "What became of the message at offset %d of %s was told too late: %s",
                        one.first,
                        self._partition,
                        error.message,
                    )


def _ranges(outcomes: dict[int, Outcome]) -> Iterator[pb.SettleRequest.Range]:
    """Neighbours with the same outcome together."""
    first = last = -2
    current: Outcome | None = None
    for offset in sorted(outcomes):
        outcome = outcomes[offset]
        if offset == last + 1 and (outcome is current or outcome == current):
            last = offset
            continue
        if current is not None:
            yield _range(first, last, current)
        first = last = offset
        current = outcome
    if current is not None:
        yield _range(first, last, current)


def _range(first: int, last: int, outcome: Outcome) -> pb.SettleRequest.Range:
    return pb.SettleRequest.Range(
        first=first,
        last=last,
        kind=outcome.kind,
        reason=outcome.reason,
        delay_ms=outcome.delay_ms,
    )
