"""`Admin`, `ClientAdmin` and `ClusterAdmin` for code without an event loop: the same calls, each
waiting for its result.

A facade, like the rest of `client.blocking.client`: it decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.client.admin.clients import ClientList
from penstock.client.admin.cluster import ClusterStatus, Move, Outcome
from penstock.client.admin.topics import GroupLag, TopicDescription, TopicSummary
from penstock.client.client import Client
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.client.consuming.starts import Start
from penstock.model.ids import TopicPartition
from penstock.model.removal import DeletedTopic, Removal


class BlockingAdmin:
    """See `Admin`."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._run = thread.run
        self._admin = client.admin

    def create_topic(
        self,
        name: str,
        partitions: int = 0,
        config: Mapping[str, str] | None = None,
        *,
        replicas: int = 0,
    ) -> TopicSummary:
        return self._run(self._admin.create_topic(name, partitions, config, replicas=replicas))

    def delete_topic(self, name: str) -> None:
        self._run(self._admin.delete_topic(name))

    def describe_topic(self, name: str) -> TopicDescription:
        return self._run(self._admin.describe_topic(name))

    def alter_topic(
        self, name: str, config: Mapping[str, str] | None = None, reset: Collection[str] = ()
    ) -> None:
        self._run(self._admin.alter_topic(name, config, reset))

    def add_partitions(self, name: str, total: int) -> None:
        self._run(self._admin.add_partitions(name, total))

    def list_topics(self) -> list[TopicSummary]:
        return self._run(self._admin.list_topics())

    def find_offset(self, topic: str, partition: int, at: Start) -> int:
        return self._run(self._admin.find_offset(topic, partition, at))

    def list_groups(self) -> list[str]:
        return self._run(self._admin.list_groups())

    def group_offsets(self, group: str, topics: Collection[str] = ()) -> dict[TopicPartition, int]:
        return self._run(self._admin.group_offsets(group, topics))

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        self._run(self._admin.commit_offsets(group, offsets))

    def group_lag(self, group: str) -> list[GroupLag]:
        return self._run(self._admin.group_lag(group))

    def topic_groups(self, topic: str) -> dict[str, dict[int, int]]:
        return self._run(self._admin.topic_groups(topic))

    def removals(self, topic: str, partition: int) -> list[Removal]:
        return self._run(self._admin.removals(topic, partition))

    def deleted_topics(self, name: str | None = None) -> list[DeletedTopic]:
        return self._run(self._admin.deleted_topics(name))


class BlockingClusterAdmin:
    """See `ClusterAdmin`."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._run = thread.run
        self._cluster = client.cluster

    def status(self, *, moving_only: bool = False) -> ClusterStatus:
        return self._run(self._cluster.status(moving_only=moving_only))

    def move(
        self,
        topic: str,
        brokers: Sequence[int],
        partitions: Collection[int] = (),
        *,
        dry_run: bool = False,
    ) -> list[Move]:
        return self._run(self._cluster.move(topic, brokers, partitions, dry_run=dry_run))

    def replicate(self, topic: str, replicas: int, *, dry_run: bool = False) -> list[Move]:
        return self._run(self._cluster.replicate(topic, replicas, dry_run=dry_run))

    def drain(self, broker: int, onto: int | None = None, *, dry_run: bool = False) -> list[Move]:
        return self._run(self._cluster.drain(broker, onto, dry_run=dry_run))

    def add(self, broker: int, *, dry_run: bool = False) -> list[Move]:
        return self._run(self._cluster.add(broker, dry_run=dry_run))

    def rebalance(self, *, dry_run: bool = False) -> list[Move]:
        return self._run(self._cluster.rebalance(dry_run=dry_run))

    def elect_leaders(
        self, partitions: Collection[tuple[str, int]] = (), wait_ms: int = 5_000
    ) -> dict[TopicPartition, Outcome]:
        return self._run(self._cluster.elect_leaders(partitions, wait_ms))


class BlockingClientAdmin:
    """See `ClientAdmin`."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._run = thread.run
        self._clients = client.clients

    def list(self) -> ClientList:
        return self._run(self._clients.list())

    def park(self, client: str, group: str | None = None) -> int:
        return self._run(self._clients.park(client, group))

    def resume(self, client: str, group: str | None = None) -> int:
        return self._run(self._clients.resume(client, group))
