"""Share consumers of Java and of librdkafka (KIP-932): they share a partition message by message,
with one another and with our own, and each message is one's at a time."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from confluent_kafka import AcknowledgeType
from confluent_kafka.admin import AdminClient

import penstock
from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.driver import until
from tests.system.kafka.drivers.remote import JavaDriver
from tests.system.kafka.drivers.table import Clients
from tests.system.kafka.messages import Message
from tests.system.kafka.peer import IS_KAFKA
from tests.system.kafka.provide import java
from tests.system.kafka.share_members import (
    FranzMember,
    Got,
    JavaMember,
    LibrdkafkaMember,
    ProcessMember,
    mixed,
    set_for_group,
)

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
COUNT = 200

Begin = Callable[[str], None]
Decide = Callable[[str, str, str], None]
Publish = Callable[[str, range], None]


@pytest.fixture(scope="module")
def decide(admin: AdminClient) -> Decide:
    """decide(name, value, group) as an operator; the group need not be there yet."""
    return partial(set_for_group, admin)


@pytest.fixture(scope="module")
def begin(decide: Decide) -> Begin:
    """Lets a group begin at the beginning of its topics."""
    return partial(decide, "share.auto.offset.reset", "earliest")


@pytest.fixture
def publish(clients: Clients) -> Publish:
    """In batches of ten: Kafka leases whole ones."""

    def send(topic: str, numbers: range) -> None:
        for first in range(numbers.start, numbers.stop, 10):
            some = range(first, min(first + 10, numbers.stop))
            messages = [Message(key=None, value=b"%d" % number) for number in some]
            clients["confluent-kafka"].produce(topic, messages)

    return send


def values(*got: Sequence[Got]) -> list[int]:
    return sorted(int(one.value) for some in got for one in some)


def test_the_console_consumer_takes_everything_once(
    bootstrap: str,
    create_topic: CreateTopic,
    begin: Begin,
    publish: Publish,
    topic: str,
    group: str,
) -> None:
    """R-DEL-3: Kafka's own tool; who comes after it finds nothing."""
    create_topic(topic, 3)
    begin(group)
    publish(topic, range(COUNT))
    where = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group)

    def run(*until: str) -> list[int]:
        command = java().with_arguments(CONSOLE_CONSUMER, *where, *until)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return sorted(int(line) for line in done.stdout.split() if line.isdigit())

    # On a busy machine it takes longer to join than it takes to read.
    assert run("--max-messages", str(COUNT), "--timeout-ms", "50000") == list(range(COUNT))
    assert run("--timeout-ms", "3000") == []


def test_two_of_java_share_one_partition(
    bootstrap: str,
    create_topic: CreateTopic,
    begin: Begin,
    publish: Publish,
    topic: str,
    group: str,
) -> None:
    create_topic(topic, 1)
    begin(group)
    with JavaMember(bootstrap, group, topic) as one, JavaMember(bootstrap, group, topic) as two:
        published = 0

        def both_work() -> bool:
            nonlocal published
            publish(topic, range(published, published + 20))
            published += 20
            return bool(one.got) and bool(two.got)

        until(both_work, "both get messages of the one partition")
        until(lambda: len(one.got) + len(two.got) >= published, "all of them come")
        assert values(one.got, two.got) == list(range(published))
        assert {got.delivery_count for got in one.got + two.got} == {1}
        one.leave()
        two.leave()


def test_what_a_killed_one_held_comes_to_the_other(
    bootstrap: str,
    create_topic: CreateTopic,
    begin: Begin,
    publish: Publish,
    topic: str,
    group: str,
) -> None:
    """Long before its lease ends, which is 30 s."""
    create_topic(topic, 1)
    begin(group)
    publish(topic, range(50))
    with JavaMember(bootstrap, group, topic, "HOLD") as holder:
        until(lambda: bool(holder.got), "it holds messages")
        with LibrdkafkaMember(bootstrap, group, topic) as other:
            holder.kill()
            until(lambda: len(other.got) >= 50, "the other has them all")
            assert values(other.got) == list(range(50))


def test_java_librdkafka_and_ours_are_one_group(
    bootstrap: str,
    create_topic: CreateTopic,
    begin: Begin,
    publish: Publish,
    topic: str,
    group: str,
) -> None:
    """R-DEL-3: each message is one's, whichever client it has."""
    if IS_KAFKA:
        return  # it has no clients of ours
    create_topic(topic, 1)
    begin(group)

    async def ours(stop: asyncio.Event, got: list[int]) -> None:
        async with (
            penstock.connect(bootstrap) as mq,
            mq.share(topic, group=group) as consumer,
        ):
            while not stop.is_set():
                for message in await consumer.fetch(10, timeout_s=0.1):
                    got.append(int(message.value or b""))
                    await message.ack()

    async def together() -> tuple[int, list[int]]:
        stop, mine = asyncio.Event(), list[int]()
        working = asyncio.create_task(ours(stop, mine))
        published = 0
        try:
            while not (mine and java_member.got and librdkafka_member.got):
                await asyncio.to_thread(publish, topic, range(published, published + 30))
                published += 30
                await asyncio.sleep(0.05)
                assert not working.done()
            while len(mine) + len(java_member.got) + len(librdkafka_member.got) < published:
                await asyncio.sleep(0.05)
        finally:
            stop.set()
            await working
        return published, mine

    with (
        JavaMember(bootstrap, group, topic) as java_member,
        LibrdkafkaMember(bootstrap, group, topic) as librdkafka_member,
    ):
        published, mine = asyncio.run(asyncio.wait_for(together(), 60))
        all_of_them = sorted([*mine, *values(java_member.got, librdkafka_member.got)])
        assert all_of_them == list(range(published))


@pytest.mark.parametrize(
    ("kind", "limit"),
    # After five attempts where nobody says otherwise: 13 s of backoffs.
    [("java", 3), ("librdkafka", 2), pytest.param("java", None, marks=pytest.mark.soak)],
)
def test_what_is_released_comes_again_until_it_is_given_up(
    bootstrap: str,
    decide: Decide,
    create_topic: CreateTopic,
    publish: Publish,
    topic: str,
    group: str,
    kind: str,
    limit: int | None,
) -> None:
    """R-DEL-9: as many deliveries as an operator has set, each counted; then nobody gets it."""
    create_topic(topic, 1)
    decide("share.auto.offset.reset", "earliest", group)
    if limit is not None:
        decide("share.delivery.count.limit", str(limit), group)
    counts = list(range(1, (limit or 5) + 1))
    publish(topic, range(1))
    made = (
        JavaMember(bootstrap, group, topic, "RELEASE")
        if kind == "java"
        else LibrdkafkaMember(bootstrap, group, topic, AcknowledgeType.RELEASE)
    )
    with made as member:
        until(lambda: len(member.got) == len(counts), "it comes so often")
        assert [one.delivery_count for one in member.got] == counts
        assert {one.value for one in member.got} == {"0"}
        publish(topic, range(1, 2))
        until(lambda: member.got[-1].value == "1", "and no more")


@pytest.mark.parametrize("kind", ["java", "librdkafka"])
def test_what_is_rejected_is_given_up_at_once(
    bootstrap: str,
    clients: Clients,
    create_topic: CreateTopic,
    begin: Begin,
    publish: Publish,
    topic: str,
    group: str,
    kind: str,
) -> None:
    """R-DEL-9: here it is a dead letter then; Kafka has none."""
    create_topic(topic, 1)
    begin(group)
    publish(topic, range(5))
    made = (
        JavaMember(bootstrap, group, topic, "REJECT")
        if kind == "java"
        else LibrdkafkaMember(bootstrap, group, topic, AcknowledgeType.REJECT)
    )
    with made as member:
        until(lambda: len(member.got) == 5, "it gets them")
        member.leave()
    with LibrdkafkaMember(bootstrap, group, topic) as after:
        publish(topic, range(5, 6))
        until(lambda: bool(after.got), "what comes after them comes")
        assert [one.value for one in after.got] == ["5"]
    if not IS_KAFKA:
        letters = f"dead-letters.{group}"
        found = clients["confluent-kafka"].consume({letters: 5})[letters]
        assert sorted(one.value or b"" for one in found) == [b"%d" % n for n in range(5)]


def test_a_group_begins_where_an_operator_says(
    bootstrap: str,
    decide: Decide,
    clients: Clients,
    create_topic: CreateTopic,
    publish: Publish,
    topic: str,
    group: str,
) -> None:
    """R-DEL-3: at the end, or as long ago as it is said, by whichever client."""
    create_topic(topic, 1)
    hour_ago_ms = int(time.time() * 1000) - 60 * 60 * 1000
    old = Message(key=None, value=b"0", timestamp_ms=hour_ago_ms)
    clients["confluent-kafka"].produce(topic, [old])
    publish(topic, range(1, 3))
    latest, ago = f"{group}-latest", f"{group}-ago"
    decide("share.auto.offset.reset", "latest", latest)
    decide("share.auto.offset.reset", "by_duration:PT30M", ago)
    with (
        LibrdkafkaMember(bootstrap, latest, topic) as at_the_end,
        JavaMember(bootstrap, ago, topic) as since_then,
    ):
        until(lambda: len(since_then.got) == 2, "one has what is not so old")
        published = 3

        def comes() -> bool:
            nonlocal published
            publish(topic, range(published, published + 1))
            published += 1
            return bool(at_the_end.got)

        until(comes, "the other has what came since")
        until(lambda: len(since_then.got) == published - 1, "and the one as well")
        assert values(since_then.got) == list(range(1, published))
        assert min(values(at_the_end.got)) >= 3


def test_kafkas_own_tool_sets_shows_and_takes_back(
    bootstrap: str, clients: Clients, group: str
) -> None:
    """R-DEL-3: kafka-configs.sh."""
    java_driver = clients["java"]
    assert isinstance(java_driver, JavaDriver)

    def configs(*arguments: str) -> str:
        entity = ("--bootstrap-server", bootstrap, "--entity-type", "groups")
        return java_driver.tool("kafka.admin.ConfigCommand", *entity, *arguments)

    named = ("--entity-name", group)
    given = "share.record.lock.duration.ms=20000,share.auto.offset.reset=earliest"
    configs(*named, "--alter", "--add-config", given)
    shown = configs(*named, "--describe")
    assert "share.record.lock.duration.ms=20000" in shown
    assert "GROUP_CONFIG:share.auto.offset.reset=earliest" in shown
    assert "DEFAULT_CONFIG:group.share.record.lock.duration.ms=30000" in shown
    given = "share.isolation.level=read_committed"
    if not IS_KAFKA:  # KIP-1191 is not in Kafka 4.3
        given += f",errors.deadletterqueue.topic.name=dead-letters.{group}"
        given += ",errors.deadletterqueue.copy.record.enable=true"
    configs(*named, "--alter", "--add-config", given)
    shown = configs(*named, "--describe")
    assert all(f"  {each} sensitive=false" in shown for each in given.split(",")), shown
    assert group in configs("--describe"), "those that have any"
    configs(*named, "--alter", "--delete-config", "share.record.lock.duration.ms")
    assert "lock.duration.ms=20000" not in configs(*named, "--describe")
    with pytest.raises(AssertionError, match=r"equal to group\.share\.min\.record"):
        configs(*named, "--alter", "--add-config", "share.record.lock.duration.ms=1000")


def outcomes_of(number: int) -> list[str]:
    """What becomes of a message each time that it comes."""
    outcomes = [mixed(number, 1)]
    while outcomes[-1] == "release":
        outcomes.append(mixed(number, len(outcomes) + 1))
    return outcomes


def assert_none_is_lost(
    clients: Clients, group: str, count: int, members: Sequence[LibrdkafkaMember | ProcessMember]
) -> None:
    """Of messages numbered from 0 on: each comes until somebody accepts or rejects it, and not once
    more; those that are rejected are dead letters."""

    def seen() -> list[Got]:
        return [one for member in members for one in member.got]

    until(
        lambda: len({one.value for one in seen() if " release" not in one.value}) == count,
        "every message is accepted or rejected",
    )
    for member in members:
        member.leave()
    assert Counter((one.value, one.delivery_count) for one in seen()) == Counter(
        (f"{number} {outcome}", delivery)
        for number in range(count)
        for delivery, outcome in enumerate(outcomes_of(number), start=1)
    )
    if not IS_KAFKA:
        letters = f"dead-letters.{group}"
        rejected = [b"%d" % number for number in range(count) if mixed(number, 1) == "reject"]
        found = clients["confluent-kafka"].consume({letters: len(rejected)})[letters]
        assert sorted(one.value or b"" for one in found) == sorted(rejected)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_three_of_go_release_reject_and_accept_is_never_lost(
    bootstrap: str,
    clients: Clients,
    create_topic: CreateTopic,
    begin: Begin,
    topic: str,
    group: str,
    codec: str,
) -> None:
    """R-DEL-3: franz-go goes by the headers of batches, and calls what it has passed over a gap.
    Every message is seen by somebody, accepted by one, and rejected where it is rejected."""
    count = 3_000
    create_topic(topic, 1)
    begin(group)
    messages = [Message(key=None, value=b"%d" % number) for number in range(count)]
    clients["confluent-kafka"].produce(topic, messages, codec=codec)
    members = [FranzMember(bootstrap, group, topic) for _ in range(3)]
    with members[0], members[1], members[2]:
        assert_none_is_lost(clients, group, count, members)


@pytest.mark.parametrize("kind", ["java", "librdkafka"])
def test_what_two_release_reject_and_accept_is_never_lost(
    bootstrap: str,
    clients: Clients,
    create_topic: CreateTopic,
    begin: Begin,
    publish: Publish,
    topic: str,
    group: str,
    kind: str,
) -> None:
    """R-DEL-3, R-DEL-9: with the clients that Kafka's users have, message by message."""
    create_topic(topic, 1)
    begin(group)
    published = 0

    def member() -> LibrdkafkaMember | ProcessMember:
        if kind == "java":
            return JavaMember(bootstrap, group, topic, "MIXED")
        return LibrdkafkaMember(bootstrap, group, topic, None)

    with member() as one, member() as two:

        def are_enough() -> bool:
            nonlocal published
            publish(topic, range(published, published + 50))
            published += 50
            return published >= 400 and bool(one.got) and bool(two.got)

        until(are_enough, "both get some of hundreds")
        assert_none_is_lost(clients, group, published, [one, two])
