"""Tells the broker how far a group has come: often enough, one call at a time.

What may be committed is `progress`'s to say. The invariant: at most one commit is under
way, and the next carries everything acknowledged meanwhile, so acknowledging a million messages
costs a handful of calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from penstock.client.concurrency.backoff import Backoff
from penstock.client.connection.routes import GROUPS, Routes
from penstock.client.consuming.progress import Progress
from penstock.client.reading.teller import Teller
from penstock.model.errors import (
    Busy,
    ClientClosed,
    InvalidRequest,
    PartitionLost,
    PenstockError,
    StaleMemberEpoch,
    UnknownGroup,
    UnknownMember,
)
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import COMMIT_OFFSETS, FETCH_OFFSETS
from penstock.records import Message

logger = logging.getLogger(__name__)

# Progress gather for so long. After a crash the messages of this time come once more.
COMMIT_INTERVAL_S: Final = 0.05
# Who closes a consumer waits no longer for a broker that is gone.
CLOSE_TIMEOUT_S: Final = 5.0


class Member(Protocol):
    """Who commits, where the group has members."""

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    async def renew(self, epoch: int) -> None:
        """Returns when the group was asked for another epoch; raises that it cannot be."""


class Committer(Teller):
    """The place of one group in the partitions that one consumer reads."""

    def __init__(self, group: str, routes: Routes, backoff: Backoff) -> None:
        super().__init__(COMMIT_INTERVAL_S, backoff)
        self.group = group
        self._routes = routes
        self.member: Member | None = None
        """As whom it commits; None: as nobody, which a group without members takes."""
        self.progress: dict[tuple[str, int], Progress] = {}
        # Acknowledged in other threads and not counted yet. A deque's ends are atomic.
        self._inbox: deque[Message] = deque()
        self._is_wake_due = False
        self._lock = asyncio.Lock()
        self._is_closed = False

    @property
    def standstill(self) -> asyncio.Lock:
        """While it is held, nothing is committed, nor is anything on its way."""
        return self._lock

    def note(self, message: Message) -> None:
        """A message is dealt with: count it, and have it committed if that is news."""
        progress = self.progress.get((message.topic, message.partition))
        if progress is None:
            logger.debug(
                "%s-%d was taken away before offset %d was acknowledged: whoever has it reads the "
                "message again.",
                message.topic,
                message.partition,
                message.offset,
            )
        elif progress.acknowledge(message.offset):
            self.wake()

    def is_open(self, message: Message) -> bool:
        """Whether it is this consumer's, and not acknowledged yet."""
        progress = self.progress.get((message.topic, message.partition))
        return progress is not None and not progress.is_acknowledged(message.offset)

    def post(self, message: Message) -> bool:
        """Like `note`, from another thread. True if `wake` has to be called in the loop's."""
        self._inbox.append(message)
        is_first = not self._is_wake_due
        self._is_wake_due = True
        return is_first

    def raise_failure(self) -> None:
        """Raise what the last commit in the background failed by, once; or that it is too late."""
        if self._is_closed:
            raise ClientClosed("The consumer was closed before the message was acknowledged.")
        super().raise_failure()

    async def commit_all(self) -> None:
        """Like `commit`, and raises PartitionLost where partitions were taken away before."""
        wanted = {
            partition: (self.progress[partition], low) for partition, low in self._due().items()
        }
        await self.commit()
        lost = [
            f"{topic}-{number}"
            for (topic, number), (progress, low) in wanted.items()
            if self.progress.get((topic, number)) is not progress
            and (progress.committed is None or progress.committed < low)
        ]
        if lost:
            raise PartitionLost(
                f"Group {self.group} has taken {', '.join(lost)} away before the place there was "
                "committed: whoever has it next reads the messages again."
            )

    async def commit(self) -> None:
        """Commit everything acknowledged so far; returns when the broker has it. What is taken away
        meanwhile is left out."""
        async with self._lock:
            while lows := self._due():
                sent = {partition: self.progress[partition] for partition in lows}
                if not await self._send(lows):
                    continue  # some of it may be somebody else's by now
                for partition, progress in sent.items():
                    progress.committed = lows[partition]
                return

    async def commit_at(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit these offsets, whatever was acknowledged."""
        async with self._lock:
            self._count_posted()
            while True:
                self._check_held(offsets)
                if await self._send(offsets):
                    break
            for partition, offset in offsets.items():
                if partition in self.progress:
                    self.progress[partition].place_was_set(offset)

    async def close(self) -> None:
        """Commit for the last time. A broker that cannot be reached is not waited for long."""
        self._is_closed = True
        due = self._due()  # a member that hears nothing meanwhile loses all, and its place with it
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.commit()
        except (TimeoutError, PenstockError) as error:
            if isinstance(error, PenstockError) and not _may_succeed(error):
                raise
            logger.warning(
                "Group %s could not commit its place (%s) before it was closed, and will read the "
                "messages before it again: %s",
                self.group,
                ", ".join(
                    f"{topic}-{partition} at {low}" for (topic, partition), low in due.items()
                ),
                str(error) or f"there was no answer for {CLOSE_TIMEOUT_S:g} s.",
            )

    async def committed(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """The group's place as the broker has it, in the partitions where it has one."""
        return await fetch_offsets(self._routes, self.group, topics)

    async def _tell(self) -> None:
        await self.commit()

    def _passes(self, error: PenstockError) -> bool:
        if not _may_succeed(error):
            return False
        logger.warning("Group %s cannot commit now: %s", self.group, error)
        return True

    async def _send(self, offsets: Mapping[tuple[str, int], int]) -> bool:
        """False: the member had an epoch that the group has left behind. It has another one now."""
        member = self.member
        if member is None:
            await commit_offsets(self._routes, self.group, offsets)
            return True
        epoch = member.epoch
        try:
            await commit_offsets(self._routes, self.group, offsets, member.member_id, epoch)
        except (StaleMemberEpoch, UnknownGroup, UnknownMember) as error:
            logger.debug("A commit of group %s is tried again: %s", self.group, error)
            await member.renew(epoch)
            return False
        except PartitionLost:
            # The next heartbeat's answer says so too, and what is not this member's goes.
            await member.renew(epoch)
            raise
        return True

    def _check_held(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """What another member reads is not this one's to commit."""
        if self.member is None:
            return
        for topic, partition in offsets:
            if (topic, partition) not in self.progress:
                raise InvalidRequest(
                    f"Group {self.group} has not given {topic}-{partition} to this consumer, or "
                    "has taken it away: only who reads it commits its offset."
                )

    def _due(self) -> dict[tuple[str, int], int]:
        """Where the group's place has moved to, in the partitions where it has."""
        self._count_posted()
        return {
            partition: progress.low
            for partition, progress in self.progress.items()
            if progress.is_due
        }

    def _count_posted(self) -> None:
        # Put down first: whatever is posted after this finds it down, and has the loop woken.
        self._is_wake_due = False
        while self._inbox:
            message = self._inbox.popleft()
            try:
                self.note(message)
            except Busy as error:  # its own caller has gone: the next one is told
                self._failure = error


def _may_succeed(error: PenstockError) -> bool:
    """Whether the next commit may succeed: what was taken away is not in it any more."""
    return error.retriable or isinstance(error, PartitionLost)


async def commit_offsets(
    routes: Routes,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    member_id: str = "",
    member_epoch: int = 0,
) -> None:
    """Set the next offset to read, for each partition given; as a member, where there are any."""
    request = pb.CommitOffsetsRequest(group=group, member_id=member_id, member_epoch=member_epoch)
    for (topic, partition), offset in offsets.items():
        request.offsets.add(topic=topic, partition=partition, offset=offset)
    await routes.call_coordinator(GROUPS, COMMIT_OFFSETS, request)


async def fetch_offsets(
    routes: Routes, group: str, topics: Iterable[str] = ()
) -> dict[TopicPartition, int]:
    """The next offset to read of each partition the group has one for. No topics: all it has."""
    request = pb.FetchOffsetsRequest(group=group, topics=topics)
    answer = await routes.call_coordinator(GROUPS, FETCH_OFFSETS, request)
    return {TopicPartition(entry.topic, entry.partition): entry.offset for entry in answer.offsets}
