"""A broker that is killed (SIGKILL) and started again on its folder, under clients that know
nothing of it: what was acknowledged is there, once, and groups go on (R-STO-1)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.confluent import ConfluentDriver
from tests.system.kafka.drivers.driver import PATIENCE_S
from tests.system.kafka.members import Team, Variant
from tests.system.kafka.messages import numbered
from tests.system.kafka.peer import Peer

PATIENT = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,  # that the broker is gone is what we want
}
COUNT = 20_000
KILLS = 2


def test_an_idempotent_producer_loses_and_doubles_nothing(
    peer: Peer, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic)
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 100,
            **PATIENT,
        }
    )
    acknowledged = 0
    errors: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        nonlocal acknowledged
        acknowledged += 1
        if error is not None:
            errors.append(error)

    for kill in range(KILLS + 1):
        first = COUNT * kill // (KILLS + 1)
        last = COUNT * (kill + 1) // (KILLS + 1)
        for number in range(first, last):
            producer.produce(topic, b"%d" % number, partition=0, on_delivery=delivered)
            producer.poll(0)
        while acknowledged <= first:  # something of it is in; the rest is on its way
            producer.poll(0.01)
        if kill < KILLS:
            peer.kill()
            peer.start()
    assert producer.flush(PATIENCE_S) == 0
    assert not errors, errors[0]
    found = ConfluentDriver(peer.bootstrap).consume({topic: COUNT})[topic]
    assert [int(record.value or b"") for record in found] == list(range(COUNT))


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "consumer"])
def test_a_group_goes_on_by_itself(
    peer: Peer, create_topic: CreateTopic, topic: str, group: str, protocol: str
) -> None:
    """Its members, its offsets and its assignment survive; the consumers only wait."""
    create_topic(topic, 4)
    driver = ConfluentDriver(peer.bootstrap)
    variant = Variant(client="confluent-kafka", protocol=protocol)
    with Team(peer.bootstrap, group, [topic], variant) as team:
        members = [team.join("one"), team.join("two")]
        team.wait_until_shared(4, *members)
        driver.produce(topic, numbered(range(100)))
        team.wait_until_read(100)
        peer.kill()
        peer.start()
        driver.produce(topic, numbered(range(100, 200)))
        team.wait_until_read(200)
        for member in members:
            member.close()
        team.story.check()


def test_offsets_survive(peer: Peer, create_topic: CreateTopic, topic: str, group: str) -> None:
    create_topic(topic)
    driver = ConfluentDriver(peer.bootstrap)
    driver.produce(topic, numbered(range(10)))
    driver.consume_in_group(topic, group, 7)
    peer.kill()
    peer.start()
    assert [record.offset for record in driver.consume_in_group(topic, group, 3)] == [7, 8, 9]
