"""Offsets of a partition: by time, at its beginning and end, and by leader epoch (R-DEL-10)."""

from __future__ import annotations

from typing import Final

from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.lookup import NO_EPOCH, check_once, find_partition, repeated
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import PenstockError, UnsupportedVersion
from penstock.model.ids import TopicPartition
from penstock.protocol.kafka.errors import code_of
from penstock.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from penstock.protocol.kafka.schema import VERSION_MAX

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3  # KIP-734
_EARLIEST_LOCAL: Final = -4  # KIP-405
# Of storage beyond the broker's disk, which there is not.
_LATEST_TIERED: Final = -5  # KIP-1005
_EARLIEST_PENDING_UPLOAD: Final = -6  # KIP-1023
# The version of ListOffsets that brought each of them.
_SINCE: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_NOT_FOUND: Final = -1


def list_offsets(context: Context, call: Call) -> ListOffsetsResponse:
    request: ListOffsetsRequest = call.request
    twice = repeated(
        TopicPartition(topic.name, wanted.partition_index)
        for topic in request.topics
        for wanted in topic.partitions
    )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name,
                [
                    _list_offset(context, call, topic.name, wanted, twice)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _list_offset(
    context: Context,
    call: Call,
    topic: str,
    wanted: ListOffsetsPartition,
    twice: set[TopicPartition],
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(wanted.partition_index)
    try:
        check_once(TopicPartition(topic, wanted.partition_index), twice)
        if wanted.timestamp < 0 and _SINCE.get(wanted.timestamp, VERSION_MAX) > call.version:
            raise UnsupportedVersion(
                f"{wanted.timestamp} stands for no place in a partition in version {call.version}."
            )
        partition = find_partition(
            context, topic, wanted.partition_index, wanted.current_leader_epoch
        )
        response.offset, response.timestamp = _find_offset(partition, wanted.timestamp)
    except PenstockError as error:
        response.error_code = code_of(error)
        return response
    if response.offset != _NOT_FOUND:
        response.leader_epoch = partition.replica.term
    return response


def _find_offset(partition: Partition, timestamp: int) -> tuple[int, int]:
    """(offset, timestamp) of what a number stands for: a time, or a place."""
    replica = partition.replica
    log = replica.log
    if timestamp >= 0:
        found = log.offset_for_time(timestamp, replica.high_watermark)
        return found or (_NOT_FOUND, _NOT_FOUND)
    if timestamp == _LATEST:
        return replica.high_watermark, _NOT_FOUND
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return log.start_offset, _NOT_FOUND
    if timestamp == _MAX_TIMESTAMP:
        return log.max_timestamp(replica.high_watermark) or (_NOT_FOUND, _NOT_FOUND)
    assert timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD), timestamp
    return _NOT_FOUND, _NOT_FOUND


def offset_for_leader_epoch(context: Context, call: Call) -> OffsetForLeaderEpochResponse:
    request: OffsetForLeaderEpochRequest = call.request
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [_end_of_epoch(context, topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end_of_epoch(context: Context, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    response = EpochEndOffset(partition=wanted.partition)
    try:
        partition = find_partition(context, topic, wanted.partition, wanted.current_leader_epoch)
        # An epoch that has not begun has no end.
        if NO_EPOCH < wanted.leader_epoch <= partition.replica.term:
            found = partition.replica.log.end_offset_for_term(wanted.leader_epoch)
            response.leader_epoch, response.end_offset = found
    except PenstockError as error:
        response.error_code = code_of(error)
    return response
