"""A member of a shared group: joins, says that it is there, is told where to lease, leaves.

Nothing is taken away from anybody when that changes: a message is held by a lease, whoever leases
from its partition. The invariant: after a member was thrown out it joins again, under the same
name, for as long as it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

from penstock.client.concurrency.backoff import Backoff
from penstock.client.connection.routes import GROUPS, Routes
from penstock.client.consuming.membership import partitions_given
from penstock.model.errors import FencedMemberEpoch, PenstockError, UnknownMember
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import GROUP_HEARTBEAT

logger = logging.getLogger(__name__)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
# Who closes a consumer waits no longer for a broker that is gone.
_LEAVE_TIMEOUT_S: Final = 2.0

Assigned = Callable[[Sequence[TopicPartition]], None]


class SharedGroupMembership:
    """One member."""

    def __init__(
        self,
        routes: Routes,
        backoff: Backoff,
        request: pb.GroupHeartbeatRequest,
        assigned: Assigned,
    ) -> None:
        """request: what it joins with. assigned: is told where to lease, when that changes."""
        self._routes = routes
        self._backoff = backoff
        self._joining = request
        self._assigned = assigned
        self._epoch = JOIN_EPOCH
        self._has_reason = asyncio.Event()

    async def join(self) -> float:
        """Become a member; the seconds until the next heartbeat. Raises if it is refused."""
        return await self._beat(JOIN_EPOCH)

    async def run(self, wait_s: float, fail: Callable[[PenstockError], None]) -> None:
        """Stay one; runs until it is cancelled, or the group does not want it any more."""
        failures = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._has_reason.wait()
            self._has_reason.clear()
            try:
                wait_s = await self._beat(self._epoch)
                failures = 0
            except (FencedMemberEpoch, UnknownMember) as error:
                logger.info("Joining group %s again: %s", self._joining.group, error)
                self._epoch, wait_s = JOIN_EPOCH, 0.0
            except PenstockError as error:
                if not error.retriable:
                    fail(error)
                    return
                failures += 1
                wait_s = self._backoff.wait_s(failures)
                logger.info("Group %s cannot be reached: %s", self._joining.group, error)

    def look_at_once(self) -> None:
        """The group may have something new to say."""
        self._has_reason.set()

    async def leave(self) -> None:
        """Say goodbye, if somebody listens."""
        request = pb.GroupHeartbeatRequest(
            group=self._joining.group,
            member_id=self._joining.member_id,
            member_epoch=LEAVE_EPOCH,
            shared=True,
        )
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                await self._routes.call_coordinator(GROUPS, GROUP_HEARTBEAT, request)
        except (TimeoutError, PenstockError) as error:
            logger.info("Group %s was left without a word: %s", self._joining.group, error)

    async def _beat(self, epoch: int) -> float:
        if epoch == JOIN_EPOCH:
            request = self._joining
        else:
            request = pb.GroupHeartbeatRequest(
                group=self._joining.group,
                member_id=self._joining.member_id,
                member_epoch=epoch,
                shared=True,
            )
        answer = await self._routes.call_coordinator(GROUPS, GROUP_HEARTBEAT, request)
        self._epoch = answer.member_epoch
        if answer.has_assignment:
            self._assigned(partitions_given(answer.assignment))
        return answer.heartbeat_interval_ms / 1000
