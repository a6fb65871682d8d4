"""Groups that rebalance while members join, leave, crash and stall: every message is read, and no
partition has two owners at a time. Real members of every client that has groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.system.kafka.conftest import partition_count
from tests.system.kafka.drivers.driver import PATIENCE_S, until
from tests.system.kafka.members import Team, Variant
from tests.system.kafka.peer import new_peer

PARTITIONS = 6
VARIANTS = {
    "confluent-kafka-range": Variant(client="confluent-kafka"),
    "confluent-kafka-cooperative": Variant(client="confluent-kafka", protocol="cooperative-sticky"),
    "confluent-kafka-consumer": Variant(client="confluent-kafka", protocol="consumer"),
    "aiokafka": Variant(client="aiokafka"),
    "kafka-python": Variant(client="kafka-python"),
    # kcat 1.7.1 throws away what its last poll found after the interrupt. So it does with Kafka.
    "kcat": Variant(client="kcat", loses_when_leaving=True),
    "kafkajs": Variant(client="kafkajs"),
    "java-cooperative": Variant(client="java", protocol="cooperative-sticky"),
    "java-consumer": Variant(client="java", protocol="consumer"),
}
STATIC = [
    "confluent-kafka-range",
    "confluent-kafka-consumer",
    "aiokafka",
    "java-cooperative",
    "java-consumer",
]
# Longer than a member is away, on the slowest machine.
STATIC_SESSION_TIMEOUT_MS = 60_000
# Members wait for their sessions to end most of the time: several groups do so at once.
GROUPS_AT_ONCE = 5


class Feed:
    """Numbered messages, spread over the partitions of a new topic, all acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(PATIENCE_S)
        until(lambda: partition_count(admin, topic) == PARTITIONS, f"{topic} is known")
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 1})
        self._topic = topic

    def send(self, count: int = 10 * PARTITIONS) -> None:
        for number in range(self.sent, self.sent + count):
            self._producer.produce(self._topic, b"%d" % number, partition=number % PARTITIONS)
        self.sent += count
        assert self._producer.flush(PATIENCE_S) == 0


def play_rebalances(bootstrap: str, topic: str, variant: Variant) -> None:
    """Members join, leave, crash and stall while messages come."""
    feed = Feed(bootstrap, topic)
    with Team(bootstrap, f"group-of-{topic}", [topic], variant) as team:
        first = team.join("first")
        feed.send()
        team.wait_until_shared(PARTITIONS, first)
        second, leaving = team.join("second"), team.join("leaving")
        team.wait_until_shared(PARTITIONS, first, second, leaving)
        feed.send()
        if variant.loses_when_leaving:
            team.wait_until_read(feed.sent)
        leaving.close()
        feed.send()
        team.wait_until_shared(PARTITIONS, first, second)
        stalling = team.join("stalling")
        team.wait_until_shared(PARTITIONS, first, second, stalling)
        feed.send()
        # All have begun to read: a member that lost its place before that may give up.
        team.wait_until_read(feed.sent)
        second.kill()
        stalling.stop()
        feed.send()
        team.wait_until_shared(PARTITIONS, first)
        stalling.go_on()
        team.wait_until_shared(PARTITIONS, first, stalling)
        feed.send()
        team.wait_until_read(feed.sent)
        first.close()
        stalling.close()
        team.story.check()


def play_static(bootstrap: str, topic: str, variant: Variant) -> None:
    """A static member that goes away and comes back has what it had, and nobody is disturbed. It
    crashes; in the protocol of KIP-848 it closes: there, its name is free only when it says so."""
    feed = Feed(bootstrap, topic)
    session = {"session_timeout_ms": STATIC_SESSION_TIMEOUT_MS}
    with Team(bootstrap, f"group-of-{topic}", [topic], variant) as team:
        staying = team.join("staying", instance="one", **session)
        leaving = team.join("leaving", instance="two", **session)
        team.wait_until_shared(PARTITIONS, staying, leaving)
        if variant.protocol == "cooperative-sticky":
            team.story.wait_until_level("staying", "leaving")
        # What a member tells is heard in order: with this, all that it told before.
        feed.send()
        team.wait_until_read(feed.sent)
        had = set(team.story.owned["leaving"])
        disturbances = team.story.rebalances["staying"]
        if variant.protocol == "consumer":
            leaving.close()
        else:
            leaving.kill()
        feed.send()
        returned = team.join("returned", instance="two", **session)
        team.wait_until_shared(PARTITIONS, staying, returned)
        team.wait_until_read(feed.sent)
        assert team.story.owned["returned"] == had
        assert team.story.rebalances["staying"] == disturbances
        staying.close()
        returned.close()
        team.story.check()


STORIES = [
    *(pytest.param(play_rebalances, VARIANTS[name], id=f"rebalances-{name}") for name in VARIANTS),
    *(pytest.param(play_static, VARIANTS[name], id=f"static-{name}") for name in STATIC),
]


@pytest.fixture(scope="module")
def patient_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that waits for members that are away: in the protocol of KIP-848 that is for all
    groups alike."""
    folder = tmp_path_factory.mktemp("patient") / "data"
    with new_peer(folder, consumer_session_timeout_ms=STATIC_SESSION_TIMEOUT_MS) as peer:
        yield peer.bootstrap


@pytest.fixture(scope="module")
def played(
    bootstrap: str, patient_bootstrap: str, request: pytest.FixtureRequest
) -> Iterator[dict[str, Future[None]]]:
    """The stories of all tests that were asked for, begun at the same time."""
    with ThreadPoolExecutor(GROUPS_AT_ONCE) as pool:
        futures = {}
        for item in request.session.items:
            if isinstance(item, pytest.Function) and item.module is request.module:
                topic = item.callspec.id
                story, variant = item.callspec.params["story"], item.callspec.params["variant"]
                assert callable(story)
                where = patient_bootstrap if story is play_static else bootstrap
                futures[topic] = pool.submit(story, where, topic, variant)
        yield futures
        for future in futures.values():
            future.cancel()


@pytest.mark.parametrize(("story", "variant"), STORIES)
def test_a_group(
    played: dict[str, Future[None]],
    request: pytest.FixtureRequest,
    story: Callable[..., None],
    variant: Variant,
) -> None:
    """R-DEL-2, R-DEL-4: a partition has one owner at a time, every message reaches the group."""
    played[request.node.callspec.id].result()
