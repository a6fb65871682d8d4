"""Topics are made and deleted at all brokers at once, and looked at (R-REP-5, R-CORE-4)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from penstock.protocol.kafka.apis import CREATE_TOPICS, DELETE_TOPICS, METADATA
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.kit.histories.topics import NONE, SOME, Asked, TopicHistory, check_looks, linearized
from tests.kit.processes.cluster import Cluster
from tests.system.cluster.views import ask

NAMES = ("one", "two")
LOAD_S = 3.0


def test_what_was_answered_of_topics_has_an_order(tmp_path: Path) -> None:
    """Each broker has one client that changes topics and one that looks; besides, one goes from
    broker to broker and never waits for news to spread."""
    history = TopicHistory()
    failures: list[BaseException] = []
    with Cluster(tmp_path, auto_create_topics=False) as cluster:
        until_s = time.monotonic() + LOAD_S
        clients = [
            Client(history, broker, address, random.Random(broker))
            for broker, address in cluster.addresses.items()
        ]

        def work(act: Callable[[], None]) -> None:
            try:
                while time.monotonic() < until_s:
                    act()
            except BaseException as error:
                failures.append(error)

        around = cycle(clients)

        def hand_over() -> None:
            next(around).make("handed")
            next(around).delete("handed")

        acts = [act for client in clients for act in (client.change, client.look)]
        threads = [threading.Thread(target=work, args=(act,)) for act in (*acts, hand_over)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures, failures
    made = [one for one in history.asked if one.kind == "create" and not one.is_refused]
    gone = [one for one in history.asked if one.kind == "delete" and not one.is_refused]
    assert len(made) > 2, "nothing was tested"
    assert len(gone) > 2, "nothing was tested"
    history.check()


class Client:
    """Of one broker."""

    def __init__(
        self, history: TopicHistory, broker: int, address: str, chance: random.Random
    ) -> None:
        self._history = history
        self._broker = broker
        self._address = address
        self._chance = chance

    def change(self) -> None:
        name = self._chance.choice(NAMES)
        self._chance.choice((self.make, self.delete))(name)

    def make(self, name: str) -> None:
        topic = CreatableTopic(name, 1, 3)
        self._ask("create", name, CREATE_TOPICS, 7, CreateTopicsRequest([topic], 5_000))

    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=5_000)
        self._ask("delete", name, DELETE_TOPICS, 6, request)

    def look(self) -> None:
        name = random.choice(NAMES)
        wanted = [MetadataRequestTopic(name=name)]
        self._ask("look", name, METADATA, 12, MetadataRequest(wanted, False))
        time.sleep(0.01)

    def _ask(self, kind: str, name: str, api: Any, version: int, request: object) -> None:
        began_s = time.monotonic()
        response = ask(self._address, api, version, request, 10.0)
        (found,) = response.responses if kind == "delete" else response.topics
        code = ErrorCode(found.error_code)
        if code is ErrorCode.REQUEST_TIMED_OUT:
            # What it made was deleted before anybody led it, or it made nothing.
            self._history.note(
                kind, name, self._broker, began_s, SOME if kind == "create" else NONE, is_open=True
            )
            return
        topic_id = "" if kind == "delete" else found.topic_id.hex().strip("0")
        refusals = {
            "create": ErrorCode.TOPIC_ALREADY_EXISTS,
            "delete": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "look": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        is_refused = code is refusals[kind]
        is_led = kind == "look" and code is ErrorCode.LEADER_NOT_AVAILABLE
        assert is_refused or is_led or code is ErrorCode.NONE, (kind, code, found)
        topic_id = NONE if is_refused else topic_id
        is_refused = is_refused and kind != "look"
        self._history.note(kind, name, self._broker, began_s, topic_id, is_refused=is_refused)


def asked(
    kind: str,
    at: float,
    topic_id: str = NONE,
    *,
    took: float = 1,
    broker: int = 1,
    no: bool = False,
    is_open: bool = False,
) -> Asked:
    return Asked(
        kind=kind,
        name="one",
        broker=broker,
        began_s=at,
        ended_s=at + took,
        topic_id=topic_id,
        is_refused=no,
        is_open=is_open,
    )


SOUND = [
    asked("create", 0, "a"),
    asked("create", 0.5, no=True, broker=2),
    asked("look", 2, "a"),
    asked("look", 2, broker=2),
    asked("delete", 3, took=4),
    asked("create", 4, "b", took=4, broker=2),
    asked("look", 5, "a"),
    asked("look", 9, "b", broker=2),
]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param([asked("create", 10, "c")], id="made twice"),
        pytest.param([asked("delete", 10, no=True)], id="not found"),
        pytest.param([asked("delete", 10), asked("delete", 12)], id="deleted twice"),
        pytest.param([asked("look", 10, "a", broker=2)], id="goes back"),
        pytest.param([asked("look", 10, "c")], id="never was"),
        pytest.param(
            [asked("delete", 10), asked("look", 12, "b")], id="shown by whoever deleted it"
        ),
    ],
)
def test_what_cannot_be_is_found(wrong: list[Asked]) -> None:
    history = TopicHistory()
    history.asked = list(SOUND)
    history.check()
    history.asked += wrong
    with pytest.raises(AssertionError, match=r"no order explains|goes back"):
        history.check()


@pytest.mark.parametrize(
    "later",
    [
        pytest.param([], id="it made nothing"),
        pytest.param([asked("create", 12, no=True), asked("delete", 14)], id="it was there"),
        pytest.param([asked("look", 12, "c"), asked("delete", 14)], id="it was seen"),
    ],
)
def test_what_was_not_answered_may_have_taken_place(later: list[Asked]) -> None:
    history = TopicHistory()
    history.asked = [*SOUND, asked("delete", 10), asked("create", 11, SOME, is_open=True), *later]
    history.check()
    history.asked.append(asked("delete", 16))
    with pytest.raises(AssertionError, match="no order explains") if later else nullcontext():
        history.check()


def test_an_order_is_found_where_answers_overlap() -> None:
    order = linearized([one for one in SOUND if one.kind != "look"], random.Random(0))
    assert order is not None
    assert [one.topic_id for one in order if not one.is_refused] == ["a", NONE, "b"]
    check_looks(SOUND, order)
