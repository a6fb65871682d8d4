"""Delayed messages that are due, into their partition: led here, or by another broker.

Appended if they are the next ones of their lane; whether they were or not, the answer is where the
lane stands in the partition, durably. So whoever sends, after whatever crash, finds out what is
there and goes on behind it. The invariant: of one producer id a partition has each sequence once
and in order, and what it says it has, it keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.broker.carrier.append import Carried
from penstock.broker.carrier.parts import Parts
from penstock.broker.partitions.partition import Partition
from penstock.coordination.delay.table import Lane
from penstock.model.errors import NotLeader, PenstockError, StorageFailed, UnknownTopicId
from penstock.model.ids import TopicPartition
from penstock.net.clock import Clock
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import APPEND_DUE, parse
from penstock.records.header import BatchHeader, read_header, stamp_append_time

EPOCH_SEQUENCES: Final = 2**31
"""Sequences are numbered from 0 in each epoch; so many messages, and the next epoch begins."""


class Stand(NamedTuple):
    """Where a lane stands in its partition: how many messages of it are there, as far as the
    partition remembers; it may have forgotten all of them."""

    is_known: bool
    messages: int


NOT_KNOWN: Final = Stand(False, 0)
Told = Callable[[PenstockError | None, Stand], None]


class DueDestinations:
    """What it takes to reach any partition."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def exists(self, lane: Lane) -> bool:
        """Whether its topic is there, as far as this broker knows."""
        topic = self._parts.registry.image.topics.get(lane.topic)
        return topic is not None and not topic.deleting and topic.id == lane.topic_id

    def append(
        self, lane: Lane, producer_id: int, term: int, batch: bytearray | None, told: Told
    ) -> None:
        """Send the batch, or only ask. What is refused at once is raised, and `told` not called."""
        try:
            partition = self._parts.leaders.find(lane.topic, lane.partition)
        except NotLeader:
            self._send(lane, producer_id, term, batch, told)
            return
        check_topic(partition, lane.topic_id)
        header = None if batch is None else read_header(batch)
        try:
            view = None if batch is None else memoryview(batch)
            append_due(partition, producer_id, header, view, told, self._parts.clock)
        finally:
            self._parts.driver.end_turn()

    def _send(
        self, lane: Lane, producer_id: int, term: int, batch: bytearray | None, told: Told
    ) -> None:
        channel = self._parts.way_to(TopicPartition(lane.topic, lane.partition))
        request = pb.AppendDueRequest(
            topic=lane.topic,
            topic_id=lane.topic_id,
            partition=lane.partition,
            coordinator_term=term,
            producer_id=producer_id,
        )

        def answered(
            error: PenstockError | None, envelope: memoryview, payload: memoryview
        ) -> None:
            del payload
            stand = NOT_KNOWN
            if error is None:
                try:
                    stand = _read_stand(parse(pb.AppendDueResponse, envelope))
                except PenstockError as malformed:
                    error = malformed
            told(error, stand)

        payloads = () if batch is None else (batch,)
        channel.start_call(APPEND_DUE.number, request.SerializeToString(), payloads, answered)


def append_due(
    partition: Partition,
    producer_id: int,
    header: BatchHeader | None,
    batch: memoryview | None,
    told: Told,
    clock: Clock,
) -> None:
    """On the leader: append the batch if it is the next one; its bytes are needed until the turn
    ends. header: of the batch."""
    last = partition.sequences.producers.last_batch(producer_id)
    if header is not None and batch is not None and _follows(header, last):
        if partition.config.timestamp_type == "append":
            stamp_append_time(batch, clock.now_ms())
            header = read_header(batch)
        after = Stand(True, _count(header.producer_epoch, header.last_sequence))
        partition.sequences.append(header, batch, Carried(lambda error: told(error, after)))
        return
    replica = partition.replica
    if replica.failure is not None:
        # It has cut off what it could not flush: where its log ends says nothing any more.
        raise StorageFailed(replica.failure.message)
    stand = NOT_KNOWN if last is None else Stand(True, _count(*last))
    # It may be that it is not committed yet.
    replica.when_committed(replica.log.next_offset, lambda error: told(error, stand))


def check_topic(partition: Partition, topic_id: str) -> None:
    if partition.topic_id != topic_id:
        raise UnknownTopicId(f"{partition.name.topic!r} is another topic than the one meant.")


def stand_response(stand: Stand) -> pb.AppendDueResponse:
    epoch, sequence = divmod(max(stand.messages - 1, 0), EPOCH_SEQUENCES)
    return pb.AppendDueResponse(
        is_known=stand.is_known, producer_epoch=epoch, last_sequence=sequence
    )


def _read_stand(response: pb.AppendDueResponse) -> Stand:
    if not response.is_known:
        return NOT_KNOWN
    return Stand(True, _count(response.producer_epoch, response.last_sequence))


def _follows(header: BatchHeader, last: tuple[int, int] | None) -> bool:
    first = header.producer_epoch * EPOCH_SEQUENCES + header.base_sequence
    return first == (0 if last is None else _count(*last))


def _count(epoch: int, last_sequence: int) -> int:
    return epoch * EPOCH_SEQUENCES + last_sequence + 1
