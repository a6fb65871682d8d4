"""DeleteRecords: let everything before an offset be gone."""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.lookup import find_partition
from penstock.model.errors import PenstockError, PolicyViolation
from penstock.model.ids import check_public
from penstock.protocol.kafka.errors import code_of
from penstock.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.replication.replica.replica import Replica

_ALL: Final = -1


async def delete_records(context: Context, call: Call) -> DeleteRecordsResponse:
    request: DeleteRecordsRequest = call.request
    # All are begun before the first is waited for, so that one flush covers many.
    begun = [
        (topic.name, [_begin(context, topic.name, wanted) for wanted in topic.partitions])
        for topic in request.topics
    ]
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name, [await deletion.result() for deletion in deletions])
            for name, deletions in begun
        ]
    )


class _Deletion:
    """One partition's part of the answer, as it comes about."""

    __slots__ = ("_ended", "_result", "replica")

    def __init__(self, number: int) -> None:
        self._result = DeleteRecordsPartitionResult(number, low_watermark=-1)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.replica: Replica | None = None

    def done(self, error: PenstockError | None) -> None:
        if error is not None:
            self._result.error_code = code_of(error)
        elif self.replica is not None:
            self._result.low_watermark = self.replica.log.start_offset
        if not self._ended.done():
            self._ended.set_result(None)

    async def result(self) -> DeleteRecordsPartitionResult:
        await self._ended
        return self._result


def _begin(context: Context, topic: str, wanted: DeleteRecordsPartition) -> _Deletion:
    deletion = _Deletion(wanted.partition_index)
    try:
        check_public(topic)
        partition = find_partition(context, topic, wanted.partition_index)
        if not partition.config.has_retention:
            raise PolicyViolation(
                f"{topic!r} is compacted and never deletes by age or size: nor by offset. Let its "
                "cleanup.policy include delete."
            )
        replica = deletion.replica = partition.replica
        offset = replica.high_watermark if wanted.offset == _ALL else wanted.offset
        replica.delete_before(offset, deletion.done)
    except PenstockError as error:
        deletion.done(error)
    return deletion
