"""Brings the partitions that this broker leads to where the registry wants them (R-REP-7).

The registry has each partition's target; its leader changes the membership, a step at a time, each
step decided by what is there now (`raft.reconfiguration`). So a crash needs no clean-up: whoever
leads next goes on. It also gives leadership back to the preferred broker, once that one has been in
sync for a while. Not the plans (`registry.placement`), and not the removal of copies that are none
any more (`broker.cluster.copy_removal`).

It costs nothing while nothing moves: all partitions are looked at when the registry's image has
changed, and every few seconds; often only those that are under way, which are a few at a time. The
invariant: what is changed here is led here, and one change at a time is not committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import Final, NamedTuple

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.model.ids import TopicPartition
from penstock.model.limits import LEADERS_RETURNED_MAX, PARTITIONS_CATCHING_UP_MAX
from penstock.net.clock import Clock
from penstock.raft.membership import Membership, Node
from penstock.raft.reconfiguration import Kind, Situation, Step, is_reached, next_step
from penstock.registry.api import Registry
from penstock.registry.image import ClusterImage, PartitionImage
from penstock.replication.disk.driver import Driver
from penstock.replication.peers.replicas import Replicas
from penstock.replication.replica.participant import Participant

logger = logging.getLogger(__name__)

# How often is looked at what is under way, and at everything.
_LOOK_S: Final = 0.05
_SWEEP_S: Final = 2.0
# So long after a step the next one is soon to be expected.
_EXPECTED_S: Final = 1.0
# A preferred leader that has been in sync for so long is not about to fail again.
_STEADY_S: Final = 10.0
# Between two attempts to let another lead: each keeps producers waiting.
_HAND_OVER_AGAIN_S: Final = 5.0


class _Led(NamedTuple):
    """A partition that this broker leads, and where it should be."""

    partition: Partition
    participant: Participant
    placement: PartitionImage


class _Reached(NamedTuple):
    """By these a partition was where it should be: as long as they are the same, it is."""

    membership: Membership
    placement: PartitionImage
    alive: dict[int, Node]

    def is_same(self, other: _Reached) -> bool:
        return all(mine is its for mine, its in zip(self, other, strict=True))


class Movement:
    """One per broker of a cluster."""

    def __init__(
        self,
        me: Node,
        registry: Registry,
        partitions: Partitions,
        replicas: Replicas,
        driver: Driver,
        clock: Clock,
    ) -> None:
        self._me = me
        self._registry = registry
        self._partitions = partitions
        self._replicas = replicas
        self._driver = driver
        self._clock = clock
        self._image: ClusterImage | None = None
        self._alive: dict[int, Node] = {}
        # To be looked at; under way, with the time of the last step; and waiting to be under way,
        # by the broker that is to catch up.
        self._changed: dict[TopicPartition, None] = {}
        self._moving: dict[TopicPartition, float] = {}
        self._queued: dict[int, dict[TopicPartition, None]] = {}
        self._reached: dict[TopicPartition, _Reached] = {}
        # Since when the preferred leader is in sync, and when another was last asked to lead.
        self._steady_since: dict[TopicPartition, float] = {}
        self._handed_over: dict[TopicPartition, float] = {}
        self._sweep_at = 0.0
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.attend()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def attend(self) -> None:
        """From now on know what `look` has to look at."""
        self._registry.watch(self._on_image)
        self._on_image(self._registry.image)
        self._partitions.watch_leadership(self._on_leadership)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception:
                # A bug of ours must not end all movement; what is under way is looked at again.
                logger.exception("Moving partitions failed in a way nobody foresaw")
            patience_s = _LOOK_S if self._moving or self._changed else _SWEEP_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._woken.wait()
            self._woken.clear()

    def look(self) -> None:
        """Take all steps that can be taken now."""
        now = self._clock.monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_S
            self._sweep(now)
        names, self._changed = [*(self._changed | self._moving)], {}
        learning = self._learning()
        for name in names:
            self._attend(name, learning, now)
        for broker, queue in self._queued.items():
            while queue and learning[broker] < PARTITIONS_CATCHING_UP_MAX:
                name = next(iter(queue))
                del queue[name]
                self._attend(name, learning, now)
        self._driver.end_turn()

    def let_lead(self, partition: Partition) -> bool:
        """Let the preferred broker lead a partition that this one leads; whether that can be
        tried: it must vote and have everything."""
        led = self._find(partition.name)
        preferred = None if led is None else self._alive.get(led.placement.replicas[0])
        if led is None or preferred is None or preferred not in led.partition.replica.in_sync:
            return False
        is_tried = led.participant.transfer(preferred)
        self._driver.end_turn()
        return is_tried

    # --- what there is to look at ----------------------------------------------------------------

    def _on_image(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        if before is not None and before.topics is image.topics and before.brokers == image.brokers:
            return
        alive: dict[int, Node] = {key: broker.node for key, broker in image.brokers.items()}
        # The image may be a moment behind.
        alive[self._me.broker] = self._me
        if alive != self._alive:
            self._alive = alive
        self._sweep_at = 0.0
        self._woken.set()

    def _on_leadership(self, partition: Partition, is_leader: bool) -> None:
        if is_leader:
            # It has yet to hear how far the others are.
            self._moving[partition.name] = self._clock.monotonic()
            self._woken.set()
        else:
            self._steady_since.pop(partition.name, None)

    def _find(self, name: TopicPartition) -> _Led | None:
        """The partition, if it is led here and is to be somewhere."""
        partition = self._partitions.get(*name)
        return None if partition is None else self._led(partition)

    def _led(self, partition: Partition) -> _Led | None:
        topic = self._registry.image.topics.get(partition.name.topic)
        number = partition.name.partition
        participant = self._replicas.find(partition.replica.partition)
        if (
            participant is None
            or not partition.replica.is_leader
            or topic is None
            or topic.deleting
            or topic.id != partition.topic_id
            or number >= len(topic.partitions)
        ):
            return None
        return _Led(partition, participant, topic.partitions[number])

    def _sweep(self, now: float) -> None:
        """Find what is not where it should be, or is not led by whom it should be."""
        returned = 0
        partitions = self._partitions.all()
        self._forget(len(partitions))
        for partition in partitions:
            name = partition.name
            if not partition.replica.is_leader or (led := self._led(partition)) is None:
                self._reached.pop(name, None)
                continue
            seen = _Reached(led.participant.membership, led.placement, self._alive)
            reached = self._reached.get(name)
            if reached is None or not reached.is_same(seen):
                self._changed[name] = None
            elif self._is_return_due(led, now) and returned < LEADERS_RETURNED_MAX:
                returned += 1
                self._hand_over(led, self._alive[led.placement.replicas[0]], now)

    def _forget(self, count: int) -> None:
        """What was noted of partitions that are gone must not pile up."""
        for noted in (self._reached, self._steady_since, self._handed_over):
            if len(noted) > count:
                for name in [name for name in noted if self._partitions.get(*name) is None]:
                    del noted[name]

    def _is_return_due(self, led: _Led, now: float) -> bool:
        """Whether the preferred leader should lead instead (R-REP-7)."""
        name, preferred = led.partition.name, self._alive.get(led.placement.replicas[0])
        if preferred == self._me or preferred not in led.partition.replica.in_sync:
            self._steady_since.pop(name, None)
            return False
        return now - self._steady_since.setdefault(name, now) >= _STEADY_S

    def _learning(self) -> Counter[int]:
        """How many partitions each broker is being caught up with."""
        learning: Counter[int] = Counter()
        for name in self._moving:
            led = self._find(name)
            if led is not None:
                learning.update({node.broker for node in led.participant.membership.learners})
        return learning

    # --- steps -----------------------------------------------------------------------------------

    def _attend(self, name: TopicPartition, learning: Counter[int], now: float) -> None:
        """Take the partition's next step, if it has one and nothing has to be waited for."""
        stepped_at = self._moving.pop(name, now - _EXPECTED_S)
        led = self._find(name)
        if led is None:
            return
        claim = led.participant.claim
        if claim is None or not claim.is_settled or led.participant.is_handing_over:
            self._moving[name] = now
            return
        membership, alive = claim.membership, self._alive
        if is_reached(led.placement.replicas, membership, alive):
            self._arrived(led, membership)
            return
        self._reached.pop(name, None)
        step = next_step(self._situation(led, membership))
        if step is None:
            # The others are looked at with everything: they may wait for a broker that is dead.
            is_learning = any(alive.get(node.broker) == node for node in membership.learners)
            if is_learning or now - stepped_at < _EXPECTED_S:
                self._moving[name] = stepped_at
        elif step.kind is Kind.ADD and learning[step.node.broker] >= PARTITIONS_CATCHING_UP_MAX:
            self._queued.setdefault(step.node.broker, {})[name] = None
        else:
            self._take(led, step, learning, now)

    def _situation(self, led: _Led, membership: Membership) -> Situation:
        return Situation(
            me=self._me,
            target=led.placement.replicas,
            membership=membership,
            alive=self._alive,
            in_sync=led.partition.replica.in_sync,
            caught_up=led.participant.learned(round(self._clock.monotonic() * 1000)),
        )

    def _take(self, led: _Led, step: Step, learning: Counter[int], now: float) -> None:
        name, participant = led.partition.name, led.participant
        if step.kind is Kind.HAND_OVER:
            self._hand_over(led, step.node, now)
        else:
            if participant.change_membership(step.after(participant.membership)):
                logger.debug("%s, broker %s: %s", name, step.node, step.kind.value)
            learning[step.node.broker] += step.kind is Kind.ADD
        self._moving[name] = now

    def _arrived(self, led: _Led, membership: Membership) -> None:
        name = led.partition.name
        self._reached[name] = _Reached(membership, led.placement, self._alive)

    def _hand_over(self, led: _Led, node: Node, now: float) -> None:
        name = led.partition.name
        if now - self._handed_over.get(name, -_HAND_OVER_AGAIN_S) >= _HAND_OVER_AGAIN_S:
            self._handed_over[name] = now
            self._steady_since.pop(name, None)
            led.participant.transfer(node)
