"""A consumer as a member of its group: it says that it lives, and hears what the group gives it.

The coordinator decides who reads what (R-DEL-4); `given` follows. The invariants: whoever the group
may have taken for dead has lost everything, and joins again; and what was said or heard by a
heartbeat that may be lost is said and heard again.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from penstock.client.concurrency.hindrance import Hindrance
from penstock.client.concurrency.tasks import TaskScope
from penstock.client.config import ClientConfig
from penstock.client.connection.routes import GROUPS, Routes
from penstock.client.consuming.given import GivenPartitions
from penstock.client.consuming.partitions import OwnPartitions
from penstock.client.consuming.settings import ConsumerConfig
from penstock.client.reading.missing_topics import MissingTopics
from penstock.model.errors import (
    FencedMemberEpoch,
    PenstockError,
    UnknownMember,
    UnreleasedInstance,
)
from penstock.model.ids import TopicPartition
from penstock.model.limits import MEMBER_LOST_MS_MAX
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import GROUP_HEARTBEAT

logger = logging.getLogger(__name__)

# How long a member may take to give partitions up: what its user does about it, and a commit.
REBALANCE_TIMEOUT_MS: Final = 60_000
# Who leaves waits no longer for a coordinator that is gone.
_PATIENCE_S: Final = 5.0
# A heartbeat that is not answered within this time is tried with another broker.
_ANSWER_S_MAX: Final = 5.0
# Who has crashed holds its instance id until it is given up, and the one that comes instead waits.
_RELEASED_S_MAX: Final = 2 * MEMBER_LOST_MS_MAX / 1000
# Whatever the session: a broker ends a connection that hangs after this time, and then counts.
_SILENT_S_MAX: Final = 30.0
_JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
# Of a member with an instance id: what it has is kept for it.
_TEMPORARY_LEAVE_EPOCH: Final = -2


class GroupMembership:
    """One consumer in one group."""

    def __init__(
        self,
        routes: Routes,
        config: ClientConfig,
        topics: Sequence[str],
        settings: ConsumerConfig,
        own: OwnPartitions,
        changing: asyncio.Lock,
        on_failure: Callable[[PenstockError], None],
    ) -> None:
        """changing: is held by whoever changes what is read. on_failure: is told why the group does
        not want this member any more."""
        self._routes = routes
        self._backoff = config.backoff
        self._answer_s = min(config.request_timeout_s, _ANSWER_S_MAX)
        self._start_s = config.request_timeout_s
        assert settings.group is not None, "only a group has members"
        self._group = settings.group
        self._name = settings.name or config.client_name
        self._topics = topics
        self._manual = settings.manual(topics)
        self._settings = settings
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._scope = TaskScope()
        self.member_id = f"{self._name}-{uuid.uuid4()}"
        self.epoch = _JOIN_EPOCH
        """Which the group gave it last."""
        self._may_be_member = False
        # Whether the group is to be told everything, and to tell everything: an answer may be lost,
        # or what it said.
        self._must_say_all = True
        self._interval_s = 1.0
        # When the last heartbeat that was answered was sent, and by which channel; from then on the
        # group waits for the next, less long where it has seen the connection end.
        self._session_s = self._lost_s = float("inf")
        self._heard_at_s = 0.0
        self._channel: Channel | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._failures = 0
        self._is_watching = False
        self._has_reason = asyncio.Event()  # not to wait for the next heartbeat's time
        self._missing = MissingTopics(
            routes, config.backoff, settings.on_missing_topic, self._has_reason.set
        )
        self._given = GivenPartitions(
            self.member_id, settings, own, changing, config.backoff, self._has_reason.set
        )
        self._renewals: list[asyncio.Future[None]] = []

    # --- coming and going ----------------------------------------------------------------------

    async def start(self) -> None:
        """Join, and begin to read what the group gives at once. Under `changing`."""
        there = await self._missing.look(self._topics)
        if self._manual is not None and len(there) < len(self._topics):
            # What is claimed must be there; what is subscribed to the group assigns when it comes.
            await self._missing.found()
            there = await self._missing.look(self._topics)
        self._given.counts = {route.topic: route.partition_count for route in there}
        self._routes.watch(self._on_connection_end)
        self._is_watching = True
        try:
            await self._join()
            self._scope.start(self._stay(), name=f"heartbeats for {self._group}")
            await self._given.reconcile()
        except BaseException:
            # Whoever starts it again joins again.
            self._given.forget()
            await self.leave()
            raise
        self._scope.start(self._given.follow(), name=f"assignments of {self._group}")

    async def leave(self) -> None:
        """Nothing is read for the group any more. What is to be committed has been."""
        await self._missing.close()
        await self._scope.close()
        if self._is_watching:
            self._is_watching = False
            self._routes.unwatch(self._on_connection_end)
        if self._silence is not None:
            self._silence.cancel()
        self._resolve(None)
        if not self._may_be_member:
            return
        self._may_be_member = False
        is_static = self._settings.instance_id is not None
        request = self._request(_TEMPORARY_LEAVE_EPOCH if is_static else _LEAVE_EPOCH)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                channel = await self._routes.coordinator(GROUPS)
                await channel.call(GROUP_HEARTBEAT, request, timeout_s=self._answer_s)
        except (TimeoutError, PenstockError) as error:
            logger.debug("%s could not say goodbye to its group: %s", self.member_id, error)

    async def renew(self, epoch: int) -> None:
        """Somebody was refused with this epoch: returns when the group was asked for another, and
        raises why it cannot be asked."""
        if not self._may_be_member:
            raise UnknownMember(f"The consumer has left group {self._group}.")
        if self.epoch == epoch:
            waiting = self._loop.create_future()
            self._renewals.append(waiting)
            self._has_reason.set()
            await waiting

    # --- heartbeats ----------------------------------------------------------------------------

    async def _join(self) -> None:
        self.epoch = _JOIN_EPOCH
        began_s = self._loop.time()
        hindrance = Hindrance(logger, f"Group {self._group}", "joined")
        while True:
            try:
                await self._beat()
                hindrance.overcome()
                return
            except PenstockError as error:
                wait_s = self._backoff.wait_s(self._failures - 1)
                if isinstance(error, UnreleasedInstance):
                    patience_s = min(_RELEASED_S_MAX, self._start_s)
                else:
                    patience_s = self._start_s if error.retriable else 0.0
                now_s = self._loop.time()
                left_s = began_s + patience_s - now_s
                if wait_s >= left_s:
                    raise
                if not isinstance(error, UnreleasedInstance):  # that ends by itself
                    hindrance.met(now_s, left_s, error)
            await asyncio.sleep(wait_s)

    async def _stay(self) -> None:
        """Heartbeats, when they are due and when there is a reason; until it is cancelled."""
        while True:
            await self._wait()
            try:
                await self._beat()
            except (UnknownMember, FencedMemberEpoch) as error:
                # It was silent for too long, or too slow to give something up.
                logger.warning("%s joins its group again: %s", self.member_id, error)
                self.epoch = _JOIN_EPOCH
                self._lose_everything()
            except PenstockError as error:
                if not error.retriable:
                    self._may_be_member = False
                    self._lose_everything()
                    self._on_failure(error)
                    return
                if self._failures == 1:
                    logger.warning("Group %s cannot be asked now: %s", self._group, error)

    async def _wait(self) -> None:
        if self._failures:
            # The first retry is at once, with another broker; from then on there are waits.
            await asyncio.sleep(self._backoff.wait_s(self._failures - 1))
            return
        try:
            async with asyncio.timeout(self._interval_s):
                await self._has_reason.wait()
        except TimeoutError:
            pass
        self._has_reason.clear()

    async def _beat(self) -> None:
        request = self._request(self.epoch)
        self._may_be_member = True
        # Set again by whatever happens before the answer comes.
        self._must_say_all = False
        sent_at_s = self._loop.time()
        try:
            channel = await self._routes.coordinator(GROUPS, refresh=self._failures > 0)
            answer, _ = await channel.call(GROUP_HEARTBEAT, request, timeout_s=self._answer_s)
        except PenstockError as error:
            self._failures += 1
            self._must_say_all = True
            self._resolve(error if error.retriable else None)
            raise
        self._failures = 0
        self.epoch = answer.member_epoch
        self._interval_s = answer.heartbeat_interval_ms / 1000
        self._session_s = min(answer.session_timeout_ms / 1000, _SILENT_S_MAX)
        # An older broker says nothing of it.
        self._lost_s = min(answer.lost_ms / 1000 or self._session_s, self._session_s)
        self._heard_at_s, self._channel = sent_at_s, channel
        self._watch_silence()
        self._given.hear(partitions_given(answer.assignment) if answer.has_assignment else None)
        self._resolve(None)

    def _request(self, epoch: int) -> pb.GroupHeartbeatRequest:
        settings = self._settings
        request = pb.GroupHeartbeatRequest(
            group=self._group,
            member_id=self.member_id,
            member_epoch=epoch,
            client_name=self._name,
            owned=_owned(self._given.owned),
        )
        if settings.instance_id is not None:
            request.instance_id = settings.instance_id
        # Everything, where the group knows nothing yet or an answer may have been lost.
        if epoch == _JOIN_EPOCH or self._must_say_all:
            request.is_full = True
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.topics.extend(self._topics)
            manual = self._manual
            request.assignor = (settings.assignor or "") if manual is None else "manual"
            request.claims.extend(_owned(manual or ()))
            request.point_to_point = settings.point_to_point
        return request

    def _resolve(self, error: PenstockError | None) -> None:
        renewals, self._renewals = self._renewals, []
        for waiting in renewals:
            if waiting.done():
                continue
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)

    def _lose_everything(self) -> None:
        """Others may read all of it by now."""
        self._given.lose()
        self._must_say_all = True

    # --- silence -------------------------------------------------------------------------------

    def _on_connection_end(self, channel: Channel, error: PenstockError | None) -> None:
        del error
        if channel is self._channel:
            self._watch_silence()
            self._has_reason.set()

    def _watch_silence(self) -> None:
        """Lose everything when the group may take this member for dead."""
        if self._silence is not None:
            self._silence.cancel()
        assert self._channel is not None
        is_lost = self._channel.connection.is_closed
        patience_s = self._lost_s if is_lost else self._session_s
        self._silence = self._loop.call_at(
            self._heard_at_s + patience_s, self._on_silence, patience_s
        )

    def _on_silence(self, patience_s: float) -> None:
        if self._given.is_any:
            logger.warning(
                "%s stops reading: its group was not to be asked for %g s.",
                self.member_id,
                patience_s,
            )
            self._lose_everything()


def _owned(partitions: Iterable[tuple[str, int]]) -> list[pb.OwnedTopic]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return [pb.OwnedTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]


def partitions_given(assignment: Iterable[pb.OwnedTopic]) -> list[TopicPartition]:
    """What a group has given to one of its members."""
    return [
        TopicPartition(owned.topic, number) for owned in assignment for number in owned.partitions
    ]
