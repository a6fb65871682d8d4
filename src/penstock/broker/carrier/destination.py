"""Where staged batches go: a partition that this broker leads, or one that another does.

Not in which order, and not again: that is `copy`'s. Another broker is told which coordinator
speaks, and does not listen to one that was replaced: it may have slept through that. The invariant:
the end of an append is told once, without an error only when the batch is committed.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.broker.carrier.append import append_staged
from penstock.broker.carrier.parts import Parts
from penstock.broker.partitions.partition import Append, Partition
from penstock.coordination.staging.records import StagedBatch
from penstock.model.errors import Busy, NotLeader, PenstockError, StorageError
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import COPY
from penstock.records.header import BatchHeader, read_header, write_header

logger = logging.getLogger(__name__)

_SEQUENCE_MAX: Final = 2**31 - 1
# A topic that is neither here nor among the deleted ones may have been made just now, by another
# broker whose news are on their way. Then it is gone, and was deleted long ago.
_MISSING_S: Final = 30.0


class Destination:
    """A partition, and the place of the next batch in what one decision brings it."""

    def __init__(self, parts: Parts, staged: StagedBatch, producer_id: int, term: int) -> None:
        """term: of the coordinator of staged writes, who sends."""
        self._parts = parts
        self._name = TopicPartition(staged.topic, staged.partition)
        self._topic_id = staged.topic_id
        self._producer_id = producer_id
        self._coordinator_term = term
        # Where it was led here when the last batch came.
        self._partition: Partition | None = None
        self._is_gone = False
        self._epoch = 0
        self._sequence = 0

    def append(self, batch: bytearray, append: Append) -> bool:
        """Send a batch on its way, as the next one; the end of the turn must follow. False if there
        is nowhere to go any more: its topic was deleted, as rows that were written before are."""
        header = self._numbered(batch)
        try:
            partition = self._find()
        except NotLeader:
            self._send(batch, append)
            return True
        if partition is None:
            return False
        append_staged(partition, header, memoryview(batch), append, self._parts.clock)
        return True

    def forget_producer(self) -> None:
        """It will not come again. Other brokers forget it in their own time: what comes too late
        from a coordinator that was replaced they must still know."""
        partition = self._partition
        if partition is not None and partition.is_open and partition.replica.is_leader:
            partition.producers.forget(self._producer_id)

    def _numbered(self, batch: bytearray) -> BatchHeader:
        """Under the decision's producer, with the epoch and the sequence that come next."""
        header = read_header(batch)
        count = header.record_count
        if self._sequence + count > _SEQUENCE_MAX:
            self._epoch += 1
            self._sequence = 0
        header = header._replace(
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
        )
        self._sequence += count
        write_header(batch, header)
        return header

    def _find(self) -> Partition | None:
        """The partition, which this broker leads: NotLeader; None if its topic was deleted."""
        partition = self._partition
        if partition is None or not (partition.is_open and partition.replica.is_leader):
            if not self._exists():
                return None
            partition = self._partition = self._parts.leaders.find(*self._name)
        return partition

    def _exists(self) -> bool:
        """Busy as long as that is not known."""
        if self._is_gone:
            return False
        image, missing_since_s = self._parts.registry.image, self._parts.missing_since_s
        topic = image.topics.get(self._name.topic)
        if topic is not None and topic.id == self._topic_id:
            missing_since_s.pop(self._topic_id, None)
            self._is_gone = topic.deleting
        elif any(one.topic_id == self._topic_id for one in image.deleted_topics):
            self._is_gone = True
        else:
            now_s = self._parts.clock.monotonic()
            if now_s - missing_since_s.setdefault(self._topic_id, now_s) < _MISSING_S:
                raise Busy(f"This broker has not heard of topic {self._name.topic!r} yet.")
            self._is_gone = True
        if self._is_gone:
            logger.warning(
                "Topic %s was deleted before all that was staged for it could be written.",
                self._name.topic,
            )
        return not self._is_gone

    def _send(self, batch: bytearray, append: Append) -> None:
        channel = self._parts.way_to(self._name)
        request = pb.CopyRequest(
            topic=self._name.topic,
            topic_id=self._topic_id,
            partition=self._name.partition,
            coordinator_term=self._coordinator_term,
        )

        def answered(error: PenstockError | None, *_: memoryview) -> None:
            if error is not None and not (error.retriable or isinstance(error, StorageError)):
                # One before it was lost on the way, or the other broker does not know the topic
                # yet: the next try shows.
                error = Busy(f"{self._name} did not take a committed batch: {error}")
            append.finished(error)

        channel.start_call(COPY.number, request.SerializeToString(), (batch,), answered)
