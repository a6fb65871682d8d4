"""A crash at the disk operations of a broker whose shared groups are joined, read, written, reset
and deleted.

The checker after each: a member goes on with its epoch and is told nothing new; the group stands
where it was written last, or where a write that was under way puts it, and is the same group to
those who lead its partitions; what was deleted stays deleted; and everybody can go on.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.broker.groups import log as group_log
from penstock.coordination.group.shared.messages import ShareReset
from penstock.model.errors import UnknownGroup
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.groups import Life, living
from tests.kit.crashes import WAYS, Workload, crash_everywhere, found_after
from tests.kit.models.told_members import share_heartbeat
from tests.kit.simulated_disk import SimulatedDisk

pytestmark = pytest.mark.usefixtures("quiet")


@dataclass
class Facts:
    """What was promised, and what was asked for without an answer yet."""

    topic_exists: bool = False
    epoch: int | None = None
    """Of the member, while no heartbeat is under way that may change it."""
    incarnations: tuple[str, ...] = ()
    states: tuple[bytes, ...] = (b"",)
    """What was written last, and what is being written."""
    deleting: bool = False
    deleted: bool = False


async def beat(life: Life, epoch: int) -> pb.GroupHeartbeatResponse:
    topics = ["orders"] if epoch == 0 else []
    request = pb.GroupHeartbeatRequest(
        group="g", member_id="m", member_epoch=epoch, shared=True, topics=topics
    )
    return await share_heartbeat(life.context, request)


def place(life: Life) -> tuple[str, int]:
    topic = life.registry.image.topic("orders")
    return topic.id, life.leaders.of(topic, 0).term


async def read(life: Life) -> pb.ReadShareResponse:
    topic_id, term = place(life)
    request = pb.ReadShareRequest(group="g", topic_id=topic_id, leader_term=term)
    return await life.groups_client.questions.read_share(request)


class LifeStory(Workload):
    """Two lives of a broker, and what it was asked for in them."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(disk)
        self.facts = Facts()

    async def check(self) -> None:
        async with living(self.disk) as life:
            await check(life, self.facts)

    async def live(self) -> None:
        facts = self.facts
        async with living(self.disk) as life:
            facts.topic_exists = True
            facts.epoch = (await beat(life, 0)).member_epoch
            facts.incarnations = ((await read(life)).incarnation,)
            for number in range(4):
                await self._write(life, b"%d" % number * 100)
        async with living(self.disk) as life:
            await read(life)
            await self._write(life, b"after a restart")
            facts.epoch = None
            await beat(life, -1)
            await self._reset(life, b"elsewhere")
            await self._delete(life)

    async def _write(self, life: Life, state: bytes) -> None:
        topic_id, term = place(life)
        self.facts.states = (*self.facts.states[-1:], state)
        request = pb.WriteShareRequest(
            group="g",
            topic_id=topic_id,
            leader_term=term,
            state=state,
            incarnation=self.facts.incarnations[-1],
        )
        await life.groups_client.questions.write_share(request)
        self.facts.states = (state,)

    async def _reset(self, life: Life, state: bytes) -> None:
        """Both, or neither: its parts are one write."""
        facts = self.facts
        facts.states = (*facts.states, state)
        facts.incarnations = (*facts.incarnations, "another")
        wanted = ShareReset(topic="orders", topic_id=place(life)[0], partition=0, state=state)
        await life.answered(
            lambda answer: life.groups.submit(
                answer,
                lambda groups, now_ms: groups.shared.reset(
                    answer, "g", "another", [wanted], now_ms
                ),
            )
        )
        facts.states, facts.incarnations = (state,), ("another",)

    async def _delete(self, life: Life) -> None:
        self.facts.deleting = True
        await life.answered(
            lambda answer: life.groups.submit(
                answer, lambda groups, _: groups.delete(answer, ["g"])
            )
        )
        self.facts.deleted = True


async def check(life: Life, facts: Facts) -> None:
    """Every promise is kept."""
    if facts.epoch is not None:
        answer = await beat(life, facts.epoch)
        assert (answer.member_epoch, answer.has_assignment) == (facts.epoch, False)
    if facts.deleted:
        with pytest.raises(UnknownGroup):
            await read(life)
    elif facts.incarnations and not facts.deleting:
        found = await read(life)
        assert found.state in facts.states
        assert found.incarnation in facts.incarnations
        if len(facts.incarnations) == 2:
            pairs = set(zip(facts.states, facts.incarnations, strict=True))
            assert (found.state, found.incarnation) in pairs


async def go_on(life: Life, facts: Facts) -> None:
    """Whatever became of what was under way, there is new work to do."""
    facts.epoch = (await beat(life, 0)).member_epoch
    found = await read(life)
    topic_id, term = place(life)
    await life.groups_client.questions.write_share(
        pb.WriteShareRequest(
            group="g",
            topic_id=topic_id,
            leader_term=term,
            state=b"new",
            incarnation=found.incarnation,
        ),
    )
    facts.states, facts.incarnations = (b"new",), (found.incarnation,)
    facts.deleting = facts.deleted = False


@pytest.mark.parametrize("turn", range(len(WAYS)))
async def test_a_crash_at_an_operation(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-3, R-STO-7: at any moment, and whatever the disk kept of what was not flushed."""
    # So that there are snapshots on the way as well.
    monkeypatch.setattr(group_log, "_SNAPSHOT_RECORDS", 4)

    async def recover(story: LifeStory, operation: int) -> None:
        found, facts = found_after(story.disk, turn, operation), story.facts
        if not facts.topic_exists:
            return
        async with living(found) as life:
            await check(life, facts)
            await go_on(life, facts)
        async with living(found) as life:
            await check(life, facts)

    await crash_everywhere(LifeStory, turn, recover)
