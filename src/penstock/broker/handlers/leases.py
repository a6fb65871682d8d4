"""Shared groups: messages leased to one member, what became of them, and dead letters of exclusive
groups (R-DEL-3, R-DEL-9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.broker.delivery.shared.partition import Ask, Leased, Settled
from penstock.broker.partitions.partition import Partition
from penstock.coordination.delivery.shared_settings import DeadMessage, Settlement
from penstock.coordination.group.offsets import check_group_name
from penstock.model.errors import InvalidRequest, InvalidTopic, PenstockError
from penstock.model.ids import is_internal
from penstock.model.limits import (
    FETCH_WAIT_MS_MAX,
    FETCHES_WAITING_MAX,
    KIB,
    MEMBER_NAME_LENGTH_MAX,
    NAMES_PER_CALL_MAX,
)
from penstock.protocol import penstock_pb2 as pb

# Room in the answer's frame for its header and envelope.
_FRAME_OVERHEAD: Final = 256 * KIB


def lease(context: Context, call: Call[pb.LeaseRequest]) -> None:
    request = call.request
    check_names(request.group, request.member_id, request.topic)
    if not request.messages_max:
        raise InvalidRequest("Lease asks for no messages: set messages_max to 1 or more.")
    partition = context.leaders.find(request.topic, request.partition)
    _LeaseAnswer(context, call, partition).start()


def settle(context: Context, call: Call[pb.SettleRequest]) -> None:
    request = call.request
    check_names(request.group, request.member_id, request.topic)
    if len(request.ranges) > NAMES_PER_CALL_MAX:
        raise InvalidRequest(
            f"Settle has {len(request.ranges)} ranges: {NAMES_PER_CALL_MAX} is the limit."
        )
    partition = context.leaders.find(request.topic, request.partition)
    settled = [_settled(one) for one in request.ranges]

    def told(errors: Sequence[PenstockError | None]) -> None:
        # The broker as a whole cannot do it now: the client tries again, elsewhere perhaps.
        retriable = next((one for one in errors if one is not None and one.retriable), None)
        if retriable is not None:
            call.refuse(retriable)
            return
        response = pb.SettleResponse()
        for error in errors:
            outcome = response.outcomes.add()
            if error is not None:
                outcome.code, outcome.message = error.code, error.message
        call.answer(response)

    shares = context.delivery.shares
    shares.settle(request.group, partition, request.member_id, settled, told)
    if request.leaves:
        shares.leave_partition(request.group, partition, request.member_id)


async def dead_letter(context: Context, call: Call[pb.DeadLetterRequest]) -> pb.DeadLetterResponse:
    """Of an exclusive group, whose member has given up on a message. It goes on by itself."""
    request = call.request
    check_group_name(request.group)
    _check_public(request.topic)
    partition = context.leaders.find(request.topic, request.partition)
    dead = DeadMessage(request.offset, max(request.attempts, 1), request.reason)
    await context.delivery.dead_letters.bury(request.group, partition, [dead])
    return pb.DeadLetterResponse()


class _LeaseAnswer(Ask):
    """A long poll: answered when there is something to lease, or with nothing when its time is
    up; forgotten when its client goes."""

    __slots__ = ("_asked_s", "_call", "_context", "_partition")

    def __init__(
        self,
        context: Context,
        call: Call[pb.LeaseRequest],
        partition: Partition,
    ) -> None:
        request = call.request
        bytes_max = min(request.bytes_max, context.config.frame_bytes_max - _FRAME_OVERHEAD)
        super().__init__(request.member_id, request.messages_max, bytes_max)
        self._context = context
        self._call = call
        self._partition = partition
        self._asked_s = context.loop.time()

    def start(self) -> None:
        request, session = self._call.request, self._call.session
        wait_ms = min(request.max_wait_ms, FETCH_WAIT_MS_MAX)
        if session.waiting_count >= FETCHES_WAITING_MAX:
            wait_ms = 0
        session.wait(self, self._client_gone, wait_ms / 1000, self._time_up)
        self._context.delivery.shares.ask(request.group, self._partition, self, session)

    def answer(self, leased: Leased) -> None:
        self._forget()
        waited_ms = int((self._context.loop.time() - self._asked_s) * 1000)
        response = pb.LeaseResponse(lease_ms=leased.lease_ms, waited_ms=waited_ms)
        for first, last, attempt in leased.leases:
            response.leases.add(first=first, last=last, attempt=attempt)
        self._call.answer(response, b"".join(leased.payload))

    def refuse(self, error: PenstockError) -> None:
        self._forget()
        self._call.refuse(error)

    def _time_up(self) -> None:
        self._give_up()
        self.answer(Leased((), (), 0))

    def _client_gone(self) -> None:
        self._give_up()
        self._forget()

    def _give_up(self) -> None:
        self._context.delivery.shares.give_up(self._call.request.group, self._partition, self)

    def _forget(self) -> None:
        self._call.session.forget(self)


def _settled(one: pb.SettleRequest.Range) -> Settled:
    try:
        kind = Settlement(one.kind)
    except ValueError:
        raise InvalidRequest(f"Settle has an outcome of an unknown kind {one.kind}.") from None
    return Settled(one.first, one.last, kind, one.delay_ms, one.reason)


def check_names(group: str, member_id: str, topic: str) -> None:
    check_group_name(group)
    if not 1 <= len(member_id) <= MEMBER_NAME_LENGTH_MAX:
        raise InvalidRequest(
            f"A member's name has {len(member_id)} characters: give it 1 to "
            f"{MEMBER_NAME_LENGTH_MAX}."
        )
    _check_public(topic)


def _check_public(topic: str) -> None:
    if is_internal(topic):
        raise InvalidTopic(f"{topic!r} holds the broker's own state: it is not for groups.")
