"""What the tests with foreign clients share: one broker per module, the clients, each started once
per module, and names that no other test has."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from tests.system.kafka.drivers.driver import PATIENCE_S, until
from tests.system.kafka.drivers.table import Clients
from tests.system.kafka.peer import Peer, new_peer

_numbers = itertools.count(1)
CreateTopic = Callable[..., None]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with new_peer(tmp_path_factory.mktemp("peer") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap(peer: Peer) -> str:
    return peer.bootstrap


@pytest.fixture(scope="module")
def clients(bootstrap: str) -> Iterator[Clients]:
    started = Clients(bootstrap)
    yield started
    started.close()


@pytest.fixture(scope="session")
def new_name() -> Callable[[str], str]:
    """Makes names that no other test has."""
    return lambda kind: f"{kind}-{next(_numbers)}"


@pytest.fixture
def topic(new_name: Callable[[str], str]) -> str:
    return new_name("topic")


@pytest.fixture
def group(new_name: Callable[[str], str]) -> str:
    return new_name("group")


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    # Its thread outlives the broker by a moment, and need not say so.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture(scope="module")
def create_topic(admin: AdminClient) -> CreateTopic:
    """create_topic(name, partitions=1, **settings), with dots of the settings as underscores."""

    def create(name: str, partitions: int = 1, **settings: str) -> None:
        config = {setting.replace("_", "."): value for setting, value in settings.items()}
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([wanted])[name].result(PATIENCE_S)
        until(lambda: partition_count(admin, name) == partitions, f"{name} is known")

    return create


def partition_count(admin: AdminClient, topic: str) -> int:
    """0: there is no such topic."""
    [described] = admin.describe_topics(TopicCollection([topic])).values()
    try:
        return len(described.result(PATIENCE_S).partitions)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return 0
        raise
