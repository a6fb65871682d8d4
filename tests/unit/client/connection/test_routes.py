"""Routes are asked for once, remembered, and asked for again for a reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.client.concurrency import hindrance
from penstock.client.config import ClientConfig
from penstock.client.connection.links import Links
from penstock.client.connection.routes import GROUPS, STAGED_WRITES, Routes, TopicRoute
from penstock.model.errors import (
    Busy,
    ConnectionLost,
    CoordinatorLoading,
    DiskFull,
    InvalidTopic,
    NotCoordinator,
    NotLeader,
    PenstockError,
    TimedOut,
    UnknownTopic,
)
from penstock.model.ids import TopicPartition
from penstock.net.address import parse_address
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import ALTER_TOPIC, CREATE_TOPIC, FIND_OFFSET, LIST_GROUPS
from tests.kit.client.fake_broker import BREAK, LOSE_ANSWER, SWALLOW, FakeBroker

METADATA = pb.CALL_METADATA


@pytest.fixture
async def routes(broker: FakeBroker) -> AsyncIterator[Routes]:
    config = ClientConfig(retry_backoff_ms=1, retry_backoff_ms_max=2, request_timeout_ms=200)
    links = Links([parse_address(broker.address)], config)
    cache = Routes(links, config)
    yield cache
    await cache.close()
    await links.close()


async def test_a_route_is_asked_for_once(broker: FakeBroker, routes: Routes) -> None:
    """R-CORE-5: cached, and shared by those who ask at the same time."""
    broker.create("orders", 3)
    answers = await asyncio.gather(*(routes.topic("orders") for _ in range(10)))
    assert {answer.leaders for answer in answers} == {(0, 0, 0)}
    await routes.topic("orders")
    assert broker.count(METADATA) == 1
    await routes.topic("orders", refresh=True)
    assert broker.count(METADATA) == 2


async def test_topics_are_created_only_on_request(broker: FakeBroker, routes: Routes) -> None:
    """R-CORE-4: on first use, where the caller and the broker allow it."""
    with pytest.raises(UnknownTopic):
        await routes.topic("orders")
    assert (await routes.topic("orders", create=True)).partition_count == 1
    with pytest.raises(InvalidTopic):
        await routes.topic("no/name", create=True)


async def test_changes_reach_the_listeners(broker: FakeBroker, routes: Routes) -> None:
    heard: list[TopicRoute] = []
    routes.listen(heard.append)
    broker.create("orders", 1)
    broker.create("other", 1)
    await routes.topic("orders")
    await routes.topic("other")
    await routes.refresh_all()
    assert [route.topic for route in heard] == ["orders", "other"]
    broker.create("orders", 2)
    del broker.topics["other"]
    await routes.refresh_all()
    assert [route.partition_count for route in heard] == [1, 1, 2]
    with pytest.raises(UnknownTopic):
        await routes.topic("other")
    routes.unlisten(heard.append)


async def test_the_timer_refreshes(broker: FakeBroker) -> None:
    """R-CORE-5: on a timer, also past a failure."""
    config = ClientConfig(route_refresh_ms=1, retry_backoff_ms=1, request_timeout_ms=100)
    links = Links([parse_address(broker.address)], config)
    routes = Routes(links, config)
    broker.create("orders", 1)
    await routes.topic("orders")
    broker.script[METADATA].append(UnknownTopic("No."))
    refreshing = asyncio.ensure_future(routes.refresh_on_timer())
    await broker.until(lambda: broker.count(METADATA) >= 4)
    refreshing.cancel()
    await asyncio.gather(refreshing, return_exceptions=True)
    await links.close()


async def test_leaders_are_found_by_broker(broker: FakeBroker, routes: Routes) -> None:
    async with FakeBroker(broker_id=7) as other:
        broker.peers[7] = other.address
        broker.create("orders", 2)
        broker.leaders["orders", 1] = 7
        own, peer = await routes.leader("orders", 0), await routes.leader("orders", 1)
        assert own is not peer
        assert await routes.leader("orders", 1) is peer
        with pytest.raises(UnknownTopic, match="has 2"):
            await routes.leader("orders", 2)
        broker.leaders["orders", 0] = 9
        with pytest.raises(ConnectionLost, match="Broker 9"):
            await routes.leader("orders", 0, refresh=True)


async def test_where_one_broker_knows_no_leader_another_is_asked(
    broker: FakeBroker, routes: Routes
) -> None:
    """It may be the only one that does not hear the leader."""
    async with FakeBroker(broker_id=7) as other:
        for each in (broker, other):
            each.peers |= {0: broker.address, 7: other.address}
            each.create("orders", 1)
        broker.leaders["orders", 0] = -1
        with pytest.raises(NotLeader, match="no leader"):
            await routes.leader("orders", 0)
        assert other.count(METADATA) == 0
        found = await routes.leader("orders", 0, refresh=True)
        assert other.count(METADATA) == 1
        assert await routes.broker(7) is found


async def test_a_partition_newer_than_the_route_is_found(
    broker: FakeBroker, routes: Routes
) -> None:
    broker.create("orders", 1)
    await routes.leader("orders", 0)
    broker.create("orders", 2)
    await routes.leader("orders", 1)
    asked = broker.count(METADATA)
    with pytest.raises(UnknownTopic, match="has no partition 2"):
        await routes.leader("orders", 2)
    assert broker.count(METADATA) == asked + 1, "asked once, in case it is new"


async def test_a_broker_under_another_ones_address_is_noticed(
    broker: FakeBroker, routes: Routes
) -> None:
    async with FakeBroker(broker_id=7) as other:
        broker.peers[3] = other.address
        broker.create("orders", 1)
        broker.leaders["orders", 0] = 3
        with pytest.raises(ConnectionLost, match="Another broker than 3"):
            await routes.leader("orders", 0)


@pytest.mark.parametrize("action", [Busy(), BREAK, NotLeader()], ids=str)
async def test_calls_are_made_again(
    broker: FakeBroker, routes: Routes, action: PenstockError | str
) -> None:
    broker.create("orders", 1)
    broker.script[pb.CALL_FIND_OFFSET].extend([action] * 3)
    request = pb.FindOffsetRequest(topic="orders", latest=True)
    answer = await routes.call_leader(TopicPartition("orders", 0), FIND_OFFSET, request)
    assert answer.offset == 0
    assert broker.count(pb.CALL_FIND_OFFSET) == 4
    assert broker.count(METADATA) == 4, "each failure refreshes the route"


async def test_a_change_that_may_be_done_is_not_made_again(
    broker: FakeBroker, routes: Routes
) -> None:
    broker.script[pb.CALL_CREATE_TOPIC].append(LOSE_ANSWER)
    request = pb.CreateTopicRequest(name="orders")
    with pytest.raises(ConnectionLost):
        await routes.call_any(CREATE_TOPIC, request, repeatable=False)
    assert broker.count(pb.CALL_CREATE_TOPIC) == 1
    broker.script[pb.CALL_CREATE_TOPIC].append(Busy())
    await routes.call_any(CREATE_TOPIC, request, repeatable=False)


async def test_calls_end_with_the_timeout(broker: FakeBroker, routes: Routes) -> None:
    broker.script[pb.CALL_LIST_GROUPS].append(SWALLOW)
    with pytest.raises(TimedOut):
        await routes.call_any(LIST_GROUPS, pb.ListGroupsRequest())
    broker.script[pb.CALL_LIST_GROUPS].extend([Busy("Still busy.")] * 1000)
    with pytest.raises((Busy, TimedOut)):
        await routes.call_any(LIST_GROUPS, pb.ListGroupsRequest())


async def test_where_the_time_is_over_in_a_call_the_last_error_is_not_forgotten(
    broker: FakeBroker, routes: Routes
) -> None:
    """A broker that answered is not said to be down."""
    broker.script[pb.CALL_LIST_GROUPS].extend([Busy("Still busy."), SWALLOW])
    with pytest.raises(TimedOut) as raised:
        await routes.call_any(LIST_GROUPS, pb.ListGroupsRequest())
    assert raised.value.message == (
        "ListGroups was not done within 200 ms. The last error was: Still busy."
    )


async def test_what_is_waited_for_is_said_once(
    broker: FakeBroker,
    routes: Routes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R-STO-1: its user would see nothing for half a minute."""
    monkeypatch.setattr(hindrance, "TELL_AFTER_S", 0.0)
    full = DiskFull("Broker 1 has no room for __offsets-0: The disk is full.")
    broker.script[METADATA].append(Busy("Not yet."))
    broker.script[pb.CALL_LIST_GROUPS].extend([full] * 3)
    await routes.metadata()
    await routes.call_coordinator(GROUPS, LIST_GROUPS, pb.ListGroupsRequest())
    assert caplog.messages == [
        "ListGroups cannot be answered, and is tried again for 0 s: Broker 1 has no room for "
        "__offsets-0: The disk is full.",
        "ListGroups can be answered again",
    ]


async def test_of_many_who_wait_for_the_same_one_says_so(
    broker: FakeBroker,
    routes: Routes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A consumer of fifty partitions is one user."""
    monkeypatch.setattr(hindrance, "TELL_AFTER_S", 0.0)
    broker.create("orders", 50)
    await routes.topic("orders")
    broker.script[pb.CALL_FIND_OFFSET].extend([Busy("Very busy.")] * 10_000)
    finding = (
        routes.call_leader(
            TopicPartition("orders", number),
            FIND_OFFSET,
            pb.FindOffsetRequest(topic="orders", partition=number, latest=True),
        )
        for number in range(50)
    )
    await asyncio.gather(*finding, return_exceptions=True)
    assert 1 <= len(caplog.messages) < 10


async def test_a_registry_without_room_is_told_at_once(broker: FakeBroker, routes: Routes) -> None:
    """R-STO-1: shortening the retention is what a person does about a full disk."""
    broker.script[pb.CALL_ALTER_TOPIC].extend([DiskFull("The disk is full.")] * 1000)
    with pytest.raises(DiskFull, match="The disk is full"):
        await routes.call_any(ALTER_TOPIC, pb.AlterTopicRequest(name="orders"))
    assert broker.count(pb.CALL_ALTER_TOPIC) == 1


async def test_a_route_with_a_hole_is_refused(
    broker: FakeBroker, routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the broker says is checked before it is used."""

    def metadata(request: pb.MetadataRequest, data: memoryview) -> pb.MetadataResponse:
        answer = pb.MetadataResponse()
        answer.topics.add(name="orders").partitions.add(partition=1, leader=0)
        return answer

    monkeypatch.setattr(broker, "_metadata", metadata)
    with pytest.raises(PenstockError, match="leaves partitions out"):
        await routes.topic("orders")


# --- coordinators --------------------------------------------------------------------------------


async def test_who_looks_after_groups_is_asked_once(broker: FakeBroker, routes: Routes) -> None:
    """R-CORE-5: any broker says it, also who is not it."""
    async with FakeBroker(broker_id=5) as other:
        broker.peers[5] = other.address
        broker.coordinators[GROUPS] = 5
        other.offsets["g"]["orders", 0] = 7
        for _ in range(3):
            answer = await routes.call_coordinator(GROUPS, LIST_GROUPS, pb.ListGroupsRequest())
            assert list(answer.groups) == ["g"]
        assert broker.count(pb.CALL_FIND_COORDINATOR) == 1
        assert other.count(pb.CALL_LIST_GROUPS) == 3


@pytest.mark.parametrize("refusal", [NotCoordinator(), NotLeader(), CoordinatorLoading(), BREAK])
async def test_a_coordinator_that_is_replaced_is_asked_for_again(
    broker: FakeBroker, routes: Routes, refusal: PenstockError | str
) -> None:
    """R-REP-2: without anything that a user would have to do."""
    async with FakeBroker(broker_id=5) as other:
        broker.peers[5] = other.address
        broker.coordinators[GROUPS] = 5
        await routes.call_coordinator(GROUPS, LIST_GROUPS, pb.ListGroupsRequest())
        other.script[pb.CALL_LIST_GROUPS].append(refusal)
        broker.coordinators[GROUPS] = 0
        other.coordinators[GROUPS] = 0
        other.peers[0] = broker.address
        await routes.call_coordinator(GROUPS, LIST_GROUPS, pb.ListGroupsRequest())
        assert broker.count(pb.CALL_LIST_GROUPS) == 1


async def test_while_there_is_no_coordinator_it_is_waited_for(
    broker: FakeBroker, routes: Routes
) -> None:
    broker.script[pb.CALL_FIND_COORDINATOR].extend([NotCoordinator()] * 4)
    await routes.call_coordinator(STAGED_WRITES, LIST_GROUPS, pb.ListGroupsRequest())
    assert broker.count(pb.CALL_FIND_COORDINATOR) == 5
    broker.script[pb.CALL_FIND_COORDINATOR].extend([NotCoordinator()] * 10_000)
    with pytest.raises((NotCoordinator, TimedOut)):
        await routes.call_coordinator(GROUPS, LIST_GROUPS, pb.ListGroupsRequest())


async def test_whoever_does_not_answer_is_not_asked_all_the_time(broker: FakeBroker) -> None:
    """R-CORE-5: a broker that hangs, or is still starting, holds up no route for long."""
    config = ClientConfig(retry_backoff_ms=1, retry_backoff_ms_max=2, connect_timeout_ms=400)
    async with FakeBroker(broker_id=5) as other:
        other.create("orders", 1)
        links = Links([parse_address(broker.address), parse_address(other.address)], config)
        routes = Routes(links, config)
        broker.script[METADATA].extend([SWALLOW, Busy()])
        assert (await routes.topic("orders")).leaders == (5,)
        other.script[METADATA].append(Busy())
        with pytest.raises(UnknownTopic):
            await routes.topic("orders", refresh=True)  # of the one that knows it not
        await routes.close()
        await links.close()
