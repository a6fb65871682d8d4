"""Staged writes are looked after by the leader of both their topics, one after another."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.staging import coordinator as staging_coordinator
from penstock.coordination.staging.records import STAGED_TOPIC, WRITES_TOPIC, NamedAttempt
from penstock.model.errors import (
    CoordinatorLoading,
    NotCoordinator,
    NotLeader,
    StorageFailed,
)
from penstock.model.ids import BrokerId
from penstock.raft.membership import Membership, Node
from penstock.replication.replica.participant import Participant
from tests.kit.broker.staging import Life, living
from tests.kit.simulated_disk import SimulatedDisk


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_whoever_begins_to_lead_goes_on_with_what_was_staged_and_decided() -> None:
    """Also where leaders have written records of their own in between."""
    async with living(SimulatedDisk()) as life:
        await life.commit(await life.stage("a", [b"a"]))
        await life.until_noted()
        named = await life.stage("b", [b"b"], [b"c"], epoch=1)
        for _ in range(2):
            life.lose()
            life.gain()
            await turns()
            await life.until_serving()
        assert life.coordinator.current.committed_epoch("w") == 0
        assert not await life.start_stage("b", 1, [b"c"], epoch=1), "it is there"
        assert (await life.commit(named)).already, "epoch 0"
        assert not (await life.commit(named, epoch=1)).already
        assert life.values() == [b"a", b"b", b"c"]


@pytest.mark.parametrize("topic", [WRITES_TOPIC, STAGED_TOPIC])
async def test_who_leads_one_topic_alone_refuses(topic: str) -> None:
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a"])
        life.lose(topic)
        for _ in range(2):
            with pytest.raises(NotCoordinator):
                life.start_stage("a", 1, [b"b"])
            with pytest.raises(NotCoordinator):
                await life.commit(named)
            with pytest.raises(NotCoordinator):
                await life.coordinator.current.abort("w", 0, ["a"])
            with pytest.raises(NotCoordinator):
                life.coordinator.current.committed_epoch("w")
            await turns()
        assert life.partitions.kept_producers == set()
        life.gain(topic)
        await turns()
        await life.until_serving()
        assert not (await life.commit(named)).already
        assert life.values() == [b"a"]


async def test_what_is_written_on_what_was_known_in_another_term_is_refused() -> None:
    """Lost and gained again before anybody was told."""
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a"])
        life.lose(WRITES_TOPIC)
        life.gain(WRITES_TOPIC)
        with pytest.raises(NotCoordinator):
            await life.commit(named)
        with pytest.raises(NotLeader):
            life.log.write([(b"w", b"{}")], lambda _: None)


async def test_whoever_waits_for_a_copy_is_told_and_the_next_leader_goes_on() -> None:
    """R-SPK-2: the decision stands, and is carried out once."""
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a"], [b"b"])
        life.hold_copies()
        waiting = asyncio.create_task(life.commit(named))
        while life.coordinator.current.committed_epoch("w") is None:
            await asyncio.sleep(0)
        assert len(life.partitions.kept_producers) == 1
        life.lose()
        with pytest.raises(NotCoordinator):
            await waiting
        assert life.values() == []
        life.gain()
        await turns()
        await life.until_serving()
        assert (await life.commit(named)).already
        assert life.values() == [b"a", b"b"]
        await life.until_noted()


async def test_a_decision_on_its_way_is_told_how_it_ends() -> None:
    """It is in the log or not: whoever asks the next leader finds out."""
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a"])
        waiting = asyncio.create_task(life.commit(named))
        await asyncio.sleep(0)
        assert life.staging.decisions._deciding
        life.lose()
        with pytest.raises((NotCoordinator, NotLeader)):
            await waiting
        life.gain()
        await turns()
        await life.until_serving()
        await life.commit(named)
        assert life.values() == [b"a"]


async def test_it_is_read_in_turns_with_others() -> None:
    async with living(SimulatedDisk()) as life:
        await life.stage("a", [b"x" * 100_000], [b"y" * 100_000], [b"z"])
        life.lose()
        life.gain()
        await asyncio.sleep(0)
        with pytest.raises(CoordinatorLoading):
            life.coordinator.current.committed_epoch("w")
        await life.until_serving()
        assert life.coordinator.current.committed_epoch("w") is None


async def test_damage_is_told_and_looked_at_again_by_the_next_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a"])
        life.lose()
        await turns()

        def unreadable(*_: object) -> object:
            raise StorageFailed("decayed")

        monkeypatch.setattr("penstock.broker.staging.log.read_log", unreadable)
        life.gain()
        await turns()
        await life.until_serving()
        with pytest.raises(StorageFailed, match="decayed"):
            await life.commit(named)
        monkeypatch.undo()
        life.lose()
        life.gain()
        await turns()
        await life.until_serving()
        await life.commit(named)


async def test_topics_that_somebody_else_made_meanwhile() -> None:
    """Before there are topics every broker may be asked; only their leader keeps anything."""
    async with living(SimulatedDisk()) as life:
        assert life.coordinator.current.committed_epoch("w") is None
        await life.coordinator.make_topics()
        await turns()
        await life.until_serving()
        await life.commit(await life.stage("a", [b"a"]))
        assert life.values() == [b"a"]


async def test_the_batches_are_handed_over_to_the_leader_of_the_decisions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(staging_coordinator, "_HAND_OVER_S", 0.001)
    offered: list[Node] = []

    def transfer(participant: Participant, node: Node) -> bool:
        assert participant.replica.name == f"{STAGED_TOPIC}-0"
        offered.append(node)
        return True

    monkeypatch.setattr(Participant, "transfer", transfer)
    async with living(SimulatedDisk()) as life:
        await life.stage("a", [b"a"])
        state = life.partitions.find(STAGED_TOPIC, 0).replica.consensus.raft.state
        heir = Node(2, 99)
        membership = Membership(frozenset({Node(1, 7), heir}))
        monkeypatch.setattr(type(state), "membership", property(lambda _: membership))
        led_by(life, 2, monkeypatch)
        life.lose(WRITES_TOPIC)
        async with asyncio.timeout(5):
            while len(offered) < 3:
                await asyncio.sleep(0.001)
        assert set(offered) == {heir}
        led_by(life, 3, monkeypatch)
        async with asyncio.timeout(5):
            while "move one there" not in caplog.text:
                await asyncio.sleep(0.001)
        life.lose(STAGED_TOPIC)
        await asyncio.sleep(0.01)
        assert life.coordinator._handing_over is None


def led_by(life: Life, broker: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let that broker be known to lead whatever this one does not."""
    real_of = type(life.leaders).of

    def of(leaders: object, topic: object, number: int) -> object:
        found = real_of(life.leaders, topic, number)  # type: ignore[arg-type]
        return found._replace(broker=BrokerId(broker), term=9)

    monkeypatch.setattr(life.leaders, "of", of.__get__(life.leaders))


async def test_both_topics_are_on_the_same_brokers() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit(NamedAttempt("idle", 0))
        writes, staged = (life.topics.find(name) for name in (WRITES_TOPIC, STAGED_TOPIC))
        assert writes.partitions[0].replicas == staged.partitions[0].replicas
