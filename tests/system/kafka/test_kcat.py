"""kcat as people use it in a shell: what it lists, finds, formats, and reads as a group."""

from __future__ import annotations

import json

import pytest

from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.driver import until
from tests.system.kafka.drivers.kcat import KcatDriver
from tests.system.kafka.drivers.table import Clients
from tests.system.kafka.messages import CODECS, Message, numbered


@pytest.fixture(scope="module")
def kcat(bootstrap: str) -> KcatDriver:
    return KcatDriver(bootstrap)


def test_it_lists_brokers_and_topics(
    kcat: KcatDriver, bootstrap: str, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic, 3)
    listed = json.loads(kcat.run("-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [bootstrap]
    [found] = [one for one in listed["topics"] if one["topic"] == topic]
    assert [partition["partition"] for partition in found["partitions"]] == [0, 1, 2]
    assert len({partition["leader"] for partition in found["partitions"]}) == 1
    assert f'topic "{topic}" with 3 partitions' in kcat.run("-L", "-t", topic).decode()


@pytest.mark.parametrize("codec", CODECS)
def test_lines_go_in_and_come_out(kcat: KcatDriver, topic: str, codec: str) -> None:
    lines = [b"key%d:value%d" % (number, number) for number in range(100)]
    kcat.run(
        "-P", "-t", topic, "-K", ":", "-X", f"compression.codec={codec}", given=b"\n".join(lines)
    )
    printed = kcat.run("-C", "-t", topic, "-e", "-q", "-f", "%k:%s\n")
    assert printed.split() == lines


def test_it_reads_from_the_end_and_from_an_offset(kcat: KcatDriver, topic: str) -> None:
    kcat.run("-P", "-t", topic, given=b"zero\none\ntwo\nthree\n")
    assert kcat.run("-C", "-t", topic, "-o", "-2", "-e", "-q").split() == [b"two", b"three"]
    assert kcat.run("-C", "-t", topic, "-o", "1", "-c", "2", "-q").split() == [b"one", b"two"]


def test_it_finds_offsets_and_reads_by_time(
    kcat: KcatDriver, clients: Clients, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic)
    start_ms = 1_700_000_000_000
    for number in range(5):
        message = Message(key=None, value=b"%d" % number, timestamp_ms=start_ms + number * 1_000)
        clients["confluent-kafka"].produce(topic, [message])
    assert (
        kcat.run("-Q", "-t", f"{topic}:0:{start_ms + 1_500}").decode() == f"{topic} [0] offset 2\n"
    )
    printed = kcat.run(
        "-C", "-t", topic, "-o", f"s@{start_ms + 1_000}", "-o", f"e@{start_ms + 3_000}", "-q"
    )
    assert printed.split() == [b"1", b"2"]


def test_it_tells_everything_as_json(kcat: KcatDriver, topic: str) -> None:
    kcat.run("-P", "-t", topic, "-k", "key", "-H", "a=1", "-H", "b=2", given=b"value")
    found = json.loads(kcat.run("-C", "-t", topic, "-c", "1", "-q", "-J"))
    assert (found["key"], found["payload"], found["offset"]) == ("key", "value", 0)
    assert found["headers"] == ["a", "1", "b", "2"]
    assert found["tstype"] == "create"


def test_it_reads_as_a_group_and_goes_on(
    kcat: KcatDriver, clients: Clients, create_topic: CreateTopic, topic: str, group: str
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    reading = ("-X", "auto.offset.reset=earliest", "-q", "-c", "5", "-G", group, topic)
    assert kcat.run(*reading).split() == [b"0", b"1", b"2", b"3", b"4"]
    assert kcat.run(*reading).split() == [b"5", b"6", b"7", b"8", b"9"]


def test_an_unknown_topic_is_created_by_asking_for_it(kcat: KcatDriver, topic: str) -> None:
    """As Kafka does for clients that allow it."""
    kcat.run("-L", "-t", topic, "-X", "allow.auto.create.topics=true")
    until(lambda: f'"{topic}" with 1 partitions' in kcat.run("-L").decode(), "the topic is known")
