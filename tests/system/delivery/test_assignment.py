"""Who gets what, decided by a real broker for members of our own client: by every assignor, with
subscriptions of their own, how much moves when one comes, and a hundred members on twenty topics.

Members are of one process here; those that die are in `test_groups`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence

import pytest

import penstock
from penstock.client.client import Client
from penstock.client.connection.routes import GROUPS
from penstock.client.consuming.consumer import Consumer
from penstock.model.errors import InvalidRequest, TooManySubscriptions
from penstock.model.ids import TopicPartition
from penstock.model.limits import MEMBERSHIPS_PER_CONNECTION_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import GROUP_HEARTBEAT
from tests.kit.processes.brokers import BrokerProcess
from tests.system.clients import PATIENCE_S

# Hundreds of joins and rebalances, on a machine that has other things to do.
CROWD_PATIENCE_S = 4 * PATIENCE_S


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("broker")
    with BrokerProcess(folder, "partitions_per_topic_max=25") as running:
        yield running


async def create(mq: Client, name: str, count: int, partitions: int) -> list[str]:
    topics = [f"{name}-{number}" for number in range(count)]
    for topic in topics:
        await mq.admin.create_topic(topic, partitions, {"durability": "os"})
    return topics


def every(topics: Collection[str], partitions: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for topic in topics for number in range(partitions)}


async def shared(
    members: Sequence[Consumer], wanted: set[TopicPartition], loads: Collection[int] = ()
) -> dict[TopicPartition, int]:
    """Which of the members has what, when all has one owner, with these loads where they are given
    from the lowest to the highest."""
    async with asyncio.timeout(CROWD_PATIENCE_S):
        while True:
            owned = [each for member in members for each in member.partitions]
            found = sorted(len(member.partitions) for member in members)
            is_shared = len(owned) == len(wanted) and set(owned) == wanted
            if is_shared and (not loads or found == list(loads)):
                return {each: at for at, one in enumerate(members) for each in one.partitions}
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def joined(members: Sequence[Consumer]) -> AsyncIterator[None]:
    """All of them at once, and gone at the end."""
    try:
        await asyncio.gather(*(member.start() for member in members))
        yield
    finally:
        await asyncio.gather(*(member.close() for member in members))


@pytest.mark.parametrize("assignor", ["uniform", "sticky", "range", "round-robin", "ring"])
async def test_every_assignor_gives_everything_to_one_owner(
    broker: BrokerProcess, assignor: str
) -> None:
    """R-DEL-5: three members, two topics of six partitions: four for each, by the way asked for."""
    async with penstock.connect(broker.address) as mq:
        topics = await create(mq, f"by-{assignor}", 2, 6)
        members = [
            mq.subscribe(*topics, group=assignor, assignor=assignor, name=f"m{number}")
            for number in range(3)
        ]
        async with joined(members):
            owner = await shared(members, every(topics, 6), (4, 4, 4))
            assert (await mq.groups.describe(assignor)).assignor == assignor
            if assignor == "range":  # the same numbers of both, next to each other
                for number in range(6):
                    same = {owner[TopicPartition(topic, number)] for topic in topics}
                    assert same == {owner[TopicPartition(topics[0], number // 2 * 2)]}
            if assignor == "round-robin":
                for topic in topics:
                    dealt = [owner[TopicPartition(topic, number)] for number in range(6)]
                    assert dealt[:3] == dealt[3:]
                    assert len(set(dealt)) == 3


@pytest.mark.parametrize(
    ("assignor", "at_least", "at_most"),
    [
        pytest.param("uniform", 4, 4, id="uniform: the least that is even"),
        pytest.param("ring", 4, 20, id="ring: about what the ninth gets, here 4 to 12"),
        pytest.param("round-robin", 21, 40, id="round robin: nearly all"),
    ],
)
async def test_how_much_moves_when_a_ninth_member_comes(
    broker: BrokerProcess, assignor: str, at_least: int, at_most: int
) -> None:
    """R-DEL-5: of 40 partitions, of which the ninth gets four."""
    async with penstock.connect(broker.address) as mq:
        topics = await create(mq, f"moved-by-{assignor}", 4, 10)
        wanted, group = every(topics, 10), f"moved by {assignor}"
        members = [mq.subscribe(*topics, group=group, assignor=assignor) for _ in range(9)]
        ninth = members.pop()
        async with joined(members):
            before = await shared(members, wanted, [5] * 8)
            members.append(ninth)
            async with ninth:
                after = await shared(members, wanted, [4] * 5 + [5] * 4)
        moved = sum(after[each] != owner for each, owner in before.items())
        assert at_least <= moved <= at_most, f"{moved} of {len(wanted)} moved"


async def test_members_subscribe_to_different_topics(broker: BrokerProcess) -> None:
    """R-DEL-4, R-DEL-5: what one alone reads it has alone, the rest makes up for it; and it is
    shared anew when somebody with other subscriptions comes and goes."""
    async with penstock.connect(broker.address) as mq:
        topics = await create(mq, "own", 3, 4)
        first, second, third = topics
        one = mq.subscribe(first, second, group="own", name="one")
        two = mq.subscribe(second, third, group="own", name="two")
        async with joined([one, two]):
            owner = await shared([one, two], every(topics, 4), (6, 6))
            assert {owner[TopicPartition(first, number)] for number in range(4)} == {0}
            assert {owner[TopicPartition(third, number)] for number in range(4)} == {1}
            async with mq.subscribe(third, group="own", name="three") as three:
                # No single move makes it more even.
                await shared([one, two, three], every(topics, 4), (3, 4, 5))
                assert {each.topic for each in three.partitions} == {third}
            await shared([one, two], every(topics, 4), (6, 6))


async def test_a_hundred_consumers_on_twenty_topics_have_five_each(broker: BrokerProcess) -> None:
    """R-DEL-4, R-DEL-5: in both ways to read it. Everybody reads all twenty topics of 25 partitions
    and has five partitions; or each reads one topic, which has five readers with five each."""
    async with contextlib.AsyncExitStack() as stack:
        # A client has one connection for all its members: ten of them, as ten processes would be.
        clients = [
            await stack.enter_async_context(penstock.connect(broker.address)) for _ in range(10)
        ]
        topics = await create(clients[0], "crowded", 20, 25)
        for group, own in (("all of them", None), ("one each", 1)):
            members = [
                clients[number % 10].subscribe(
                    *(topics if own is None else [topics[number % 20]]),
                    group=group,
                    assignor="ring",
                    name=f"m{number}",
                )
                for number in range(100)
            ]
            async with joined(members):
                owner = await shared(members, every(topics, 25), [5] * 100)
                if own is not None:
                    reading = {(each.topic, member) for each, member in owner.items()}
                    readers = Counter(topic for topic, _ in reading)
                    assert readers == dict.fromkeys(topics, 5)


async def test_a_hundred_thousand_subscriptions_of_one_client_are_refused(
    broker: BrokerProcess,
) -> None:
    """R-DEL-4: by a stated limit, whether of topics or of members; whoever is there goes on."""
    async with penstock.connect(broker.address) as mq:
        await create(mq, "greedy", 1, 1)
        with pytest.raises(InvalidRequest, match="100000 topics are subscribed to"):
            await mq.subscribe(
                *(f"greedy-{number}" for number in range(100_000)), group="g"
            ).start()
        assert "greedy-1" not in {topic.name for topic in await mq.admin.list_topics()}
        async with mq.subscribe("greedy-0", group="modest") as modest:
            channel = await mq._connection().routes.coordinator(GROUPS)

            async def join(number: int) -> None:
                request = pb.GroupHeartbeatRequest(
                    group=f"greedy {number}",
                    member_id=f"greedy-{number}",
                    is_full=True,
                    rebalance_timeout_ms=1000,
                    topics=["greedy-0"],
                )
                await channel.call(GROUP_HEARTBEAT, request, timeout_s=PATIENCE_S)

            # One is there already.
            for number in range(1, MEMBERSHIPS_PER_CONNECTION_MAX):
                await join(number)
            with pytest.raises(TooManySubscriptions, match="which is the limit: use another one"):
                await join(MEMBERSHIPS_PER_CONNECTION_MAX)
            await mq.publish("greedy-0", b"still here")
            [message] = await modest.fetch(timeout_s=PATIENCE_S)
            assert message.value == b"still here"
