"""Partitions go where the registry wants them, step by step, whoever dies (R-REP-7)."""

from __future__ import annotations

import pytest

from penstock.broker.cluster import movement
from penstock.model.limits import PARTITIONS_CATCHING_UP_MAX
from tests.kit.broker.cluster import Village, village


def is_at(cluster: Village, *brokers: int, number: int = 0) -> bool:
    return (
        cluster.leader(number) is not None
        and cluster.voters(number) == set(brokers)
        and not cluster.membership(number).learners
    )


def has_everything(cluster: Village, *brokers: int, number: int = 0) -> bool:
    """Whether the copies of these brokers are equal and have something."""
    ends = {cluster.up[broker].find(number).replica.high_watermark for broker in brokers}
    return len(ends) == 1 and ends != {0}


async def test_a_partition_moves_to_other_brokers_and_leaves_nothing_behind() -> None:
    async with village(5) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.produce(b"one")
        await cluster.retarget([4, 5, 3])
        await cluster.wait(lambda: is_at(cluster, 3, 4, 5))
        await cluster.wait(lambda: not cluster.up[1].here() and not cluster.up[2].here())
        await cluster.produce(b"two")
        await cluster.wait(lambda: has_everything(cluster, 3, 4, 5))
        for number in (1, 2):
            assert not [path for path in cluster.up[number].disk.files() if "/0/" in path]


async def test_the_number_of_copies_changes_from_one_to_three_and_back() -> None:
    async with village(3) as cluster:
        await cluster.create([2])
        await cluster.produce(b"one")
        await cluster.retarget([2, 1, 3])
        await cluster.wait(lambda: is_at(cluster, 1, 2, 3))
        await cluster.wait(lambda: has_everything(cluster, 1, 2, 3))
        await cluster.retarget([3])
        await cluster.wait(lambda: is_at(cluster, 3))
        await cluster.wait(lambda: not cluster.up[1].here() and not cluster.up[2].here())
        await cluster.produce(b"two")


async def test_a_dead_broker_is_replaced() -> None:
    async with village(4) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.produce(b"one")
        await cluster.kill(1)
        await cluster.retarget([2, 3, 4])
        await cluster.wait(lambda: is_at(cluster, 2, 3, 4))
        await cluster.wait(lambda: has_everything(cluster, 2, 3, 4))
        await cluster.start(1)
        await cluster.wait(lambda: not cluster.up[1].here())


async def test_a_broker_whose_folder_was_wiped_gets_its_copies_again() -> None:
    async with village(3) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.produce(b"one")
        await cluster.kill(3)
        anew = await cluster.start(3, directory=0xABC)
        await cluster.wait(lambda: anew.node in cluster.membership().voters)
        # The lost folder loses its vote.
        await cluster.wait(lambda: len(cluster.membership().voters) == 3)
        assert is_at(cluster, 1, 2, 3)
        await cluster.wait(lambda: has_everything(cluster, 1, 2, 3))


@pytest.mark.parametrize("steps", range(0, 30, 3))
async def test_whoever_leads_next_goes_on(steps: int) -> None:
    """The leader is killed in the middle of a move, a little later each time."""
    async with village(5) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.produce(b"one")
        await cluster.retarget([4, 5, 2])
        await cluster.pass_ms(steps * 20)
        await cluster.wait(lambda: cluster.leader() is not None)
        leader = cluster.leader()
        assert leader is not None
        dead = leader.node.broker
        await cluster.kill(dead)
        await cluster.wait(lambda: cluster.leader() is not None, 60_000)
        await cluster.start(dead)
        await cluster.wait(lambda: is_at(cluster, 2, 4, 5), 60_000)
        await cluster.produce(b"two")
        await cluster.wait(lambda: has_everything(cluster, 2, 4, 5))


async def test_a_copy_stays_while_its_vote_is_needed() -> None:
    """The newcomer is down: the old copy is not to be here, and is."""
    async with village(4) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.produce(b"one")
        await cluster.retarget([1, 2, 4])
        await cluster.kill(4)
        await cluster.pass_ms(3_000)
        assert cluster.voters() == {1, 2, 3}
        assert cluster.up[3].here() == [0]
        await cluster.kill(3)
        life = await cluster.start(3)
        assert life.here() == [0], "a restart opens it though it is to go"
        await cluster.start(4)
        await cluster.wait(lambda: is_at(cluster, 1, 2, 4))
        await cluster.wait(lambda: not life.here())


async def test_a_move_that_is_called_off_leaves_nothing_behind() -> None:
    async with village(4) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.produce(b"one")
        await cluster.retarget([4, 2, 3])
        await cluster.wait(lambda: bool(cluster.membership().learners))
        await cluster.retarget([1, 2, 3])
        await cluster.wait(lambda: is_at(cluster, 1, 2, 3) and not cluster.up[4].here())


async def test_a_partition_that_comes_back_is_copied_anew() -> None:
    """R-REP-2: the copy that was let go had voted, and led: the new one does not forget that."""
    async with village(2) as cluster:
        await cluster.create([1])
        await cluster.produce(b"one")
        await cluster.retarget([2])
        await cluster.wait(lambda: is_at(cluster, 2) and not cluster.up[1].here())
        await cluster.produce(b"two")
        await cluster.retarget([1])
        await cluster.wait(lambda: bool(cluster.up[1].here()))
        back = cluster.up[1].find().replica
        assert back.consensus.raft.state.term > 0, "it is no new partition, that it could lead"
        await cluster.wait(lambda: is_at(cluster, 1) and not cluster.up[2].here())
        assert back.high_watermark >= 2
        assert cluster.leader() is cluster.up[1]


async def test_a_few_partitions_at_a_time_are_caught_up() -> None:
    async with village(2) as cluster:
        count = 3 * PARTITIONS_CATCHING_UP_MAX
        await cluster.create(*[[1]] * count)
        await cluster.retarget(*[[1, 2]] * count)
        most = 0

        def are_all_there() -> bool:
            nonlocal most
            learning = [bool(cluster.membership(number).learners) for number in range(count)]
            most = max(most, sum(learning))
            return all(is_at(cluster, 1, 2, number=number) for number in range(count))

        await cluster.wait(are_all_there, 60_000)
        assert most == PARTITIONS_CATCHING_UP_MAX


async def test_leadership_comes_back_when_the_preferred_broker_has_been_in_sync_for_a_while() -> (
    None
):
    async with village(3) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.kill(1)
        await cluster.wait(lambda: cluster.leader() is not None)
        await cluster.start(1)
        await cluster.pass_ms(8_000)
        leader = cluster.leader()
        assert leader is not None
        assert leader.node.broker != 1, "it may fail again"
        await cluster.wait(lambda: cluster.leader() is cluster.up.get(1), 8_000)


async def test_leadership_is_given_back_at_once_on_request() -> None:
    async with village(3) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.retarget([3, 2, 1])
        await cluster.pass_ms(1_000)
        assert cluster.up[1].movement.let_lead(cluster.up[1].find())
        await cluster.wait(lambda: cluster.leader() is cluster.up[3], 1_000)
        assert not cluster.up[1].movement.let_lead(cluster.up[1].find()), "it does not lead"


async def test_nothing_is_looked_at_twice_while_nothing_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DESIGN, 7: never O(partitions) per tick."""
    async with village(2) as cluster:
        await cluster.create(*[[1, 2]] * 5)
        await cluster.pass_ms(3_000)
        monkeypatch.setattr(movement, "next_step", None)
        monkeypatch.setattr(movement, "is_reached", None)
        await cluster.pass_ms(5_000)
