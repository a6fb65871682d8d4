"""Brings the partitions that this broker leads to where the registry wants them (R-REP-7).

The registry has each partition's target; its leader changes the membership, a step at a time, each
step decided by what is there now (`raft.reconfiguration`). So a crash needs no clean-up: whoever
leads next goes on. It also has the preferred broker lead again (`preferred_leaders` says when). Not
the plans (`registry.placement`), and not the removal of copies that are none any more
(`broker.cluster.copy_removal`).

It costs nothing while nothing moves: all partitions are looked at when the registry's image has
changed, and every few seconds; often only those that are under way, which are a few at a time. The
invariant: what is changed here is led here, and one change at a time is not committed.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final, NamedTuple

from penstock.broker.cluster.preferred_leaders import Led, PreferredLeaders
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.turns.rounds import Rounds
from penstock.model.ids import TopicPartition
from penstock.model.limits import LEADERS_RETURNED_MAX, PARTITIONS_CATCHING_UP_MAX
from penstock.net.clock import Clock
from penstock.raft.membership import Membership, Node
from penstock.raft.reconfiguration import Kind, Situation, Step, is_reached, next_step
from penstock.registry.api import Registry
from penstock.registry.image import ClusterImage, PartitionImage
from penstock.replication.disk.driver import Driver
from penstock.replication.peers.replicas import Replicas

logger = logging.getLogger(__name__)

# How often is looked at what is under way, and at everything.
_LOOK_S: Final = 0.05
_SWEEP_S: Final = 2.0
# So long after a step the next one is soon to be expected.
_EXPECTED_S: Final = 1.0


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
        self._preferred = PreferredLeaders(me)
        self._sweep_at = 0.0
        self.rounds = Rounds("Moving partitions", self._go_round, _LOOK_S)

    def attend(self) -> None:
        """From now on know what `look` has to look at."""
        self._registry.watch(self._on_image)
        self._on_image(self._registry.image)
        self._partitions.watch_leadership(self._on_leadership)

    async def _go_round(self) -> float:
        self.look()
        return _LOOK_S if self._moving or self._changed else _SWEEP_S

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
        self.rounds.wake()

    def _on_leadership(self, partition: Partition, is_leader: bool) -> None:
        if is_leader:
            # It has yet to hear how far the others are.
            self._moving[partition.name] = self._clock.monotonic()
            self.rounds.wake()
        else:
            self._preferred.not_led(partition.name)

    def _find(self, name: TopicPartition) -> Led | None:
        """The partition, if it is led here and is to be somewhere."""
        partition = self._partitions.get(*name)
        return None if partition is None else self._led(partition)

    def _led(self, partition: Partition) -> Led | None:
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
        return Led(partition, participant, topic.partitions[number])

    def _sweep(self, now: float) -> None:
        """Find what is not where it should be, or is not led by whom it should be."""
        returned = 0
        partitions = self._partitions.all()
        self._preferred.forget_gone(len(partitions), self._is_gone)
        if len(self._reached) > len(partitions):
            for name in filter(self._is_gone, list(self._reached)):
                del self._reached[name]
        for partition in partitions:
            name = partition.name
            if not partition.replica.is_leader or (led := self._led(partition)) is None:
                self._reached.pop(name, None)
                continue
            seen = _Reached(led.participant.membership, led.placement, self._alive)
            reached = self._reached.get(name)
            if reached is None or not reached.is_same(seen):
                self._changed[name] = None
                continue
            preferred = self._alive.get(led.placement.replicas[0])
            is_due = self._preferred.is_due(led, preferred, now)
            if is_due and preferred is not None and returned < LEADERS_RETURNED_MAX:
                returned += 1
                self._preferred.hand_over(led, preferred, now)

    def _is_gone(self, name: TopicPartition) -> bool:
        return self._partitions.get(*name) is None

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

    def _situation(self, led: Led, membership: Membership) -> Situation:
        return Situation(
            me=self._me,
            target=led.placement.replicas,
            membership=membership,
            alive=self._alive,
            in_sync=led.partition.replica.in_sync,
            caught_up=led.participant.learned(round(self._clock.monotonic() * 1000)),
        )

    def _take(self, led: Led, step: Step, learning: Counter[int], now: float) -> None:
        name, participant = led.partition.name, led.participant
        if step.kind is Kind.HAND_OVER:
            self._preferred.hand_over(led, step.node, now)
        else:
            if participant.change_membership(step.after(participant.membership)):
                logger.debug("%s, broker %s: %s", name, step.node, step.kind.value)
            learning[step.node.broker] += step.kind is Kind.ADD
        self._moving[name] = now

    def _arrived(self, led: Led, membership: Membership) -> None:
        name = led.partition.name
        self._reached[name] = _Reached(membership, led.placement, self._alive)
