"""Plans, case by case. That they are balanced whatever the cluster is shown in tests/property."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.errors import InvalidReplication
from penstock.registry.facts import Move
from penstock.registry.placement import (
    balance,
    change_replication,
    evacuate,
    internal_copies,
    place,
)
from tests.kit.registry.facts import (
    broker,
    cluster,
    ids,
    leader_loads,
    moved,
    replica_loads,
    replicas_moved,
    spread,
)

THREE = [broker(1), broker(2), broker(3)]


def test_a_topic_is_spread_over_the_brokers() -> None:
    """R-CORE-4, R-REP-1: leaders on all brokers, replicas too."""
    placement = place(cluster(THREE), "orders", range(6), 2)
    assert leader_loads(THREE, {"orders": placement}) == [2, 2, 2]
    assert replica_loads(THREE, {"orders": placement}) == [4, 4, 4]
    assert all(len(set(replicas)) == 2 for replicas in placement)


def test_a_new_topic_goes_where_there_is_least() -> None:
    image = cluster(THREE, {"orders": [ids(1), ids(2)]})
    assert place(image, "events", range(1), 1) == (ids(3),)


def test_an_empty_broker_does_not_get_all_of_a_new_topic() -> None:
    image = cluster(THREE, {"orders": [ids(1), ids(2)] * 10})
    placement = place(image, "events", range(3), 1)
    assert sorted(placement) == [ids(1), ids(2), ids(3)]


def test_added_partitions_go_on_where_the_others_are_not() -> None:
    image = cluster(THREE, {"orders": [ids(1, 2)]})
    placement = place(image, "orders", range(1, 3), 2)
    loads = {"orders": [ids(1, 2), *placement]}
    assert leader_loads(THREE, loads) == [1, 1, 1]


@pytest.mark.parametrize("factor", [0, 4])
def test_more_replicas_than_brokers_are_refused(factor: int) -> None:
    with pytest.raises(InvalidReplication, match=f"{factor} replicas: 3 brokers .* 1 to 3"):
        place(cluster(THREE), "orders", range(1), factor)
    with pytest.raises(InvalidReplication, match="no broker is alive"):
        place(cluster([]), "orders", range(1), 1)


def test_replicas_are_on_different_hosts() -> None:
    hosts = [broker(1, "a"), broker(2, "a"), broker(3, "b"), broker(4, "b")]
    placement = place(cluster(hosts), "orders", range(8), 2)
    assert all({each in (1, 2) for each in replicas} == {True, False} for replicas in placement)
    three = place(cluster(hosts), "orders", range(4), 3)
    assert all(0 < sum(each in (1, 2) for each in replicas) < 3 for replicas in three)


def test_a_broker_that_joins_takes_its_share_and_no_more() -> None:
    """R-REP-7: a quarter of twelve replicas moves, each once, and leaders are even again."""
    topics = {"orders": place(cluster(THREE), "orders", range(6), 2)}
    four = [*THREE, broker(4)]
    moves = balance(cluster(four, topics))
    after = moved(topics, moves)
    assert replica_loads(four, after) == [3, 3, 3, 3]
    assert max(leader_loads(four, after)) == 2
    assert min(leader_loads(four, after)) == 1
    assert replicas_moved(topics, moves) == 3


def test_what_is_balanced_stays() -> None:
    topics = {"orders": place(cluster(THREE), "orders", range(6), 2)}
    assert balance(cluster(THREE, topics)) == []


def test_leaders_are_evened_out_without_copying() -> None:
    """Broker 1 and broker 3 have nothing in common: broker 2 is between them."""
    topics = {"orders": [ids(1, 2), ids(1, 2), ids(2, 3), ids(2, 3), ids(1, 2), ids(3, 2)]}
    heavy = {"orders": [ids(1, 2)] * 3 + [ids(2, 3)] * 3}
    for before in (topics, heavy):
        moves = balance(cluster(THREE, {**before, "more": [ids(1, 3)] * 3}))
        assert replicas_moved({**before, "more": [ids(1, 3)] * 3}, moves) <= 1
        after = moved({**before, "more": [ids(1, 3)] * 3}, moves)
        assert leader_loads(THREE, after) == [3, 3, 3]


def test_a_second_host_gets_one_of_every_two_replicas() -> None:
    one = [broker(1, "a"), broker(2, "a")]
    topics = {"orders": place(cluster(one), "orders", range(4), 2)}
    both = [*one, broker(3, "b"), broker(4, "b")]
    after = moved(topics, balance(cluster(both, topics)))
    assert all(
        {each in (1, 2) for each in replicas} == {True, False} for replicas in after["orders"]
    )
    assert replica_loads(both, after) == [2, 2, 2, 2]


def test_a_drained_broker_loses_everything() -> None:
    """R-REP-7: and who has a copy already leads, not who gets one."""
    four = [*THREE, broker(4)]
    topics = {"orders": place(cluster(four), "orders", range(8), 2)}
    image = cluster(four, topics, drained=[2])
    moves = evacuate(image, ids(2)[0])
    after = moved(topics, moves)
    assert replica_loads(four, after)[1] == 0
    assert replicas_moved(topics, moves) == replica_loads(four, topics)[1]
    for before, target in zip(topics["orders"], after["orders"], strict=True):
        assert target[0] in before
        assert before[0] in (2, target[0]), "no other leader than it must be"
    assert evacuate(cluster(four, after, drained=[2]), ids(2)[0]) == []


def test_a_broker_cannot_be_drained_when_nobody_can_take_over() -> None:
    image = cluster(THREE, {"orders": [ids(1, 2, 3)]})
    with pytest.raises(InvalidReplication, match="'orders' has 3 replicas and 2 other brokers"):
        evacuate(image, ids(3)[0])


def test_a_dead_broker_is_replaced_by_a_new_one() -> None:
    topics = {"orders": [ids(1, 2), ids(2, 3), ids(3, 1)]}
    moves = evacuate(cluster([broker(1), broker(3), broker(4)], topics), ids(2)[0], ids(4)[0])
    assert moves == [Move("orders", 0, ids(1, 4)), Move("orders", 1, ids(3, 4))]


def test_where_the_new_one_has_a_replica_already_another_takes_it() -> None:
    moves = evacuate(cluster(THREE, {"orders": [ids(2, 1)]}), ids(2)[0], ids(1)[0])
    assert moves == [Move("orders", 0, ids(1, 3))]


def test_the_replication_factor_goes_up_and_down() -> None:
    """R-REP-7: nothing moves but what is added or dropped; leaders stay."""
    topics = {"orders": place(cluster(THREE), "orders", range(6), 1)}
    up = moved(topics, change_replication(cluster(THREE, topics), "orders", 3))
    assert all(sorted(replicas) == [1, 2, 3] for replicas in up["orders"])
    down = moved(up, change_replication(cluster(THREE, up), "orders", 2))
    assert all(
        two == three[:2] or two == (three[0], three[2])
        for two, three in zip(down["orders"], up["orders"], strict=True)
    )
    assert spread(replica_loads(THREE, down)) <= 2
    assert leader_loads(THREE, down) == leader_loads(THREE, topics) == [2, 2, 2]
    with pytest.raises(InvalidReplication):
        change_replication(cluster(THREE, up), "orders", 4)


def test_dead_and_drained_brokers_lose_their_replicas_first() -> None:
    image = cluster(THREE, {"orders": [ids(9, 1, 2)]}, drained=[1])
    assert change_replication(image, "orders", 2) == [Move("orders", 0, ids(1, 2))]
    assert change_replication(image, "orders", 1) == [Move("orders", 0, ids(2))]


def test_replicas_cannot_be_added_beside_dead_ones_that_count() -> None:
    image = cluster([broker(1), broker(2), broker(3)], {"orders": [ids(9)]})
    assert len(change_replication(image, "orders", 3)[0].replicas) == 3
    crowded = cluster([broker(1), broker(2)], {"orders": [ids(1, 2)]}, drained=[2])
    with pytest.raises(InvalidReplication, match="1 brokers"):
        change_replication(crowded, "orders", 3)


def test_a_topic_that_is_being_deleted_is_left_alone() -> None:
    image = cluster(THREE, {"orders": [ids(1), ids(1), ids(1)]})
    topic = replace(image.topics["orders"], deleting=True)
    image = replace(image, topics={"orders": topic})
    assert balance(image) == evacuate(image, ids(1)[0]) == []


@pytest.mark.parametrize(
    ("brokers", "wanted", "copies"),
    [(1, 3, 1), (2, 3, 1), (3, 3, 3), (5, 3, 3), (2, 2, 2), (4, 5, 3), (2, 1, 1)],
)
def test_internal_topics_have_no_even_number_of_copies_that_nobody_asked_for(
    brokers: int, wanted: int, copies: int
) -> None:
    """R-REP-2: with two, the death of either would stop all groups."""
    image = cluster([broker(number) for number in range(1, brokers + 2)], drained=[brokers + 1])
    assert internal_copies(image, wanted) == copies
