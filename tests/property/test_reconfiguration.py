"""Any membership becomes any target, whoever dies, is wiped or leads on the way (R-REP-7)."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.raft.membership import Membership, Node
from penstock.raft.reconfiguration import Kind, Situation, Step, is_reached, next_step

BROKERS = range(1, 8)


class World:
    """Brokers that come and go, and one log's membership, changed as its leader decides."""

    def __init__(self, voters: set[int], learners: set[int], chance: random.Random) -> None:
        self.chance = chance
        self.directories = dict.fromkeys(BROKERS, 1)
        self.up = set(BROKERS)
        self.membership = Membership(
            frozenset(map(self.node, voters)), frozenset(map(self.node, learners - voters))
        )
        self.behind: set[Node] = set()
        self.leader = self.elect()

    def node(self, broker: int) -> Node:
        return Node(broker, self.directories[broker])

    def is_there(self, node: Node) -> bool:
        return node.broker in self.up and self.node(node.broker) == node

    @property
    def in_sync(self) -> frozenset[Node]:
        voters = self.membership.voters
        return frozenset(n for n in voters if self.is_there(n) and n not in self.behind)

    @property
    def has_quorum(self) -> bool:
        return len(self.in_sync) >= self.membership.majority

    def elect(self) -> Node:
        return self.chance.choice(sorted(self.in_sync))

    def trouble(self) -> None:
        """Something that leaves a majority in sync: death, a wiped folder, a slow disk, a new
        leader; or the end of one."""
        kept = set(self.up), dict(self.directories), set(self.behind)
        broker = self.chance.choice(BROKERS)
        match self.chance.randrange(5):
            case 0:
                self.up.discard(broker)
            case 1:
                self.directories[broker] += 1
            case 2:
                self.behind.add(self.node(broker))
            case 3:
                self.up.add(broker)
            case _:
                self.behind.clear()
        if not self.has_quorum:
            self.up, self.directories, self.behind = kept
        if self.leader not in self.in_sync or self.chance.random() < 0.3:
            self.leader = self.elect()

    def step(self, target: tuple[int, ...]) -> Step | None:
        return next_step(
            Situation(
                me=self.leader,
                target=target,
                membership=self.membership,
                alive={broker: self.node(broker) for broker in self.up},
                in_sync=self.in_sync,
                caught_up=frozenset(
                    n for n in self.membership.learners if self.is_there(n) and n not in self.behind
                ),
            )
        )

    def take(self, step: Step, target: tuple[int, ...]) -> None:
        """Let it happen, and check what must hold."""
        before = self.membership
        if step.kind is Kind.HAND_OVER:
            assert step.node in self.in_sync
            self.leader = step.node
            return
        after = step.after(before)
        assert before.is_step_to(after), (before, step)
        assert step.node != self.leader or step.kind is not Kind.REMOVE, "it would cut itself off"
        if step.kind is Kind.REMOVE and step.node in before.voters:
            assert len(after.voters) >= len(target), "fewer copies than were asked for"
        self.membership = after
        assert self.has_quorum, f"{step} left no majority in sync of {after}"
        if self.leader not in self.in_sync:
            self.leader = self.elect()


members = st.sets(st.sampled_from(BROKERS), min_size=1, max_size=5)


@given(
    voters=members,
    learners=st.sets(st.sampled_from(BROKERS), max_size=3),
    targets=st.lists(members, min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_every_target_is_reached_and_a_majority_is_always_in_sync(
    voters: set[int], learners: set[int], targets: list[set[int]], seed: int
) -> None:
    chance = random.Random(seed)
    world = World(voters, learners, chance)
    target: tuple[int, ...] = ()
    for brokers in targets:
        target = tuple(chance.sample(sorted(brokers), len(brokers)))
        for _ in range(chance.randrange(20)):
            world.trouble()
            step = world.step(target)
            if step is not None:
                world.take(step, target)
    world.up, world.behind = set(BROKERS), set()
    for _ in range(60):
        step = world.step(target)
        if step is None:
            break
        world.take(step, target)
    alive = {broker: world.node(broker) for broker in BROKERS}
    assert is_reached(target, world.membership, alive), (target, world.membership)
