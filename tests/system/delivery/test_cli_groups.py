"""`penstock groups` and `penstock subscriptions`, by the real command."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock.records import Message
from tests.system.test_cli import Commands

SECONDS_MAX = 60


@pytest.fixture
def commands(penstock_broker: str) -> Commands:
    return Commands(penstock_broker)


def test_a_group_is_listed_described_moved_and_deleted(
    commands: Commands, penstock_topic: str
) -> None:
    """R-DEL-4, R-DEL-10: with members, their lag, and what may not be done while there are any."""
    group = f"group-of-{penstock_topic}"
    commands.run("topics", "create", penstock_topic, "--partitions", "2")
    commands.produce(penstock_topic, [str(number) for number in range(10)], "--partition", "0")
    commands.run("consume", penstock_topic, "--group", group, "--max", "4")
    [listed] = [row for row in listing(commands) if row["group"] == group]
    assert (listed["members"], listed["state"], listed["lag"]) == (0, "Empty", 6)

    reader = commands.start("consume", penstock_topic, "--group", group)
    try:
        described = wait_until(
            commands, group, lambda group: all(place["read_by"] for place in group["places"])
        )
        assert described["kind"] == "consumer"
        assert [place["read_by"] for place in described["places"]] == ["penstock-cli"] * 2
        for words in (("reset", group, "--to", "earliest", "--yes"), ("delete", group, "--yes")):
            assert "member" in commands.run("groups", *words, code=1)[1]
        wait_until(commands, group, lambda group: group["lag"] == 0)
    finally:
        reader.send_signal(signal.SIGINT)
        reader.communicate(timeout=SECONDS_MAX)

    reset = ("groups", "reset", group, "--to", "earliest")
    shown, remark = commands.run(*reset)
    assert "Nothing has changed" in remark
    assert shown.decode().split("\n")[1].split() == [penstock_topic, "0", "10", "0", "0", "10"]
    assert describe(commands, group)["lag"] == 0
    commands.run(*reset, "--yes")
    assert describe(commands, group)["lag"] == 10
    one = ("--topic", penstock_topic, "--partition", "0")
    commands.run("groups", "reset", group, "--to", "7", *one, "--yes")
    assert describe(commands, group)["places"][0]["committed"] == 7
    commands.run("groups", "reset", group, "--to", "1h-ago", *one, "--yes")
    assert describe(commands, group)["places"][0]["committed"] == 0
    assert "no offset 11" in commands.run("groups", "reset", group, "--to", "11", *one, code=1)[1]
    assert "--partition" in commands.run("groups", "reset", group, "--to", "1", code=1)[1]

    subscriptions = commands.value("subscriptions", penstock_topic)
    mode = {"topic": penstock_topic, "mode": "publish-subscribe", "groups": [group]}
    assert subscriptions == [{**mode, "lag": {group: 10}}]
    assert f"{group} (10)" in commands.run("subscriptions", penstock_topic)[0].decode()
    commands.run("groups", "delete", group, "--yes")
    assert "There is no group" in commands.run("groups", "describe", group, code=1)[1]
    assert group not in [row["group"] for row in listing(commands)]


def test_two_readers_of_a_group_end_when_all_is_read(
    commands: Commands, penstock_topic: str
) -> None:
    """R-DEL-4: --until-end is the end of what the group has to read, whoever of it reads it."""
    group = f"group-of-{penstock_topic}"
    commands.run("topics", "create", penstock_topic, "--partitions", "4")
    for partition in range(4):
        commands.produce(
            penstock_topic,
            [f"{partition}-{number}" for number in range(25)],
            "--partition",
            str(partition),
        )
    words = ("consume", penstock_topic, "--group", group, "--until-end", "--timeout", "15s")
    readers = [commands.start(*words) for _ in range(2)]
    outputs = [reader.communicate(timeout=2 * SECONDS_MAX) for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0], outputs
    read = [line for output, _ in outputs for line in output.splitlines()]
    assert sorted(set(read)) == sorted(
        f"{partition}-{number}".encode() for partition in range(4) for number in range(25)
    )
    assert describe(commands, group)["lag"] == 0


async def test_a_shared_group_is_listed_moved_and_deleted_too(
    penstock_broker: str, commands: Commands, penstock_topic: str
) -> None:
    """R-DEL-3, R-DEL-10: its lag is what it is not done with, and it can begin elsewhere."""
    group = f"group-of-{penstock_topic}"
    commands.run("topics", "create", penstock_topic, "--partitions", "1")
    commands.produce(penstock_topic, [str(number) for number in range(10)])
    async with penstock.connect(penstock_broker) as mq:
        async with mq.share(penstock_topic, group=group) as consumer:
            messages: list[Message] = []
            while len(messages) < 10:
                messages += await consumer.fetch()
            for message in messages[1:]:
                await message.ack()
            await consumer.commit()
            described = describe(commands, group)
            assert (described["kind"], described["lag"]) == ("shared", 1)
            assert [place["committed"] for place in described["places"]] == [0]
            moved = ("groups", "reset", group, "--to", "7", "--partition", "0")
            assert "stop them first" in commands.run(*moved, code=1)[1]
        subscriptions = commands.value("subscriptions", penstock_topic)
        assert subscriptions == [
            {
                "topic": penstock_topic,
                "mode": "publish-subscribe",
                "groups": [group],
                "lag": {group: 1},
            }
        ]
        shown, remark = commands.run(*moved)
        assert "Nothing has changed" in remark
        assert shown.decode().split("\n")[1].split() == [penstock_topic, "0", "0", "7", "1", "3"]
        commands.run(*moved, "--yes")
        assert describe(commands, group)["lag"] == 3
        async with mq.share(penstock_topic, group=group) as consumer:
            again: list[Message] = []
            while len(again) < 3:
                again += await consumer.fetch()
            assert [message.offset for message in again] == [7, 8, 9]
    commands.run("groups", "delete", group, "--yes")
    assert "There is no group" in commands.run("groups", "describe", group, code=1)[1]
    assert f"No group reads {penstock_topic}" in commands.run("subscriptions", penstock_topic)[1]


def test_what_is_decided_for_a_group(commands: Commands, penstock_topic: str) -> None:
    """R-DEL-3: set, shown and taken back, before the group is there and after."""
    group = f"group-of-{penstock_topic}"
    limit = "share.delivery.count.limit"

    def shown(*words: str) -> dict[str, str]:
        found = commands.value("groups", "settings", group, *words)
        assert isinstance(found, list)
        [row] = [row for row in found if row["setting"] == limit]
        return {name: row[name] for name in ("value", "from")}

    assert shown() == {"value": "5", "from": "broker"}
    assert shown("--set", f"{limit}=3") == {"value": "3", "from": "group"}
    refused = commands.run("groups", "settings", group, "--set", f"{limit}=99", code=1)[1]
    assert "less than or equal to group.share.max.delivery.count.limit, which is 10" in refused
    assert shown("--reset", limit) == {"value": "5", "from": "broker"}


def test_what_is_not_there_is_an_error_that_says_so(
    commands: Commands, penstock_topic: str
) -> None:
    """R-DEL-4: a group, a topic or a partition that there is none of: one sentence and a code."""
    commands.run("topics", "create", penstock_topic, "--partitions", "2")
    commands.produce(penstock_topic, ["one"], "--partition", "0")
    group = f"group-of-{penstock_topic}"
    commands.run("consume", penstock_topic, "--group", group, "--max", "1")
    for words, complaint in (
        (("groups", "describe", "nobody"), "no group 'nobody'"),
        (("groups", "reset", "nobody", "--to", "earliest", "--yes"), "no group 'nobody'"),
        (("groups", "delete", "nobody", "--yes"), "no group 'nobody'"),
        (("groups", "reset", group, "--to", "earliest", "--topic", "nowhere"), "'nowhere'"),
        (("groups", "reset", group, "--to", "earliest", "--partition", "7"), "no partition 7"),
        (("subscriptions", "nowhere"), "'nowhere'"),
    ):
        said = commands.run(*words, code=1)[1]
        assert complaint in said, words
        assert "Traceback" not in said
    assert describe(commands, group)["lag"] == 0, "nothing has changed"


def listing(commands: Commands) -> list[dict[str, object]]:
    found = commands.value("groups", "list")
    assert isinstance(found, list)
    return found


def describe(commands: Commands, group: str) -> dict[str, Any]:
    found = commands.value("groups", "describe", group)
    assert isinstance(found, dict)
    return found


def wait_until(
    commands: Commands, group: str, holds: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """What is told of the group, when that is so."""
    give_up_at_s = time.monotonic() + SECONDS_MAX
    while not holds(described := describe(commands, group)):
        assert time.monotonic() < give_up_at_s, described
    return described
