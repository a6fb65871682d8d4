"""ShareFetch and ShareAcknowledge (KIP-932): messages leased to Kafka's share consumers, and what
became of them (R-DEL-3).

Leases are `broker.delivery.shared.partitions`', the same that our own consumers have, so both may
be members of one group. The invariants: every request is answered once, when all that it settles is
durable; what is leased for a request is in its answer, or its connection is gone and the leases
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from penstock.broker.context import Context
from penstock.broker.delivery.shared.partition import Ask, Leased, Outcomes
from penstock.broker.kafka.addresses import host_and_port
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.lookup import find_partition
from penstock.broker.kafka.share_messages import (
    PartitionOutcome,
    Settlements,
    acknowledge_response,
    check_fetch,
    fetch_response,
    forgotten,
    member_of,
    settlements,
    wanted,
)
from penstock.broker.kafka.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Key,
    Member,
    ShareSession,
)
from penstock.broker.partitions.leaders import NO_BROKER, NO_TERM
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import (
    InvalidTopic,
    NotLeader,
    PenstockError,
    ShuttingDown,
    StaleTerm,
    StorageError,
    UnknownTerm,
)
from penstock.model.ids import is_internal
from penstock.model.limits import FETCH_WAIT_MS_MAX, SHARE_FETCH_BYTES_MAX
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages import share_acknowledge as acknowledging
from penstock.protocol.kafka.messages import share_fetch as fetching
from penstock.protocol.kafka.messages.fetch import NodeEndpoint

# What a consumer should know at once, of all that passes: it looks for the leader then. Of the
# rest Java's consumer makes an exception, so there are just no messages for now.
_TOLD_AT_ONCE: Final = (NotLeader, StaleTerm, UnknownTerm, StorageError)


def share_fetch(context: Context, call: Call) -> fetching.ShareFetchResponse | None:
    request: fetching.ShareFetchRequest = call.request
    member = member_of(request)
    check_fetch(request)
    named, settled = wanted(request), settlements(request)
    sessions, epoch = call.session.share_sessions, request.share_session_epoch
    earlier = sessions.of(member) if epoch == INITIAL_EPOCH else None
    session = sessions.fetch(
        member,
        epoch,
        call.session,
        wanted=named,
        forgotten=forgotten(request),
        settles=bool(settled),
    )
    if earlier is not None and earlier.connection is not call.session:
        # It has come back before the end of its connection was seen.
        context.delivery.shares.leave(*member, earlier.connection, is_lost=True)
    if isinstance(session, ErrorCode):
        return fetching.ShareFetchResponse(error_code=session)
    _Fetch(context, call, session).begin(settled)
    return None


def share_acknowledge(
    context: Context, call: Call
) -> acknowledging.ShareAcknowledgeResponse | None:
    request: acknowledging.ShareAcknowledgeRequest = call.request
    member = member_of(request)
    wanted(request)  # refused if they are too many
    settled = settlements(request)
    epoch = request.share_session_epoch
    session = call.session.share_sessions.acknowledge(member, epoch, call.session)
    if isinstance(session, ErrorCode):
        return acknowledging.ShareAcknowledgeResponse(error_code=session)
    outcomes: dict[Key, PartitionOutcome] = {}

    def answer() -> None:
        if epoch == FINAL_EPOCH:
            _end(context, call, session)
        endpoints = _endpoints(context, outcomes)
        call.answer(acknowledge_response(outcomes, session.lease_ms, endpoints))

    _settle(context, member, settled, outcomes, answer)
    return None


class _Fetch:
    """One request: a long poll on all partitions of the session. It takes what is there in any of
    them; if there is nothing, what comes first."""

    __slots__ = (
        "_asks",
        "_call",
        "_context",
        "_is_polling",
        "_is_settled",
        "_is_waiting",
        "_left_bytes",
        "_left_messages",
        "_outcomes",
        "_request",
        "_session",
    )

    def __init__(self, context: Context, call: Call, session: ShareSession) -> None:
        self._context = context
        self._call = call
        self._session = session
        self._request: fetching.ShareFetchRequest = call.request
        self._outcomes: dict[Key, PartitionOutcome] = {}
        self._asks: dict[_PartitionAsk, None] = {}
        self._left_messages = self._request.max_records
        self._left_bytes = min(self._request.max_bytes, SHARE_FETCH_BYTES_MAX)
        # For messages.
        self._is_waiting = True
        # Whether it has asked all partitions, and waits for the first that has any.
        self._is_polling = False
        self._is_settled = False

    def begin(self, settled: Mapping[Key, Settlements]) -> None:
        session = self._call.session
        session.on_close(self, self._stop_waiting)
        _settle(self._context, self._session.member, settled, self._outcomes, self._settled)
        wait_ms = self._ask() if self._request.share_session_epoch != FINAL_EPOCH else 0
        if self._is_enough or not wait_ms:
            self.go_on()
        else:
            self._is_polling = True
            session.wait(self, self._stop_waiting, wait_ms / 1000, self.go_on)

    def _ask(self) -> int:
        """Ask all partitions, in turn; how long to wait if that brings nothing, in ms."""
        request, connection = self._request, self._call.session
        for key in list(self._session.partitions):
            if self._left_messages <= 0 or self._left_bytes <= 0:
                break
            try:
                partition = _find(self._context, key)
            except PenstockError as error:
                self._refused(key, error)
                continue
            ask = _PartitionAsk(self, key, partition, self._left_messages, self._left_bytes)
            self._asks[ask] = None
            group = self._session.member.group
            self._context.delivery.shares.ask(group, partition, ask, connection)
        is_poll = request.max_records > 0 and request.min_bytes > 0
        if not is_poll or self._context.partitions.is_closing:
            return 0
        return min(request.max_wait_ms, FETCH_WAIT_MS_MAX)

    @property
    def member_id(self) -> str:
        return self._session.member.member_id

    @property
    def _is_enough(self) -> bool:
        """Whether there is something to tell, other than of what is settled."""
        return any(each.leases or each.error for each in self._outcomes.values())

    def _settled(self) -> None:
        self._is_settled = True
        self._answer()

    def leased(self, ask: _PartitionAsk, leased: Leased) -> None:
        key, session = ask.key, self._session
        self._asks.pop(ask, None)
        pieces = sorted(zip(leased.firsts, range(len(leased.payload)), strict=True))
        records = b"".join(leased.payload[index] for _, index in pieces)
        outcome = self._outcomes.setdefault(key, PartitionOutcome())
        outcome.leases = leased.leases
        outcome.records = memoryview(records)
        self._left_messages -= sum(last - first + 1 for first, last, _ in leased.leases)
        self._left_bytes -= len(records)
        session.lease_ms = leased.lease_ms
        session.move_to_end(key)
        self._told()

    def refused(self, ask: _PartitionAsk, error: PenstockError) -> None:
        self._asks.pop(ask, None)
        self._refused(ask.key, error)
        self._told()

    def _refused(self, key: Key, error: PenstockError) -> None:
        if isinstance(error, ShuttingDown):
            error = NotLeader()  # another broker soon leads it
        if error.retriable and not isinstance(error, _TOLD_AT_ONCE):
            return
        outcome = self._outcomes.setdefault(key, PartitionOutcome())
        outcome.error = error
        outcome.leader = _leader(self._context, key, error)

    def _told(self) -> None:
        """Later than at the beginning, one partition has something: that is enough."""
        if self._is_polling and self._is_enough:
            self.go_on()

    def go_on(self) -> None:
        """Without waiting for messages any longer."""
        self._stop_waiting()
        self._answer()

    def _stop_waiting(self) -> None:
        self._is_waiting = False
        self._is_polling = False
        asks, self._asks = self._asks, {}
        for ask in asks:
            ask.give_up(self._context, self._session.member.group)

    def _answer(self) -> None:
        if self._is_waiting or not self._is_settled or not self._call.session.is_open:
            return
        self._call.session.forget(self)
        if self._request.share_session_epoch == FINAL_EPOCH:
            _end(self._context, self._call, self._session)
        endpoints = _endpoints(self._context, self._outcomes)
        self._call.answer(fetch_response(self._outcomes, self._session.lease_ms, endpoints))


class _PartitionAsk(Ask):
    """What a fetch wants of one of its partitions."""

    __slots__ = ("_fetch", "_partition", "key")

    def __init__(
        self, fetch: _Fetch, key: Key, partition: Partition, messages_max: int, bytes_max: int
    ) -> None:
        super().__init__(fetch.member_id, messages_max, bytes_max)
        self._fetch = fetch
        self._partition = partition
        self.key = key

    def answer(self, leased: Leased) -> None:
        self._fetch.leased(self, leased)

    def refuse(self, error: PenstockError) -> None:
        self._fetch.refused(self, error)

    def give_up(self, context: Context, group: str) -> None:
        context.delivery.shares.give_up(group, self._partition, self)


# --- what both do ------------------------------------------------------------------------------


def _settle(
    context: Context,
    member: Member,
    settled: Mapping[Key, Settlements],
    outcomes: dict[Key, PartitionOutcome],
    then: Callable[[], None],
) -> None:
    """Say of each partition what became of messages, and go on when all of it is durable."""
    left = len(settled) + 1

    def told(key: Key, errors: Outcomes) -> None:
        outcome = outcomes.setdefault(key, PartitionOutcome())
        outcome.settle_error = next((one for one in errors if one is not None), None)
        if outcome.settle_error is not None:
            outcome.leader = _leader(context, key, outcome.settle_error)
        one_done()

    def one_done() -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    for key, ranges in settled.items():
        try:
            if isinstance(ranges, PenstockError):
                raise ranges
            partition = _find(context, key)
        except PenstockError as error:
            told(key, [error])
            continue
        context.delivery.shares.settle(
            member.group,
            partition,
            member.member_id,
            ranges,
            partial(told, key),
        )
    one_done()


def _end(context: Context, call: Call, session: ShareSession) -> None:
    """The member closes it: what it still holds it has not begun with."""
    call.session.share_sessions.end(session)
    context.delivery.shares.leave(*session.member, session.connection, is_lost=False)


def _find(context: Context, key: Key) -> Partition:
    topic_id, number = key
    partition = find_partition(context, topic_id, number)
    if is_internal(partition.name.topic):
        raise InvalidTopic(
            f"{partition.name.topic!r} holds the broker's own state: it is not for share groups."
        )
    return partition


def _leader(context: Context, key: Key, error: PenstockError) -> tuple[int, int]:
    """Where to go instead (KIP-951)."""
    topic_id, number = key
    if isinstance(error, NotLeader):
        image = context.registry.image
        topic = image.topics.get(image.names_by_id.get(topic_id, ""))
        if topic is not None and 0 <= number < len(topic.partitions):
            leader = context.leaders.of(topic, number)
            return leader.broker, leader.term
    return NO_BROKER, NO_TERM


def _endpoints(context: Context, outcomes: Mapping[Key, PartitionOutcome]) -> list[NodeEndpoint]:
    """Of the brokers that the answer names."""
    named = {outcome.leader[0] for outcome in outcomes.values()} - {NO_BROKER}
    if not named:
        return []
    brokers = context.leaders.brokers.values()
    return [
        NodeEndpoint(each.id, *host_and_port(each.address)) for each in brokers if each.id in named
    ]
