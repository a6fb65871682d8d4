"""The simulated topics as a registry keeps them: production's facts, and the changes to them.

What they say of terms is used: which one a topic begins with that has the name of another. Not who
hears of a change when (`operators`), and not where copies are to be. The invariant: every topic of
the run is in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.model.ids import BrokerId, TopicId
from penstock.registry.facts import (
    BeginDeletion,
    Change,
    ChangeTargets,
    CreateTopic,
    Facts,
    FinishDeletion,
    Move,
    RegisterBroker,
    Seen,
    apply,
)
from penstock.registry.image import BrokerImage
from tests.kit.simulation.clusters.plan import Plan


class Topics:
    """Of one run."""

    def __init__(self, plan: Plan) -> None:
        self._facts = Facts(cluster_id="simulation")
        for broker in plan.brokers:
            image = BrokerImage(id=BrokerId(broker), address=f"127.0.0.1:{broker}")
            self._change(RegisterBroker(broker=image))
        for one in plan.partitions:
            self._create(one.name.topic, one.id.topic_id, one.replicas)

    def remake(self, name: str, topic_id: TopicId, replicas: Iterable[int], last_term: int) -> int:
        """Which term the new one begins with."""
        before = self._facts.topics[name].id
        self._change(BeginDeletion(name=name, deletion=None, last_term=last_term))
        self._change(FinishDeletion(name=name, id=before))
        self._create(name, topic_id, replicas)
        return self._facts.topics[name].first_term

    def move(self, name: str, replicas: Iterable[int]) -> None:
        topic = self._facts.topics[name]
        move = Move(name, 0, tuple(map(BrokerId, replicas)))
        self._change(ChangeTargets(moves=(move,), seen={name: Seen(topic.id, topic.version)}))

    def _create(self, name: str, topic_id: TopicId, replicas: Iterable[int]) -> None:
        placement = (tuple(map(BrokerId, replicas)),)
        self._change(CreateTopic(name=name, id=topic_id, settings={}, placement=placement))

    def _change(self, change: Change) -> None:
        self._facts = apply(self._facts, change)
