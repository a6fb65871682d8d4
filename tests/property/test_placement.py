"""Placement, whatever the cluster: balanced, on different hosts, the same for all, little moved."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.registry.facts import Replicas
from penstock.registry.image import BrokerImage
from penstock.registry.placement import balance, change_replication, evacuate, place
from tests.kit.registry.facts import (
    Topics,
    broker,
    cluster,
    ids,
    leader_loads,
    moved,
    replica_loads,
    replicas_moved,
    spread,
)

# Where topics have different factors: a topic without followers goes where least is led, which need
# not be where least is kept.
MIXED_SPREAD_MAX = 3


@dataclass
class Grown:
    """A cluster and the topics that were made in it one after another."""

    brokers: list[BrokerImage]
    topics: dict[str, tuple[Replicas, ...]]


@st.composite
def grown(
    draw: st.DrawFn, *, on_hosts: bool = False, least: int = 1, is_uniform: bool = False
) -> Grown:
    count = draw(st.integers(least, 8))
    hosts = [draw(st.sampled_from("abc")) if on_hosts else "" for _ in range(count)]
    brokers = [broker(number, host) for number, host in enumerate(hosts, 1)]
    topics: dict[str, tuple[Replicas, ...]] = {}
    factors = st.just(draw(st.integers(1, count))) if is_uniform else st.integers(1, count)
    sizes = st.tuples(st.integers(1, 12), factors)
    for partitions, factor in draw(st.lists(sizes, max_size=8)):
        name = f"topic-{len(topics)}"
        topics[name] = place(cluster(brokers, topics), name, range(partitions), factor)
    return Grown(brokers, topics)


def check_hosts(brokers: list[BrokerImage], topics: Topics) -> None:
    """Replicas are on as many hosts as there can be."""
    host_of = {each.id: each.host or str(each.id) for each in brokers}
    hosts = len(set(host_of.values()))
    for partitions in topics.values():
        for replicas in partitions:
            assert len(set(replicas)) == len(replicas)
            assert len({host_of[each] for each in replicas}) == min(len(replicas), hosts)


def fewest_moves(loads: list[int]) -> int:
    """Without which loads cannot be equal within one."""
    low, high = sum(loads) // len(loads), -(-sum(loads) // len(loads))
    return max(
        sum(max(0, load - high) for load in loads), sum(max(0, low - load) for load in loads)
    )


@given(grown())
def test_new_topics_are_spread_evenly(made: Grown) -> None:
    """R-CORE-4, R-REP-1"""
    if made.topics:
        assert spread(leader_loads(made.brokers, made.topics)) <= 1
        assert spread(replica_loads(made.brokers, made.topics)) <= MIXED_SPREAD_MAX
        for name, partitions in made.topics.items():
            assert spread(leader_loads(made.brokers, {name: partitions})) <= 1


@given(grown(is_uniform=True))
def test_topics_of_one_replication_factor_are_spread_evenly(made: Grown) -> None:
    assert spread(replica_loads(made.brokers, made.topics)) <= 2


@given(grown(on_hosts=True))
def test_new_topics_are_spread_over_hosts(made: Grown) -> None:
    check_hosts(made.brokers, made.topics)
    assert spread(leader_loads(made.brokers, made.topics)) <= 1


@given(grown(), st.integers(1, 3))
def test_brokers_that_join_get_their_share_by_the_fewest_moves(made: Grown, new: int) -> None:
    """R-REP-7"""
    brokers = [*made.brokers, *(broker(len(made.brokers) + number + 1) for number in range(new))]
    moves = balance(cluster(brokers, made.topics))
    after = moved(made.topics, moves)
    assert spread(replica_loads(brokers, after)) <= 1
    needed = fewest_moves(replica_loads(brokers, made.topics))
    assert replicas_moved(made.topics, moves) == needed
    assert balance(cluster(brokers, after)) == []


@given(grown(is_uniform=True))
def test_a_broker_that_joins_gets_its_share_of_leaders(made: Grown) -> None:
    """Of topics of one replication factor: where some have one replica and others many, nothing
    is copied for the sake of leaders alone."""
    brokers = [*made.brokers, broker(len(made.brokers) + 1)]
    after = moved(made.topics, balance(cluster(brokers, made.topics)))
    assert spread(leader_loads(brokers, after)) <= 1


@given(grown(on_hosts=True), st.sampled_from("abcd"))
def test_a_balance_over_hosts_is_one(made: Grown, host: str) -> None:
    brokers = [*made.brokers, broker(len(made.brokers) + 1, host)]
    after = moved(made.topics, balance(cluster(brokers, made.topics)))
    check_hosts(brokers, after)
    assert sum(replica_loads(brokers, after)) == sum(replica_loads(brokers, made.topics))


@given(grown(least=3))
def test_leaders_are_even_when_everybody_has_everything(made: Grown) -> None:
    everybody = tuple(each.id for each in made.brokers)
    topics = {name: [everybody] * len(placed) for name, placed in made.topics.items()}
    moves = balance(cluster(made.brokers, topics))
    assert replicas_moved(topics, moves) == 0
    assert spread(leader_loads(made.brokers, moved(topics, moves))) <= 1


@given(grown(on_hosts=True, least=2), st.data())
def test_a_broker_is_emptied_and_nothing_else_moves(made: Grown, data: st.DataObject) -> None:
    """R-REP-7"""
    leaving = data.draw(st.sampled_from(made.brokers))
    most = len(made.brokers) - 1
    topics = {
        name: tuple(replicas[:most] for replicas in partitions)
        for name, partitions in made.topics.items()
    }
    moves = evacuate(cluster(made.brokers, topics, drained=[leaving.id]), leaving.id)
    after = moved(topics, moves)
    assert leaving.id not in {each for some in after.values() for one in some for each in one}
    for move in moves:
        before = topics[move.topic][move.partition]
        assert len(move.replicas) == len(before)
        assert len(set(move.replicas) - set(before)) == 1
        assert len(before) == 1 or move.replicas[0] in before


@given(grown(on_hosts=True), st.integers(1, 8))
def test_another_replication_factor(made: Grown, factor: int) -> None:
    factor = min(factor, len(made.brokers))
    for name in made.topics:
        after = moved(
            made.topics, change_replication(cluster(made.brokers, made.topics), name, factor)
        )
        for before, replicas in zip(made.topics[name], after[name], strict=True):
            assert len(replicas) == factor
            assert replicas[0] == before[0]
            assert set(replicas) <= set(before) or set(before) <= set(replicas)
        check_hosts(made.brokers, {name: after[name]})


@given(grown(on_hosts=True))
def test_everybody_makes_the_same_plan(made: Grown) -> None:
    """Whatever the order in which a broker heard of the others."""
    backwards = list(reversed(made.brokers))
    image, other = cluster(made.brokers, made.topics), cluster(backwards, made.topics)
    assert balance(image) == balance(other)
    factor = len(made.brokers)
    assert place(image, "new", range(5), factor) == place(other, "new", range(5), factor)
    some = ids(1)[0]
    if factor > 1 and all(len(one) < factor for each in made.topics.values() for one in each):
        assert evacuate(image, some) == evacuate(other, some)


@settings(max_examples=20)
@given(grown(least=2))
def test_one_more_broker_takes_and_the_others_do_not_trade(made: Grown) -> None:
    newcomer = broker(len(made.brokers) + 1)
    level = moved(made.topics, balance(cluster(made.brokers, made.topics)))
    for move in balance(cluster([*made.brokers, newcomer], level)):
        gained = set(move.replicas) - set(level[move.topic][move.partition])
        assert gained <= {newcomer.id}
