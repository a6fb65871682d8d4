"""What a run consists of before anything goes wrong: brokers, partitions, their settings, clients.

All of it is drawn from the seed, and differs from run to run: one has three brokers and one
partition, another five and four, compacted, with small segments. Not the faults. The invariant: a
run either has machines that crash, and everything is flushed before it counts, or processes that
crash, and some partitions are not flushed: "os" promises nothing against the machine's crash.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from penstock.model.ids import PartitionId, TopicId, TopicPartition
from penstock.model.limits import APPEND_BYTES_MAX
from penstock.model.topic_config import CleanupPolicy, Durability, TopicConfig
from penstock.raft.membership import Node

_DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """One partition: who has it when it is made, and its settings."""

    name: TopicPartition
    id: PartitionId
    config: TopicConfig
    voters: tuple[Node, ...]
    """Of them the first is to lead at first."""
    first_term: int = 0

    @property
    def replicas(self) -> tuple[int, ...]:
        """The voters' brokers."""
        return tuple(node.broker for node in self.voters)

    @property
    def folder(self) -> str:
        """Not that of another topic, which had the name before."""
        return f"{self.name}-{int(self.id.topic_id, 16)}"

    @property
    def is_compacted(self) -> bool:
        return self.config.is_compacted


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run's."""

    brokers: tuple[int, ...]
    partitions: tuple[PartitionPlan, ...]
    is_machine_crashing: bool
    """Or else only the process, and what is in the kernel's cache stays."""
    notices_cuts: bool
    """Whether a connection breaks where nothing goes through, and is made again; or else what is
    said is lost for a while, and nobody is told."""
    lets_go: bool
    """Whether a broker removes its copy of a partition that was moved elsewhere, and makes a new
    one when it is moved back."""
    append_bytes_max: int
    """Small: followers get what they lack in many pieces, and leaders die between them."""
    idempotent_producers: int
    """For each partition."""
    plain_producers: int
    readers: int


def partition_plan(
    number: int, replicas: tuple[int, ...], config: TopicConfig | None = None
) -> PartitionPlan:
    """A partition of a topic of its own."""
    return PartitionPlan(
        name=TopicPartition(f"topic{number}", 0),
        id=partition_id(number),
        config=config or TopicConfig(),
        voters=tuple(Node(broker, 1) for broker in replicas),
    )


def partition_id(number: int) -> PartitionId:
    return PartitionId(TopicId(f"{number + 1:032x}"), 0)


def draw_plan(seed: int) -> Plan:
    """The seed's."""
    random = Random(f"plan {seed}")
    brokers = tuple(range(1, random.choice((1, 2, 3, 3, 3, 4, 5, 5)) + 1))
    is_machine_crashing = random.random() < 0.7
    partitions = []
    for number in range(random.choice((1, 1, 2, 3))):
        count = random.choice((len(brokers), min(3, len(brokers)), random.randint(1, len(brokers))))
        replicas = tuple(random.sample(brokers, count))
        config = _draw_config(random, count, is_machine_crashing)
        partitions.append(partition_plan(number, replicas, config))
    return Plan(
        brokers=brokers,
        partitions=tuple(partitions),
        is_machine_crashing=is_machine_crashing,
        notices_cuts=random.random() < 0.8,
        lets_go=random.random() < 0.5,
        append_bytes_max=random.choice((1, 1, 300, APPEND_BYTES_MAX)),
        idempotent_producers=random.choice((1, 1, 2)),
        plain_producers=random.choice((0, 1)),
        readers=1,
    )


def _draw_config(random: Random, replicas: int, is_machine_crashing: bool) -> TopicConfig:
    durability: Durability = "fsync"
    if not is_machine_crashing and random.random() < 0.7:
        durability = "os"
    policy: CleanupPolicy = random.choice(("none", "none", "delete", "delete", "compact"))
    return TopicConfig(
        durability=durability,
        min_insync_replicas=random.choice((1, 1, replicas // 2 + 1, replicas)),
        cleanup_policy=policy,
        retention_ms=random.choice((-1, 15_000)),
        retention_bytes=random.choice((-1, 3_000)),
        # A segment holds a few batches, and some batches have one to themselves.
        segment_bytes=random.choice((300, 600, 2_000)),
        segment_ms=random.choice((5_000, _DAY_MS)),
        index_interval_bytes=128,
        min_cleanable_dirty_ratio=0.01,
        delete_retention_ms=_DAY_MS,
    )
