"""The clients of a process, with a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock.testing
from penstock.model.errors import ConnectionLost
from penstock.spark import cluster
from penstock.spark.cluster import CLUSTERS_MAX, close_clients, shared_client


@pytest.fixture
def address() -> Iterator[str]:
    with penstock.testing.broker() as address:
        yield address
        close_clients()


def test_one_client_for_each_cluster(address: str) -> None:
    client = shared_client(address)
    assert shared_client(address) is client
    assert client.admin.list_topics() == []


def test_a_forked_worker_makes_its_own(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parents = shared_client(address)
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: -1)
        own = shared_client(address)
        assert own is not parents
        close_clients()
    # The child dropped the parent's without a word to its thread, which is not there.
    assert parents.admin.list_topics() == []
    parents.__exit__(None, None, None)


def test_few_are_kept(address: str) -> None:
    port = address.rpartition(":")[2]
    addresses = [f"127.0.0.{number}:{port}" for number in (1,)] + [
        f"localhost:{port},{address}" + "," * extra for extra in range(CLUSTERS_MAX)
    ]
    clients = [shared_client(each) for each in addresses]
    assert len(cluster._clients) == CLUSTERS_MAX
    assert shared_client(addresses[-1]) is clients[-1]
    assert shared_client(addresses[0]) is not clients[0]


def test_a_broker_that_is_down_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_PATIENCE_S", 0.0)
    with pytest.raises(ConnectionLost, match="No broker can be reached"):
        shared_client("127.0.0.1:1")
    assert not cluster._clients
