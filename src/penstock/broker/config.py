"""The settings of one broker: meaning, unit, default, and one check of them all.

Where they come from (flags, environment, file) is the command line's business. The invariant: the
registry's password is in no representation and in no error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.model import limits
from penstock.model.errors import InvalidConfig
from penstock.model.topic_config import TopicConfig
from penstock.registry import meta_address
from penstock.registry.meta_address import parse_meta
from penstock.registry.zookeeper import config as zookeeper_config
from penstock.registry.zookeeper.config import parse_zookeeper

DEFAULT_LISTEN: Final = "127.0.0.1:9092"
BROKER: Final = "broker"
META: Final = "meta"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Everything a broker can be told. Times are in milliseconds."""

    data: str = "penstock-data"
    """The folder that holds everything. Made if missing; one broker at a time may use it."""

    listen: tuple[str, ...] = (DEFAULT_LISTEN,)
    """Where to listen: host:port, [v6]:port or unix:/path. Port 0 takes a free one."""

    advertise: str = ""
    """The address clients are told to use; empty: the first of `listen`."""

    broker_id: int = 1
    """The broker's number in its cluster. It is kept in the data folder and cannot change."""

    registry: str = field(default="", repr=False)
    """What keeps the cluster's facts: meta://1@host:port,2@host:port,... or
    zookeeper://[user:password@]host:port,.../path; empty: the broker is on its own, and keeps
    them in its data folder."""

    roles: tuple[str, ...] = (BROKER,)
    """`broker`, and also `meta`: this process runs the meta server that has the broker's id in
    `registry`, on the broker's port."""

    host: str = ""
    """What fails together: brokers with the same name here share a machine, and the replicas of a
    partition are spread over such names; empty: the broker has a machine of its own."""

    replication_factor_default: int = 0
    """Replicas of a topic that is created without saying how many; 0: three, or as many as there
    are brokers."""

    internal_replication_factor: int = 3
    """Replicas of internal topics, at most as many as there are brokers."""

    auto_create_topics: bool = True
    """Create a topic when a client first uses it."""

    partitions_default: int = 1
    """Partitions of a topic that is created without saying how many."""

    partitions_per_topic_max: int = limits.PARTITIONS_PER_TOPIC_MAX_DEFAULT
    """More are refused."""

    connections_max: int = limits.CONNECTIONS_MAX_DEFAULT
    """Further clients are told that the broker is busy."""

    frame_bytes_max: int = limits.FRAME_BYTES_MAX
    """The longest frame a client may send."""

    first_frame_timeout_ms: int = 10_000
    """A connection that has said nothing by then is closed."""

    frame_timeout_ms: int = 30_000
    """A frame that is not whole by then closes its connection."""

    idle_ping_ms: int = 60_000
    """A connection silent this long is pinged, and closed when it does not answer."""

    ping_timeout_ms: int = 10_000
    """How long the answer to a ping may take."""

    push_timeout_ms: int = 10_000
    """How long a client may take to answer a push, before it is sent again, and then before its
    delivery is parked."""

    push_retry_ms: int = 1_000
    """How long after that an unanswered push is sent again."""

    retention_check_ms: int = 10_000
    """How often old segments are looked for."""

    shutdown_timeout_ms: int = 10_000
    """How long an orderly shutdown waits for answers to leave."""

    flush_threads: int = 4
    """How many partitions may be flushed to disk at the same time."""

    group_initial_rebalance_delay_ms: int = 500
    """How long an empty group waits for more members before its first generation begins."""

    group_session_timeout_ms_min: int = 6_000
    """The shortest session timeout a member of a classic group may ask for."""

    group_session_timeout_ms_max: int = 30 * 60 * 1000
    """The longest session timeout a member of a classic group may ask for."""

    group_consumer_session_timeout_ms: int = 45_000
    """A member of a consumer group (KIP-848) that is silent for longer is removed."""

    group_consumer_heartbeat_interval_ms: int = 5_000
    """How often members of a consumer group (KIP-848) are told to send heartbeats."""

    group_members_max: int = 1_000
    """Members of one group; more are refused."""

    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """How long the offsets of a group are kept after its last member left it."""

    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    """The settings of topics that do not set their own."""

    @property
    def registry_shown(self) -> str:
        """The registry as anybody may see it."""
        if self.registry.startswith(zookeeper_config.SCHEME):
            return str(parse_zookeeper(self.registry))
        return self.registry

    def validate(self) -> None:
        """Raise InvalidConfig for the first setting that makes no sense."""
        if not self.data:
            raise InvalidConfig("data is empty: name the folder that holds the broker's data.")
        if not self.listen:
            raise InvalidConfig(
                "listen is empty: give at least one address such as 127.0.0.1:9092."
            )
        most = self.partitions_per_topic_max
        for name, low, high in (
            ("broker_id", 0, limits.BROKER_ID_MAX),
            ("replication_factor_default", 0, limits.REPLICATION_FACTOR_MAX),
            ("internal_replication_factor", 1, limits.REPLICATION_FACTOR_MAX),
            ("partitions_default", 1, most),
            ("partitions_per_topic_max", 1, limits.PARTITIONS_PER_TOPIC_MAX),
            ("connections_max", 1, 1_000_000),
            ("frame_bytes_max", 64 * limits.KIB, limits.FRAME_BYTES_MAX),
            ("first_frame_timeout_ms", 1, 2**31),
            ("frame_timeout_ms", 1, 2**31),
            ("idle_ping_ms", 1, 2**31),
            ("ping_timeout_ms", 1, 2**31),
            ("push_timeout_ms", 1, 2**31),
            ("push_retry_ms", 1, 2**31),
            ("retention_check_ms", 1, 2**31),
            ("shutdown_timeout_ms", 0, 2**31),
            ("flush_threads", 1, 64),
            ("group_initial_rebalance_delay_ms", 0, 2**31),
            ("group_session_timeout_ms_min", 1, self.group_session_timeout_ms_max),
            ("group_session_timeout_ms_max", 1, 2**31 - 1),
            ("group_consumer_session_timeout_ms", 1, 2**31 - 1),
            (
                "group_consumer_heartbeat_interval_ms",
                1,
                self.group_consumer_session_timeout_ms,
            ),
            ("group_members_max", 1, 100_000),
            ("offsets_retention_ms", 1, 2**62),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidConfig(f"{name} is {value}: it must be from {low} to {high}.")
        if len(self.host) > limits.HOST_LENGTH_MAX or not self.host.isprintable():
            raise InvalidConfig(
                f"host is {self.host[:40]!r}: it must be up to {limits.HOST_LENGTH_MAX} printable "
                "characters."
            )
        self._validate_registry()

    def _validate_registry(self) -> None:
        servers: dict[int, str] = {}
        if self.registry.startswith(meta_address.SCHEME):
            servers = parse_meta(self.registry)
        elif self.registry.startswith(zookeeper_config.SCHEME):
            parse_zookeeper(self.registry)
        elif self.registry:
            raise InvalidConfig(
                "registry is of no kind that there is: write meta://1@host:port,... or "
                "zookeeper://host:port/path, or nothing for a broker on its own."
            )
        if self.registry and self.frame_bytes_max < limits.PARCEL_BYTES_MAX + limits.MIB:
            least = (limits.PARCEL_BYTES_MAX + limits.MIB) // limits.MIB
            raise InvalidConfig(
                f"frame_bytes_max is {self.frame_bytes_max}: brokers of a cluster send each other "
                f"more at once, so let it be {least}MiB or more."
            )
        if unknown := set(self.roles) - {BROKER, META}:
            raise InvalidConfig(f"roles has {min(unknown)!r} in it: a role is broker or meta.")
        if BROKER not in self.roles:
            raise InvalidConfig(
                "roles is without broker: a meta server on its own is started with "
                "`penstock metaserver`."
            )
        if META in self.roles and self.broker_id not in servers:
            raise InvalidConfig(
                f"roles has meta in it, and registry names no meta server {self.broker_id}: write "
                f"meta://{self.broker_id}@host:port,... with the place of each, or leave it out."
            )
