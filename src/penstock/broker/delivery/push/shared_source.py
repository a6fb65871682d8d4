"""What is pushed to a member of a shared group: messages leased to it as long as it has credit.

Beside `broker.delivery.push.sources`, whose messages belong to whoever reads the partition. The
invariant (R-DEL-3): what a client was pushed and has not answered returns to the group when the
stream is parked or closed, and with the client's connection; what it has answered is its own until
it says what became of it, or the lease is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.broker.clients.session import Session
from penstock.broker.delivery.push.sources import Done, Load
from penstock.broker.delivery.shared.partition import Ask, Leased
from penstock.broker.delivery.shared.partitions import Shares
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partition import Partition
from penstock.coordination.delivery.shared_settings import Lease
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicPartition
from penstock.net.clock import Clock
from penstock.protocol import penstock_pb2 as pb


class SharedSource:
    """Of one member in one partition."""

    __slots__ = ("_ask", "_clock", "_group", "_leaders", "_member", "_name", "_session", "_shares")

    def __init__(
        self,
        leaders: Leaders,
        shares: Shares,
        session: Session,
        group: str,
        member: str,
        name: TopicPartition,
        clock: Clock,
    ) -> None:
        self._leaders = leaders
        self._shares = shares
        self._session = session
        self._group = group
        self._member = member
        self._name = name
        self._clock = clock
        self._ask: _PushAsk | None = None

    def next(self, messages_max: int, bytes_max: int, done: Done) -> None:
        assert self._ask is None, f"{self._name} is asked twice"
        try:
            # Led elsewhere, or deleted, it is not found.
            partition = self._leaders.find(*self._name)
        except PenstockError as error:
            done(error)
            return
        ask = self._ask = _PushAsk(self, partition, self._member, messages_max, bytes_max, done)
        self._shares.ask(self._group, partition, ask, self._session)
        ask.asked()

    def cancel(self) -> None:
        ask, self._ask = self._ask, None
        if ask is not None:
            self._shares.give_up(self._group, ask.partition, ask)
            if (load := ask.forget()) is not None:
                self.drop(load)

    def drop(self, load: Load) -> None:
        self._give_back([load])

    def again(self, load: Load) -> Load | None:
        partition = self._leaders.find(*self._name)
        share = self._shares.find(self._group, partition)
        found = None if share is None else share.leased_again(self._member, _leases(load))
        return None if found is None else self.load(found, partition)

    def take_back(self, unanswered: Sequence[Load]) -> bool:
        self._give_back(unanswered)
        return True

    def close(self, unanswered: Sequence[Load]) -> None:
        self.cancel()
        # With the connection all that the member holds returns, each message an attempt more: one
        # of them may be why the client is gone.
        if not self._session.channel.connection.is_closed:
            self._give_back(unanswered)

    def load(self, leased: Leased, partition: Partition) -> Load:
        """What was leased just now."""
        return Load(
            messages=sum(last - first + 1 for first, last, _ in leased.leases),
            payload=b"".join(leased.payload),
            high_watermark=partition.replica.high_watermark,
            has_gaps=True,
            leases=[
                pb.LeasedRange(first=first, last=last, attempt=attempt)
                for first, last, attempt in leased.leases
            ],
            lease_ms=leased.lease_ms,
            leased_at_s=self._clock.monotonic(),
        )

    def taken(self) -> None:
        """What was asked for has come."""
        self._ask = None

    def _give_back(self, loads: Sequence[Load]) -> None:
        try:
            share = self._shares.find(self._group, self._leaders.find(*self._name))
        except PenstockError:
            return  # led elsewhere, or deleted: nobody holds anything here
        if share is not None:
            share.give_back(self._member, [lease for load in loads for lease in _leases(load)])


class _PushAsk(Ask):
    """One load that is asked for.

    It is handed on when the share has done all that it is at: the stream may ask again at once, and
    the share would be entered anew in the middle of its work.
    """

    __slots__ = ("_done", "_handing_on", "_is_asking", "_outcome", "_source", "partition")

    def __init__(
        self,
        source: SharedSource,
        partition: Partition,
        member: str,
        messages_max: int,
        bytes_max: int,
        done: Done,
    ) -> None:
        super().__init__(member, messages_max, bytes_max)
        self.partition = partition
        self._source = source
        self._done = done
        self._is_asking = True
        self._outcome: Load | PenstockError | None = None
        self._handing_on: asyncio.Handle | None = None

    def answer(self, leased: Leased) -> None:
        self._take(self._source.load(leased, self.partition))

    def refuse(self, error: PenstockError) -> None:
        self._take(error)

    def asked(self) -> None:
        """The share has been asked, and may have answered already."""
        self._is_asking = False
        if self._outcome is not None:
            self._hand_on()

    def forget(self) -> Load | None:
        """Hand nothing on. What has come, if something has."""
        if self._handing_on is not None:
            self._handing_on.cancel()
        return self._outcome if isinstance(self._outcome, Load) else None

    def _take(self, outcome: Load | PenstockError) -> None:
        self._outcome = outcome
        if not self._is_asking:
            self._handing_on = asyncio.get_running_loop().call_soon(self._hand_on)

    def _hand_on(self) -> None:
        self._source.taken()
        self._done(self._outcome)


def _leases(load: Load) -> list[Lease]:
    return [Lease(one.first, one.last, one.attempt) for one in load.leases]
