"""ShareFetch and ShareAcknowledge (KIP-932) as plain facts: what they ask for, and their answers.

Not the leases themselves, nor the sessions. The invariant: settlements that leave here are ranges
that rise and do not overlap, each of one kind; a request that would make others is refused, and
then nothing of that partition is settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from penstock.broker.bounds import check_count
from penstock.broker.delivery.shared.partition import Settled
from penstock.broker.kafka.share_sessions import Key, Member
from penstock.coordination.delivery.shared_settings import Lease, Settlement
from penstock.coordination.group.offsets import check_group_name
from penstock.model.errors import InvalidRequest, PenstockError
from penstock.model.limits import MEMBER_NAME_LENGTH_MAX
from penstock.protocol.kafka.codec import Payload
from penstock.protocol.kafka.errors import code_and_message
from penstock.protocol.kafka.messages import share_acknowledge as acknowledging
from penstock.protocol.kafka.messages import share_fetch as fetching
from penstock.protocol.kafka.messages.fetch import NodeEndpoint
from penstock.protocol.kafka.messages.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch
from penstock.protocol.kafka.schema import NO_RECORDS

Request = fetching.ShareFetchRequest | acknowledging.ShareAcknowledgeRequest

_RENEW: Final = 4
# By Kafka's numbers; with the reason that dead letters of its consumers have, who say none. What
# Kafka calls released was an attempt: one that is released for ever must come to an end. So was a
# gap. Kafka is done with that, since what it leases has holes; here a lease is of messages alone
# (`ShareLog.payload`), and a consumer that did not find one has lost it.
_KINDS: Final[Mapping[int, tuple[Settlement, str]]] = {
    0: (Settlement.FAIL, "Not found by its consumer in what it was sent."),
    1: (Settlement.ACKNOWLEDGE, ""),
    2: (Settlement.FAIL, "Released by its consumer."),
    3: (Settlement.REJECT, "Rejected by its consumer."),
    _RENEW: (Settlement.EXTEND, ""),
}
_NO_LEADER: Final = -1
_DELIVERY_COUNT_MAX: Final = 2**15 - 1


Settlements = Sequence[Settled] | PenstockError
"""Of one partition, or why they cannot be understood."""


# --- what is asked for -------------------------------------------------------------------------


def member_of(request: Request) -> Member:
    """Who asks; refused where it does not say."""
    group, member_id = request.group_id or "", request.member_id or ""
    check_group_name(group)
    if not 0 < len(member_id) <= MEMBER_NAME_LENGTH_MAX:
        raise InvalidRequest(
            f"The member id has {len(member_id)} characters: it must have 1 to "
            f"{MEMBER_NAME_LENGTH_MAX}."
        )
    return Member(group, member_id)


def check_fetch(request: fetching.ShareFetchRequest) -> None:
    """Raises InvalidRequest. A request that renews leases asks for no messages (KIP-1222)."""
    numbers = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
    if request.is_renew_ack and any(numbers):
        raise InvalidRequest("A fetch that renews leases must ask for no messages.")
    if min(numbers) < 0:
        raise InvalidRequest(f"A fetch asks for a negative amount: {min(numbers)}.")
    if request.share_acquire_mode not in (0, 1):
        raise InvalidRequest(f"There is no acquire mode {request.share_acquire_mode}.")


def wanted(request: Request) -> list[Key]:
    """The partitions that the request names, each once."""
    named = dict.fromkeys(
        (topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    check_count("partitions", len(named))
    return list(named)


def forgotten(request: fetching.ShareFetchRequest) -> Iterator[Key]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield topic.topic_id, partition


def settlements(request: Request) -> dict[Key, Settlements]:
    """What the request says of leased messages, by partition. A partition that comes twice is as
    senseless as ranges that overlap."""
    found: dict[Key, Settlements] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            batches: Sequence[AcknowledgementBatch] = partition.acknowledgement_batches
            if not batches:
                continue
            key = (topic.topic_id, partition.partition_index)
            if key in found:
                found[key] = InvalidRequest(f"Partition {key[1]} is there twice.")
                continue
            try:
                found[key] = _settlements(batches, request.is_renew_ack)
            except InvalidRequest as error:
                found[key] = error
    check_count(
        "acknowledged ranges", sum(len(one) for one in found.values() if isinstance(one, list))
    )
    return found


def _settlements(batches: Sequence[AcknowledgementBatch], may_renew: bool) -> list[Settled]:
    settled: list[Settled] = []
    end = 0
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not end <= first <= last:
            raise InvalidRequest(
                f"Offsets {first} to {last} do not rise, or come before {end}, which is behind "
                "those that were named already."
            )
        if len(types) not in (1, last - first + 1):
            raise InvalidRequest(
                f"Offsets {first} to {last} have {len(types)} acknowledgements: give one for all, "
                "or one for each."
            )
        settled.extend(_runs(first, last, types, may_renew))
        end = last + 1
    return settled


def _runs(first: int, last: int, types: Sequence[int], may_renew: bool) -> Iterator[Settled]:
    """Neighbours of one kind together."""
    for number in set(types):
        if number not in _KINDS or (number == _RENEW and not may_renew):
            raise InvalidRequest(f"There is no acknowledgement of type {number} in this request.")
    if len(types) == 1:
        kind, reason = _KINDS[types[0]]
        yield Settled(first, last, kind, reason=reason)
        return
    for (kind, reason), run in groupby(_KINDS[number] for number in types):
        length = sum(1 for _ in run)
        yield Settled(first, first + length - 1, kind, reason=reason)
        first += length


# --- answers -----------------------------------------------------------------------------------


@dataclass(slots=True)
class PartitionOutcome:
    """What there is to say of one partition of a request."""

    leases: Sequence[Lease] = ()
    """Messages that the member holds now."""
    records: memoryview | Payload = NO_RECORDS
    error: PenstockError | None = None
    """Why no messages can be had."""
    settle_error: PenstockError | None = None
    """Why something that became of messages could not be taken."""
    leader: tuple[int, int] = (_NO_LEADER, 0)
    """Broker and term, where the error is that this is not the leader."""


def fetch_response(
    outcomes: Mapping[Key, PartitionOutcome],
    lease_ms: int,
    endpoints: Sequence[NodeEndpoint] = (),
) -> fetching.ShareFetchResponse:
    """outcomes: of the partitions about which there is something to say."""
    responses = [
        fetching.ShareFetchableTopicResponse(
            topic_id, [_fetched(number, outcome) for number, outcome in partitions]
        )
        for topic_id, partitions in _by_topic(outcomes).items()
    ]
    return fetching.ShareFetchResponse(
        acquisition_lock_timeout_ms=lease_ms, responses=responses, node_endpoints=endpoints
    )


def acknowledge_response(
    outcomes: Mapping[Key, PartitionOutcome],
    lease_ms: int,
    endpoints: Sequence[NodeEndpoint] = (),
) -> acknowledging.ShareAcknowledgeResponse:
    responses = [
        acknowledging.ShareAcknowledgeTopicResponse(
            topic_id, [_acknowledged(number, outcome) for number, outcome in partitions]
        )
        for topic_id, partitions in _by_topic(outcomes).items()
    ]
    return acknowledging.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lease_ms, responses=responses, node_endpoints=endpoints
    )


def _by_topic(
    outcomes: Mapping[Key, PartitionOutcome],
) -> dict[bytes, list[tuple[int, PartitionOutcome]]]:
    topics: dict[bytes, list[tuple[int, PartitionOutcome]]] = {}
    for (topic_id, number), outcome in outcomes.items():
        topics.setdefault(topic_id, []).append((number, outcome))
    return topics


def _fetched(number: int, outcome: PartitionOutcome) -> fetching.PartitionData:
    code, message = code_and_message(outcome.error)
    settle_code, settle_message = code_and_message(outcome.settle_error)
    return fetching.PartitionData(
        partition_index=number,
        error_code=code,
        error_message=message,
        acknowledge_error_code=settle_code,
        acknowledge_error_message=settle_message,
        current_leader=LeaderIdAndEpoch(*outcome.leader),
        records=outcome.records,
        acquired_records=list(_acquired(outcome.leases)),
    )


def _acquired(leases: Iterable[Lease]) -> Iterator[fetching.AcquiredRecords]:
    """In the order of the log, whatever order they were handed out in: consumers walk through both
    together."""
    for lease in sorted(leases):
        count = min(lease.attempt, _DELIVERY_COUNT_MAX)
        yield fetching.AcquiredRecords(lease.first, lease.last, count)


def _acknowledged(number: int, outcome: PartitionOutcome) -> acknowledging.PartitionData:
    code, message = code_and_message(outcome.error or outcome.settle_error)
    leader = LeaderIdAndEpoch(*outcome.leader)
    return acknowledging.PartitionData(number, code, message, leader)
