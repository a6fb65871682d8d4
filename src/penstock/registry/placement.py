"""Where replicas go: plans for new partitions, and for moving those that are there (R-REP-7).

Pure, and the same on every broker that looks at the same image. A plan is a list of moves, to be
written by compare-and-set; nothing is moved here. What all plans keep to:
- the replicas of a partition are on different hosts while there are enough hosts, and else as
  evenly over the hosts as can be; never two on one broker;
- preferred leaders and replicas are spread evenly, within a topic and over all;
- nothing moves that need not, and a dead or drained broker gets nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from penstock.model.errors import InvalidReplication
from penstock.model.ids import BrokerId, TopicPartition
from penstock.registry.facts import Move, Replicas
from penstock.registry.image import ClusterImage
from penstock.registry.layout import Layout


def place(
    image: ClusterImage, topic: str, numbers: range, replication_factor: int
) -> tuple[Replicas, ...]:
    """Targets for new partitions of a topic, new or not."""
    layout = Layout(image)
    _check_factor(layout, topic, replication_factor)
    partitions = [TopicPartition(topic, number) for number in numbers]
    # All leaders first: followers then go where there is room beside them.
    for partition in partitions:
        layout.set(partition, (layout.choose_leader(partition, layout.open),))
    for partition in partitions:
        leader = layout.targets[partition]
        layout.set(partition, _filled(layout, partition, leader, replication_factor))
    # Nothing is there to be copied yet, so followers may be moved until it is even.
    _even_replicas(layout, _followers(layout, partitions))
    return tuple(layout.targets[partition] for partition in partitions)


def internal_copies(image: ClusterImage, wanted: int) -> int:
    """How many replicas a topic of the brokers' own gets now: as many as are wanted, or while there
    are too few brokers, an odd number. With two a majority is two: the death of either would stop
    all groups, and with one only the death of that one does."""
    possible = len(image.brokers.keys() - image.drained)
    if possible >= wanted:
        return wanted
    return max(possible - (possible % 2 == 0), 1)


def balance(image: ClusterImage) -> list[Move]:
    """After a broker joined, or whenever loads have drifted apart: the fewest moves that spread
    replicas over hosts, make loads equal within one where hosts allow it, and leaders likewise."""
    layout = Layout(image)
    _spread_over_hosts(layout)
    _even_replicas(layout, dict(layout.targets))
    _even_leaders(layout)
    return layout.moves()


def evacuate(image: ClusterImage, broker: BrokerId, onto: BrokerId | None = None) -> list[Move]:
    """Take everything off a broker that is to go or is dead; onto the one that replaces it, where
    that has no replica already, or to wherever it fits."""
    layout = Layout(image, closed=(broker,))
    for partition, replicas in list(layout.targets.items()):
        if broker not in replicas:
            continue
        others = tuple(other for other in replicas if other != broker)
        newcomer = onto if onto not in others else None
        if newcomer is None:
            newcomer = layout.choose(partition, others)
        if newcomer is None:
            raise InvalidReplication(
                f"Broker {broker} cannot be emptied: {partition.topic!r} has {len(replicas)} "
                f"replicas and {len(layout.open)} other brokers can take them; add a broker or "
                "lower its replication factor."
            )
        layout.set(partition, _replaced(layout, partition, broker, newcomer))
    return layout.moves()


def change_replication(image: ClusterImage, topic: str, replication_factor: int) -> list[Move]:
    """Give every partition of the topic this many replicas. Dead and drained brokers, crowded hosts
    and loaded brokers lose theirs first; a preferred leader that is alive stays."""
    layout = Layout(image)
    _check_factor(layout, topic, replication_factor)
    for number in range(len(image.topic(topic).partitions)):
        partition = TopicPartition(topic, number)
        replicas = layout.targets[partition]
        while len(replicas) > replication_factor:
            excess = _least_needed(layout, replicas)
            replicas = tuple(broker for broker in replicas if broker != excess)
        replicas = _filled(layout, partition, replicas, replication_factor)
        layout.set(partition, replicas)
    return layout.moves()


def _check_factor(layout: Layout, topic: str, replication_factor: int) -> None:
    most = len(layout.open)
    if not 1 <= replication_factor <= most:
        raise InvalidReplication(
            f"{topic!r} would have {replication_factor} replicas: {most} brokers are alive and not "
            f"drained, so ask for 1 to {most}."
            if most
            else f"{topic!r} can have no replicas: no broker is alive and not drained."
        )


def _filled(layout: Layout, partition: TopicPartition, replicas: Replicas, count: int) -> Replicas:
    while len(replicas) < count:
        newcomer = layout.choose(partition, replicas)
        if newcomer is None:
            # Of those it has, some are on brokers that are dead or drained.
            raise InvalidReplication(
                f"{partition} cannot have {count} replicas while some of them are on brokers that "
                "are dead or drained: replace those first."
            )
        replicas = (*replicas, newcomer)
    return replicas


def _replaced(
    layout: Layout, partition: TopicPartition, broker: BrokerId, newcomer: BrokerId
) -> Replicas:
    """The target with the newcomer instead. Who has a copy already leads before who has none."""
    replicas = layout.targets[partition]
    swapped = tuple(newcomer if other == broker else other for other in replicas)
    heirs = [other for other in swapped[1:] if other in layout.open]
    if replicas[0] != broker or not heirs:
        return swapped
    return _led_by(swapped, layout.choose_leader(partition, heirs))


def _led_by(replicas: Replicas, leader: BrokerId) -> Replicas:
    """The same replicas with the leader and the first one in each other's place."""
    places = list(replicas)
    place = places.index(leader)
    places[0], places[place] = places[place], places[0]
    return tuple(places)


def _least_needed(layout: Layout, replicas: Replicas) -> BrokerId:
    others = replicas if replicas[0] not in layout.open else replicas[1:]
    return max(
        others,
        key=lambda broker: (
            broker not in layout.open,
            layout.on_host(replicas, broker),
            layout.replicas[broker],
            broker,
        ),
    )


# --- evening out -------------------------------------------------------------------------------


def _spread_over_hosts(layout: Layout) -> None:
    """Take replicas from hosts that have two more of the partition than another host would."""
    for partition in list(layout.targets):
        while (moved := _spread_once(layout, partition)) is not None:
            layout.set(partition, moved)


def _spread_once(layout: Layout, partition: TopicPartition) -> Replicas | None:
    replicas = layout.targets[partition]
    # Followers before the leader, whose move costs a change of leadership.
    for broker in reversed(replicas):
        crowd = layout.on_host(replicas, broker)
        if broker in layout.open and crowd > 1:
            newcomer = layout.choose(partition, replicas)
            if newcomer is not None and layout.on_host(replicas, newcomer) <= crowd - 2:
                return tuple(newcomer if other == broker else other for other in replicas)
    return None


def _followers(
    layout: Layout, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Replicas]:
    return {partition: layout.targets[partition][1:] for partition in partitions}


def _even_replicas(layout: Layout, movable: Mapping[TopicPartition, Replicas]) -> None:
    """Move single replicas from who has two more than another, while there are such."""
    offers = _Offers(layout, movable)
    while offers.move_one():
        pass


class _Offers:
    """What one broker could give another. Each list is walked once, and once more at the end: a
    partition that could not move before may be able to after others have."""

    def __init__(self, layout: Layout, movable: Mapping[TopicPartition, Replicas]) -> None:
        self._layout = layout
        self._held: dict[BrokerId, dict[TopicPartition, None]] = {
            broker: {} for broker in layout.open
        }
        for partition, replicas in movable.items():
            for broker in replicas:
                if broker in self._held:
                    self._held[broker][partition] = None
        self._walks: dict[tuple[BrokerId, BrokerId], Iterator[TopicPartition]] = {}

    def move_one(self) -> bool:
        if self._move_by_walks():
            return True
        self._walks.clear()
        return self._move_by_walks()

    def _move_by_walks(self) -> bool:
        loads = self._layout.replicas
        by_load = sorted(self._held, key=lambda broker: (loads[broker], broker))
        for giver in reversed(by_load):
            for taker in by_load:
                if loads[giver] - loads[taker] < 2:
                    break
                for partition in self._walk(giver, taker):
                    if self._may_move(partition, giver, taker):
                        self._move(partition, giver, taker)
                        return True
        return False

    def _walk(self, giver: BrokerId, taker: BrokerId) -> Iterator[TopicPartition]:
        if (giver, taker) not in self._walks:
            self._walks[giver, taker] = iter(self._ordered(giver, taker))
        return self._walks[giver, taker]

    def _ordered(self, giver: BrokerId, taker: BrokerId) -> list[TopicPartition]:
        """First the topics of which the giver has most and the taker least; then replicas that do
        not lead; then as the ring prefers the taker."""
        layout = self._layout
        so_far: dict[str, int] = {}
        keys = []
        for partition in self._held[giver]:
            topic = partition.topic
            nth = so_far[topic] = so_far.get(topic, 0) + 1
            gain = nth - layout.topic_replicas(topic, taker)
            leads = layout.targets[partition][0] == giver
            keys.append((-gain, leads, layout.rank(partition, taker), partition))
        return [partition for *_, partition in sorted(keys)]

    def _may_move(self, partition: TopicPartition, giver: BrokerId, taker: BrokerId) -> bool:
        """The taker does not have it, and its host would not be more crowded than the giver's."""
        layout, replicas = self._layout, self._layout.targets[partition]
        if partition not in self._held[giver] or taker in replicas:
            return False
        if layout.host(giver) == layout.host(taker):
            return True
        return layout.on_host(replicas, taker) < layout.on_host(replicas, giver)

    def _move(self, partition: TopicPartition, giver: BrokerId, taker: BrokerId) -> None:
        replicas = self._layout.targets[partition]
        swapped = tuple(taker if broker == giver else broker for broker in replicas)
        self._layout.set(partition, swapped)
        del self._held[giver][partition]
        self._held[taker][partition] = None


def _even_leaders(layout: Layout) -> None:
    """Let others of the same replicas be preferred leaders, which moves no data. A broker that
    leads too much may have nothing in common with one that leads too little: then a third takes
    from the first and gives to the second, so whole paths are looked for."""
    heirs = _Heirs(layout)
    while (path := heirs.path()) is not None:
        for leader, heir in pairwise(path):
            heirs.hand_over(leader, heir)


class _Heirs:
    """Who could lead what whom else leads."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._led: dict[tuple[BrokerId, BrokerId], dict[TopicPartition, None]] = {}
        for partition, replicas in layout.targets.items():
            self._note(partition, replicas)

    def path(self) -> list[BrokerId] | None:
        """From one that leads at least two more than the last, each an heir of the one before."""
        leaders = self._layout.leaders
        least = min((leaders[broker] for broker in self._layout.open), default=0)
        for first in sorted(self._layout.open, key=lambda broker: (-leaders[broker], broker)):
            if leaders[first] - least < 2:
                return None
            if (path := self._path_from(first)) is not None:
                return path
        return None

    def hand_over(self, leader: BrokerId, heir: BrokerId) -> None:
        """One partition, of the topic of which the leader leads most and the heir least."""
        layout = self._layout
        partition = max(
            self._led[leader, heir],
            key=lambda each: (
                layout.topic_leaders(each.topic, leader) - layout.topic_leaders(each.topic, heir)
            ),
        )
        replicas = layout.targets[partition]
        for other in replicas[1:]:
            self._led.get((leader, other), {}).pop(partition, None)
        layout.set(partition, _led_by(replicas, heir))
        self._note(partition, layout.targets[partition])

    def _path_from(self, first: BrokerId) -> list[BrokerId] | None:
        leaders = self._layout.leaders
        before: dict[BrokerId, BrokerId | None] = {first: None}
        queue = deque([first])
        while queue:
            broker = queue.popleft()
            if leaders[first] - leaders[broker] >= 2:
                return _back(before, broker)
            for heir in self._layout.open:
                if heir not in before and self._led.get((broker, heir)):
                    before[heir] = broker
                    queue.append(heir)
        return None

    def _note(self, partition: TopicPartition, replicas: Replicas) -> None:
        members = [broker for broker in replicas if broker in self._layout.open]
        if replicas[0] in members:
            for heir in members[1:]:
                self._led.setdefault((replicas[0], heir), {})[partition] = None


def _back(before: dict[BrokerId, BrokerId | None], last: BrokerId) -> list[BrokerId]:
    path: list[BrokerId] = []
    broker: BrokerId | None = last
    while broker is not None:
        path.append(broker)
        broker = before[broker]
    return path[::-1]
