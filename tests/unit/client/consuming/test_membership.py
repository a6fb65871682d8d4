"""A consumer as a member of its group: it reads what it is given, gives up what it is told to, in
the right order, and comes back whatever happens to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from penstock.client.client import Client, connect
from penstock.client.concurrency import hindrance
from penstock.client.consuming import committer, membership
from penstock.model.errors import (
    FencedMemberEpoch,
    InvalidRequest,
    NotCoordinator,
    PartitionClaimed,
    PartitionLost,
    UnknownMember,
    UnreleasedInstance,
)
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Message, build_batch
from tests.kit.client.fake_broker import HOLD, LOSE_ANSWER, FakeBroker

BEAT = pb.CALL_GROUP_HEARTBEAT
COMMIT = pb.CALL_COMMIT_OFFSETS
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def orders(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """Two partitions of ten messages each."""
    monkeypatch.setattr(committer, "COMMIT_INTERVAL_S", 0.0)
    broker.create("orders", 2)
    for partition in broker.topics["orders"]:
        records = [(None, b"%d" % number) for number in range(10)]
        partition.append(memoryview(build_batch(records)))
    return broker


def member_of(broker: FakeBroker, group: str = "billing") -> str:
    [member_id] = broker.members[group]
    return member_id


def place_of(messages: list[Message]) -> TopicPartition:
    return TopicPartition(messages[0].topic, messages[0].partition)


def beats(broker: FakeBroker) -> Iterator[pb.GroupHeartbeatRequest]:
    return (request for number, request in broker.calls if number == BEAT)


async def some_beats(broker: FakeBroker) -> None:
    """Until what was changed before is known."""
    beaten = broker.count(BEAT)
    await broker.until(lambda: broker.count(BEAT) >= beaten + 2)


def owned(request: pb.GroupHeartbeatRequest) -> set[tuple[str, int]]:
    return {(one.topic, number) for one in request.owned for number in one.partitions}


async def test_it_joins_with_all_it_has_to_say_and_leaves_at_the_end(
    orders: FakeBroker, mq: Client
) -> None:
    """R-DEL-4"""
    async with mq.subscribe("orders", group="billing", name="till", assignor="ring") as consumer:
        assert consumer.partitions == [ONE, TWO]
        await orders.until(lambda: orders.count(BEAT) == 3)
    first, second, *_, last = beats(orders)
    assert first.is_full
    assert first.member_epoch == 0
    assert list(first.topics) == ["orders"]
    assert (first.client_name, first.assignor) == ("till", "ring")
    assert first.member_id.startswith("till-")
    assert not second.is_full
    assert owned(second) == {ONE, TWO}
    assert last.member_epoch == -1
    assert not orders.members["billing"]


async def test_what_is_taken_away_is_committed_before_it_is_given_up(
    orders: FakeBroker, mq: Client
) -> None:
    """R-DEL-4: whoever has it next begins there."""
    told: list[tuple[str, list[TopicPartition]]] = []

    async def revoked(partitions: list[TopicPartition]) -> None:
        told.append(("revoked", partitions))
        for message in kept:
            await message.ack()

    async with mq.subscribe(
        "orders",
        group="billing",
        on_assigned=lambda partitions: told.append(("assigned", partitions)),
        on_revoked=revoked,
    ) as consumer:
        kept: list[Message] = []
        while not any(message.partition == 1 for message in kept):
            kept = await consumer.fetch(max_messages=4)
        orders.assigned[member_of(orders)] = {"orders": [0]}
        await orders.until(lambda: consumer.partitions == [ONE])
        await orders.until(lambda: owned(list(beats(orders))[-1]) == {ONE})
    assert told == [("assigned", [ONE, TWO]), ("revoked", [TWO])]
    assert orders.offsets["billing"][TWO] == 4
    commit = next(
        place
        for place, (number, request) in enumerate(orders.calls)
        if number == COMMIT and any(entry.partition == 1 for entry in request.offsets)
    )
    free = next(
        place
        for place, (number, request) in enumerate(orders.calls)
        if number == BEAT and request.member_epoch > 0 and TWO not in owned(request)
    )
    assert commit < free


async def test_what_was_taken_away_may_still_be_acknowledged_in_vain(
    orders: FakeBroker, mq: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "penstock.client.consuming.committer")
    async with mq.subscribe("orders", group="billing") as consumer:
        (message,) = await consumer.fetch(max_messages=1)
        orders.assigned[member_of(orders)] = {}
        await orders.until(lambda: consumer.partitions == [])
        await message.ack()
        assert "was taken away before offset 0 was acknowledged" in caplog.text
        with pytest.raises(InvalidRequest, match="has not given orders-0"):
            await consumer.commit({ONE: 5})
    assert not orders.offsets["billing"]


async def test_what_is_given_later_begins_where_the_group_is(
    orders: FakeBroker, mq: Client
) -> None:
    """R-DEL-10: a member that has nothing waits, and is no mistake."""
    orders.offsets["billing"][ONE] = 7
    orders.heartbeat_interval_ms = 1
    consumer = mq.subscribe("orders", group="billing", name="x")
    orders.script[BEAT].append(HOLD)
    starting = asyncio.ensure_future(consumer.start())
    await orders.until(lambda: bool(orders.held))
    orders.assigned[next(beats(orders)).member_id] = {}
    orders.release()
    await starting
    reading = asyncio.ensure_future(consumer.fetch())
    await asyncio.sleep(0)
    orders.assigned[member_of(orders)] = {"orders": [0]}
    assert [message.offset for message in await reading] == [7, 8, 9]
    await consumer.close()


@pytest.mark.parametrize("error", [UnknownMember(), FencedMemberEpoch()])
async def test_whom_the_group_took_for_dead_joins_again(
    orders: FakeBroker, mq: Client, error: Exception
) -> None:
    lost: list[list[TopicPartition]] = []
    async with mq.subscribe("orders", group="billing", on_revoked=lost.append) as consumer:
        (message,) = await consumer.fetch(max_messages=1)
        assert isinstance(error, UnknownMember | FencedMemberEpoch)
        orders.script[BEAT].append(error)
        await orders.until(lambda: sum(beat.member_epoch == 0 for beat in beats(orders)) == 2)
        await orders.until(lambda: consumer.partitions == [ONE, TWO])
        assert lost == [[ONE, TWO]]
        await message.ack()  # of the offset that it reads next: it counts again
        assert (await consumer.fetch(max_messages=1))[0].offset == 0
    rejoin = [beat for beat in beats(orders) if beat.member_epoch == 0][1]
    assert rejoin.is_full
    assert not rejoin.owned


async def test_a_commit_of_an_earlier_epoch_is_made_again_with_the_new_one(
    orders: FakeBroker, mq: Client
) -> None:
    """R-DEL-10: no lost commit."""
    async with mq.subscribe("orders", group="billing") as consumer:
        messages = await consumer.fetch()
        epochs, member_id = orders.members["billing"], member_of(orders)
        # The group is at the next epoch, and the answer that says so is on its way.
        orders.script[BEAT].append(HOLD)
        await orders.until(lambda: bool(orders.held))
        epochs[member_id] += 1
        for message in messages:
            await message.ack()
        await orders.until(lambda: orders.count(COMMIT) == 1)
        assert not orders.offsets["billing"]
        list(beats(orders))[-1].member_epoch = epochs[member_id]
        orders.release()
        await orders.until(lambda: orders.offsets["billing"] == {place_of(messages): 10})


async def test_a_commit_of_what_was_taken_meanwhile_is_dropped(
    orders: FakeBroker, mq: Client
) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        messages = await consumer.fetch()
        orders.script[COMMIT].append(UnknownMember())
        orders.script[BEAT].extend([UnknownMember()] * 2)
        orders.offsets["billing"][ONE] = orders.offsets["billing"][TWO] = 9
        for message in messages:
            await message.ack()
        await orders.until(lambda: sum(beat.member_epoch == 0 for beat in beats(orders)) >= 2)
        await orders.until(lambda: consumer.partitions == [ONE, TWO])
        assert consumer.position(ONE) == 9
    assert orders.offsets["billing"] == {ONE: 9, TWO: 9}


async def test_after_a_lost_answer_everything_is_said_again(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        orders.script[BEAT].append(LOSE_ANSWER)
        await orders.until(lambda: sum(beat.is_full for beat in beats(orders)) == 2)
        full = [beat for beat in beats(orders) if beat.is_full][1]
        assert full.member_epoch == 1
        assert owned(full) == {ONE, TWO}
        assert consumer.partitions == [ONE, TWO]


async def test_the_coordinator_may_move(orders: FakeBroker, mq: Client) -> None:
    """R-CORE-5: it is looked for again, and the member goes on."""
    async with FakeBroker(broker_id=1) as other, mq.subscribe("orders", group="billing"):
        other.members, other.topics = orders.members, orders.topics
        other.subscriptions, other.peers = orders.subscriptions, {0: orders.address}
        orders.peers = {1: other.address}
        orders.coordinators = other.coordinators = {pb.FindCoordinatorRequest.KIND_GROUPS: 1}
        orders.script[BEAT].append(NotCoordinator())
        await other.until(lambda: other.count(BEAT) >= 2)
        assert next(beats(other)).member_epoch == 1


async def test_what_keeps_it_from_joining_is_said(
    orders: FakeBroker,
    mq: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(hindrance, "TELL_AFTER_S", 0.0)
    orders.script[BEAT].extend([NotCoordinator("Disk full.")] * 2)
    async with mq.subscribe("orders", group="billing"):
        assert caplog.messages[0].endswith(" is tried again for 30 s: Disk full.")
        assert caplog.messages[1:] == ["Group billing can be joined again"]


async def test_a_second_claim_is_refused_at_the_start(orders: FakeBroker, mq: Client) -> None:
    """R-DEL-2"""
    refusal = PartitionClaimed("orders-1 is claimed by 'till-1'.")
    orders.script[BEAT].append(refusal)
    consumer = mq.subscribe("orders", group="billing", partitions=[1])
    with pytest.raises(PartitionClaimed, match="till-1"):
        await consumer.start()
    first = next(beats(orders))
    assert first.assignor == "manual"
    assert [(one.topic, list(one.partitions)) for one in first.claims] == [("orders", [1])]
    await consumer.start()  # the other one is gone
    assert consumer.partitions == [ONE, TWO]
    await consumer.close()


async def test_a_refusal_later_on_is_told_to_the_reader(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing", partitions=[("orders", 1)]) as consumer:
        orders.script[BEAT].append(UnknownMember())
        orders.script[BEAT].append(PartitionClaimed("orders-1 is claimed by 'till-1'."))
        await orders.until(lambda: consumer.partitions == [])
        for _ in range(2):
            with pytest.raises(PartitionClaimed, match="till-1"):
                await consumer.fetch()


async def test_whose_group_is_silent_for_a_session_stops_reading(
    orders: FakeBroker, mq: Client
) -> None:
    """Others may have what it reads by then. It goes on when the group is back."""
    orders.session_timeout_ms = 20
    async with mq.subscribe("orders", group="billing") as consumer:
        orders.script[BEAT].extend([NotCoordinator()] * 1_000)
        await orders.until(lambda: consumer.partitions == [])
        orders.script[BEAT].clear()
        await orders.until(lambda: consumer.partitions == [ONE, TWO])


async def test_what_is_withdrawn_while_it_is_taken_is_never_read(
    orders: FakeBroker, mq: Client
) -> None:
    """R-DEL-4: others may have it since; until then it is owned, so that they do not."""
    told: list[list[TopicPartition]] = []
    async with mq.subscribe("orders", group="billing", on_assigned=told.append) as consumer:
        member_id = member_of(orders)
        orders.assigned[member_id] = {}
        await orders.until(lambda: consumer.partitions == [])
        for given_again in (False, True):
            asked = orders.count(pb.CALL_FETCH_OFFSETS)
            orders.script[pb.CALL_FETCH_OFFSETS].append(HOLD)
            orders.assigned[member_id] = {"orders": [0]}
            await orders.until(lambda: bool(orders.held))
            assert owned(list(beats(orders))[-1]) <= {ONE}
            orders.assigned[member_id] = {}
            await some_beats(orders)
            assert owned(list(beats(orders))[-1]) == {ONE}
            if given_again:
                orders.assigned[member_id] = {"orders": [0]}
                await some_beats(orders)
            orders.offsets["billing"][ONE] = 7  # by who had it meanwhile
            orders.release()
            if given_again:
                await orders.until(lambda: consumer.partitions == [ONE])
                assert orders.count(pb.CALL_FETCH_OFFSETS) == asked + 2, "it was found out again"
            else:
                await orders.until(lambda: owned(list(beats(orders))[-1]) == set())
                assert consumer.partitions == []
                assert told == [[ONE, TWO]]
        assert told == [[ONE, TWO], [ONE]]
        assert [message.offset for message in await consumer.fetch()] == [7, 8, 9]
    assert orders.offsets["billing"] == {ONE: 7}


async def test_whose_connection_ends_is_back_at_once(orders: FakeBroker, mq: Client) -> None:
    """R-DEL-7: the group does not wait for long, so the member does not wait at all."""
    orders.heartbeat_interval_ms = 1_000_000
    async with mq.subscribe("orders", group="billing") as consumer:
        assert orders.count(BEAT) == 1
        for channel in orders.channels:
            channel.connection.abort()
        await orders.until(lambda: orders.count(BEAT) == 2)
        assert consumer.partitions == [ONE, TWO]


async def test_whose_connection_ended_stops_reading_before_others_begin(
    orders: FakeBroker, mq: Client
) -> None:
    """R-DEL-4: the group takes it for dead long before its session is over."""
    orders.lost_ms = 30
    lost: list[list[TopicPartition]] = []
    async with mq.subscribe("orders", group="billing", on_revoked=lost.append) as consumer:
        await orders.until(lambda: orders.count(BEAT) == 3)
        await orders.stop()
        await orders.until(lambda: consumer.partitions == [])
        await orders.until(lambda: lost == [[ONE, TWO]])
        await orders.start()
        await orders.until(lambda: consumer.partitions == [ONE, TWO])


async def test_a_loss_while_a_heartbeat_is_on_its_way(orders: FakeBroker, mq: Client) -> None:
    """Its answer says nothing new; so everything is asked for again."""
    orders.session_timeout_ms = 50
    async with mq.subscribe("orders", group="billing") as consumer:
        orders.script[BEAT].append(HOLD)
        await orders.until(lambda: consumer.partitions == [])
        orders.session_timeout_ms = 45_000
        orders.says_nothing_new = True
        orders.release()
        await orders.until(lambda: consumer.partitions == [ONE, TWO])


async def test_a_commit_that_comes_too_late_is_no_commit(orders: FakeBroker, mq: Client) -> None:
    """R-DEL-10: who waits for it is told; what is committed in the background is read again."""
    async with mq.subscribe("orders", group="billing") as consumer:
        await consumer.fetch()
        orders.script[COMMIT].append(UnknownMember())
        orders.script[BEAT].extend([UnknownMember()] * 2)
        with pytest.raises(PartitionLost, match="orders-0"):
            await consumer.commit()
        assert not orders.offsets["billing"]
        await orders.until(lambda: consumer.partitions == [ONE, TWO])
        messages = await consumer.fetch()
        orders.script[COMMIT].append(PartitionLost("orders-0 is not its own."))
        with pytest.raises(PartitionLost, match="not its own"):
            await consumer.commit()
        orders.script[COMMIT].append(PartitionLost("orders-0 is not its own."))
        consumer.ledger.committer.wake()
        await orders.until(lambda: orders.offsets["billing"].get(place_of(messages)) == 10)
        await messages[-1].ack()
        (message, *_) = await consumer.fetch()
        await message.ack()
        orders.script[COMMIT].extend([PartitionLost("orders-0 is not its own.")] * 9)


async def test_nothing_is_committed_while_a_member_leaves(orders: FakeBroker, mq: Client) -> None:
    """It is a member before, and nobody afterwards."""
    async with mq.subscribe("orders", group="billing") as consumer:
        while place_of(messages := await consumer.fetch()) != TWO:
            pass
        orders.heartbeat_interval_ms = 1_000_000
        membership = consumer._membership
        assert membership is not None
        await orders.until(lambda: membership._interval_s == 1_000)
        orders.script[BEAT].append(HOLD)
        assigning = asyncio.ensure_future(consumer.assign([TWO]))
        await orders.until(lambda: bool(orders.held))
        for message in messages:
            await message.ack()
        committing = asyncio.ensure_future(consumer.ledger.committer.commit())
        for _ in range(20):
            await asyncio.sleep(0)
        assert orders.count(COMMIT) == 0
        orders.release()
        await asyncio.gather(assigning, committing)
        assert orders.offsets["billing"] == {TWO: 10}
    commits = [request for number, request in orders.calls if number == COMMIT]
    assert {(commit.member_id, commit.member_epoch) for commit in commits} == {("", 0)}


async def test_a_start_that_was_cut_off_may_be_made_again(orders: FakeBroker, mq: Client) -> None:
    waiting = asyncio.Event()

    async def assigned(partitions: list[TopicPartition]) -> None:
        del partitions
        waiting.set()
        await asyncio.sleep(0 if orders.count(BEAT) > 1 else 1_000)

    orders.heartbeat_interval_ms = 1_000_000
    consumer = mq.subscribe("orders", group="billing", on_assigned=assigned)
    starting = asyncio.ensure_future(consumer.start())
    await waiting.wait()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await consumer.start()
    assert consumer.partitions == [ONE, TWO]
    await consumer.close()


async def test_a_static_member_will_be_back(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing", instance_id="till-1"):
        pass
    assert {beat.instance_id for beat in beats(orders)} == {"till-1"}
    assert list(beats(orders))[-1].member_epoch == -2


async def test_a_static_member_that_crashed_is_waited_for(orders: FakeBroker, mq: Client) -> None:
    """The place of the one before is given up after a moment; nobody has to start it twice."""
    taken = UnreleasedInstance("Another member has the instance id.")
    orders.script[BEAT].extend([taken] * 3)
    async with mq.subscribe("orders", group="billing", instance_id="till-1") as consumer:
        assert consumer.partitions == [ONE, TWO]


async def test_a_static_member_that_lives_is_not_waited_for_long(
    orders: FakeBroker, mq: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "_RELEASED_S_MAX", 0.05)
    orders.script[BEAT].extend([UnreleasedInstance("Another member has it.")] * 100)
    with pytest.raises(UnreleasedInstance):
        await mq.subscribe("orders", group="billing", instance_id="till-1").start()


async def test_a_callback_may_begin_elsewhere_and_may_fail(
    orders: FakeBroker, mq: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """R-DEL-10: nothing is read before it has returned."""

    async def begin_elsewhere(partitions: list[TopicPartition]) -> None:
        for each in partitions:
            await consumer.seek(each, 8)
        raise ValueError("of the user's own")

    consumer = mq.subscribe("orders", group="billing", on_assigned=begin_elsewhere)
    async with consumer:
        assert {(await consumer.fetch())[0].offset for _ in range(2)} == {8}
    assert "of the user's own" in caplog.text


async def test_where_a_group_begins_at_the_end_is_kept(orders: FakeBroker, mq: Client) -> None:
    """Or whoever has the partition next would begin at a later end, and miss what came between."""
    async with mq.subscribe("orders", group="billing", start="latest"):
        await orders.until(lambda: orders.offsets["billing"] == {ONE: 10, TWO: 10})
    async with mq.subscribe("orders", group="audit"):
        pass
    assert not orders.offsets["audit"], "the beginning needs no keeping"


async def test_who_assigns_itself_leaves_the_group(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        await consumer.assign([TWO])
        assert consumer.partitions == [TWO]
        assert not orders.members["billing"]
        for message in await consumer.fetch():
            await message.ack()
        await orders.until(lambda: orders.offsets["billing"] == {TWO: 10})
    commits = [request for number, request in orders.calls if number == COMMIT]
    assert [commit.member_id for commit in commits] == [""]


async def test_who_joins_and_ends_before_the_answer_has_left(
    orders: FakeBroker, broker: FakeBroker
) -> None:
    async with connect(broker.address) as mq:
        consumer = mq.subscribe("orders", group="billing")
        orders.script[BEAT].append(HOLD)
        starting = asyncio.ensure_future(consumer.start())
        await orders.until(lambda: bool(orders.held))
        starting.cancel()
        orders.release()
        await asyncio.gather(starting, return_exceptions=True)
        await consumer.close()
    assert not orders.members["billing"]
