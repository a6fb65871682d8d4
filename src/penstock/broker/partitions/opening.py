"""How a partition is made of what lies in its folder: its log, the copy that takes part, and who
produced to it.

Not which partitions those are, nor where they are kept then (`partitions`). The invariant: what the
last orderly stop left is believed once; from then on the log tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from penstock.broker.partitions import producer_snapshot
from penstock.broker.partitions.clean_stop import CleanEnds
from penstock.broker.partitions.folders import TopicFolders
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.readers import Wakings
from penstock.coordination.producers.state import ProducerState
from penstock.model.ids import PartitionId, TopicPartition
from penstock.model.removal import DeletedTopic
from penstock.model.topic_config import TopicConfig
from penstock.raft.membership import Membership
from penstock.registry.image import TopicImage
from penstock.replication.peers.replicas import Replicas
from penstock.replication.replica.participant import Participant
from penstock.replication.replica.replica import Replica
from penstock.replication.replica.transport import Surroundings
from penstock.storage.log.log import Log, LogConfig

LeadershipWatcher = Callable[[Partition, bool], None]


class PartitionOpener:
    """One per broker."""

    def __init__(
        self,
        around: Surroundings,
        folders: TopicFolders,
        replicas: Replicas | None,
        kept_producers: set[int],
    ) -> None:
        """kept_producers: those that no partition forgets, in a set that may change."""
        self._around = around
        self._folders = folders
        self._replicas = replicas
        self._kept_producers = kept_producers
        self._wakings = Wakings(_in_next_turn)
        # Of the last stop, if it was orderly.
        self.clean_ends: CleanEnds = {}
        # What the cluster remembers of deleted topics.
        self.deleted_topics: Callable[[], Iterable[DeletedTopic]] = tuple
        # Told of each change of who leads a partition here, in a turn of its own.
        self.leadership_watchers: list[LeadershipWatcher] = []

    def open(self, topic: TopicImage, number: int, config: TopicConfig) -> Partition:
        """The partition, which takes part from now on. StorageError."""
        name = TopicPartition(topic.name, number)
        folder = self._folders.folder(name)
        clock = self._around.clock
        clean_end, clean_producers = self.clean_ends.pop(name, (None, b""))
        log = Log.open(folder, log_config(config), clean_end=clean_end)
        log.explain_cut(clock.now_ms())
        is_clean = clean_end is not None and clean_end.next_offset == log.next_offset
        replica = Replica(
            str(name),
            PartitionId(topic.id, number),
            log,
            folder,
            initial=Membership(frozenset(topic.partitions[number].voters)),
            first_term=topic.first_term,
            durability=config.durability,
            around=self._around,
            min_insync_replicas=config.min_insync_replicas,
            may_lack=config.durability == "os" and not is_clean,
            campaigns_at_once=self._around.me in topic.partitions[number].voters[:1],
        )

        def recover_producers() -> ProducerState:
            nonlocal is_clean
            if is_clean:
                # What the last stop left holds once: from now on the log tells of more.
                is_clean = False
                return ProducerState.decode(clean_producers, self._kept_producers)
            return producer_snapshot.recover(
                folder, topic.id, log, clock.now_ms(), self._kept_producers
            )

        partition = Partition(
            name, topic.id, config, replica, recover_producers, clock, self._wakings
        )
        partition.sequences.has_namesake = lambda: any(
            deleted.name == topic.name for deleted in self.deleted_topics()
        )
        partition.when_led = partial(_tell_led, self.leadership_watchers, partition)
        replica.snapshot = lambda: producer_snapshot.take(partition)
        if self._replicas is None:
            replica.start()
        else:
            self._replicas.add(Participant(replica))
        return partition


def log_config(config: TopicConfig) -> LogConfig:
    # Only sealed segments are compacted, so one must be sealed before its messages wait too long.
    lag_ms = config.max_compaction_lag_ms if config.is_compacted else config.segment_ms
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=min(config.segment_ms, lag_ms),
        index_interval_bytes=config.index_interval_bytes,
    )


def _in_next_turn(what: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(what)


def _tell_led(watchers: Iterable[LeadershipWatcher], partition: Partition, is_leader: bool) -> None:
    loop = asyncio.get_running_loop()
    for callback in watchers:
        loop.call_soon(callback, partition, is_leader)
