"""The facts as znodes, and changes of them as transactions (R-REP-4).

    /cluster            the cluster's id, who is drained, and what is set for brokers
    /brokers/ids/ID     a broker, while its session lasts
    /controller         the broker that sees to the cluster, while its session lasts
    /topics/NAME        a topic: its settings, and each partition's target and first voters
    /deleted-topics     the latest deletions
    /producer-ids       the next producer id

Blocking, for the registry's own thread. Not the session, nor who is controller. Invariants: a
change is one transaction that names the version of everything it replaces; every change of a topic
that exists names the version of `/deleted-topics` too, and every deletion raises it, since a topic
that was made anew counts its versions from 0 again. A znode that cannot be understood is an error
of its own, and the others are served.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Final

from penstock.model.errors import (
    ChangedMeanwhile,
    CorruptFacts,
    InvalidRequest,
    RegistryUnavailable,
)
from penstock.model.ids import BrokerId
from penstock.model.limits import REGISTRY_CONFLICTS_MAX, ZNODE_BYTES_MAX
from penstock.model.removal import DeletedTopic
from penstock.registry import facts_json
from penstock.registry.api import lost_cluster
from penstock.registry.facts import (
    Adopt,
    Change,
    Facts,
    ReserveProducerIds,
    apply,
    topics_of,
)
from penstock.registry.image import (
    NO_BROKER_SETTINGS,
    BrokerImage,
    BrokerSettings,
    ClusterImage,
    TopicImage,
)
from penstock.registry.zookeeper.session import (
    Check,
    Create,
    Delete,
    Operation,
    OutcomeUnknown,
    Replace,
    ZooKeeperSession,
)

logger = logging.getLogger(__name__)

CLUSTER: Final = "/cluster"
BROKERS: Final = "/brokers/ids"
CONTROLLER: Final = "/controller"
TOPICS: Final = "/topics"
DELETED: Final = "/deleted-topics"
PRODUCER_IDS: Final = "/producer-ids"

_MISSING: Final = -1
_BROKER_NAME: Final = re.compile(r"0|[1-9][0-9]{0,9}")


class ZooKeeperStore:
    """What of the cluster was last read."""

    def __init__(
        self, session: ZooKeeperSession, cluster_id: str, *, may_make: bool = True
    ) -> None:
        """cluster_id: for a cluster that does not exist yet, if that may be made."""
        self._may_make = may_make
        self._session = session
        self._cluster_id = cluster_id
        self._drained: frozenset[BrokerId] = frozenset()
        self._broker_settings: BrokerSettings = NO_BROKER_SETTINGS
        self._brokers: dict[BrokerId, BrokerImage] = {}
        self._controller: BrokerId | None = None
        self._topics: dict[str, TopicImage] = {}
        self._deleted: tuple[DeletedTopic, ...] = ()
        self._first_term = 0
        self._next_producer_id = 0
        # Of the znodes that are one of a kind, as last read.
        self._versions: dict[str, int] = {}
        self._unreadable: dict[str, CorruptFacts] = {}
        """By path."""
        self._images = 0

    def begin(self) -> None:
        """Make what a cluster consists of, where it is missing, and read it. The id of a cluster
        that exists replaces the one that was proposed."""
        self._session.catch_up(CLUSTER)
        if not self._may_make and self._session.read(CLUSTER) is None:
            raise lost_cluster("The ZooKeeper", self._cluster_id)
        for path in ("/brokers", BROKERS, TOPICS):
            self._session.ensure(path)
        for path, data in (
            (CLUSTER, facts_json.encode_cluster(self._cluster_id, ())),
            (DELETED, facts_json.encode_deletions(())),
            (PRODUCER_IDS, facts_json.encode_producer_ids(0)),
        ):
            if self._session.read(path) is None:
                # Whether this one or another broker's was first is the same.
                self._commit_surely([Create(path, data)])
        self.read_all()
        if CLUSTER in self._unreadable:
            raise self._unreadable[CLUSTER]

    def read_all(self) -> None:
        """After a connection was lost nobody is told what changed meanwhile: look at everything."""
        self.refresh([CLUSTER, DELETED, PRODUCER_IDS, CONTROLLER, BROKERS, TOPICS])
        topics = self._topic_paths()
        self.refresh([*topics, *(f"{BROKERS}/{broker}" for broker in self._brokers)])

    def refresh(self, paths: Iterable[str]) -> None:
        """Read these anew; of BROKERS and TOPICS, which there are, and those that are new."""
        single = []
        for path in dict.fromkeys(paths):
            if path == BROKERS:
                single += self._new_brokers()
            elif path == TOPICS:
                single += self._new_topics()
            else:
                single.append(path)
        znodes = dict(zip(single, self._session.read_all(single), strict=True))
        if CONTROLLER in znodes:
            # Nobody may be it: then it is watched for.
            znodes[CONTROLLER] = self._session.read(CONTROLLER)
        for path, znode in znodes.items():
            self._unreadable.pop(path, None)
            try:
                data = None if znode is None else znode.data
                self._take(path, data, _MISSING if znode is None else znode.version)
            except CorruptFacts as error:
                logger.error("%s", error)
                self._unreadable[path] = error

    def image(self) -> ClusterImage:
        """The cluster as it was last read."""
        self._images += 1
        unreadable = {
            path.removeprefix(f"{TOPICS}/"): error.message
            for path, error in self._unreadable.items()
            if path.startswith(f"{TOPICS}/")
        }
        return self._facts().image(controller=self._controller, unreadable=unreadable)

    def change(self, change: Change) -> Facts:
        """Make the change durable; returns the facts before it. Refusals are those of `apply`."""
        for _ in range(REGISTRY_CONFLICTS_MAX):
            # Deletions first: a topic read after them is of the same making when they are checked.
            self.refresh([DELETED, CLUSTER, PRODUCER_IDS, *map(_topic_path, topics_of(change))])
            before = self._facts()
            self._check_readable(change)
            operations = self._operations(change, before, apply(before, change))
            if not operations or self._is_made(change, operations):
                self.refresh([operation.path for operation in operations])
                return before
        raise ChangedMeanwhile("Others change the same thing all the time: try again later.")

    def _facts(self) -> Facts:
        return Facts(
            cluster_id=self._cluster_id,
            version=self._images,
            brokers=dict(sorted(self._brokers.items())),
            drained=self._drained,
            broker_settings=self._broker_settings,
            topics=dict(sorted(self._topics.items())),
            deleted_topics=self._deleted,
            first_term=self._first_term,
            next_producer_id=self._next_producer_id,
        )

    def _check_readable(self, change: Change) -> None:
        needed = {*map(_topic_path, topics_of(change))}
        needed.add(PRODUCER_IDS if isinstance(change, ReserveProducerIds | Adopt) else DELETED)
        for path in needed & self._unreadable.keys():
            raise self._unreadable[path]

    # --- reading -------------------------------------------------------------------------------

    def _new_brokers(self) -> list[str]:
        """Forget those that are gone."""
        names = self._session.children(BROKERS)
        numbers = {BrokerId(int(name)) for name in names if _BROKER_NAME.fullmatch(name)}
        for gone in self._brokers.keys() - numbers:
            del self._brokers[gone]
        return [f"{BROKERS}/{number}" for number in sorted(numbers - self._brokers.keys())]

    def _new_topics(self) -> list[str]:
        paths = {_topic_path(name) for name in self._session.children(TOPICS)}
        known = set(self._topic_paths())
        for gone in known - paths:
            self._unreadable.pop(gone, None)
            self._topics.pop(gone.removeprefix(f"{TOPICS}/"), None)
        return sorted(paths - known)

    def _topic_paths(self) -> list[str]:
        unreadable = (path for path in self._unreadable if path.startswith(f"{TOPICS}/"))
        return [*map(_topic_path, self._topics), *unreadable]

    def _take(self, path: str, data: bytes | None, version: int) -> None:
        """What was read there; no data if there is no such znode."""
        if path.startswith(f"{TOPICS}/"):
            self._take_topic(path, data, version)
        elif path.startswith(f"{BROKERS}/"):
            self._take_broker(path, data)
        elif path == CONTROLLER:
            self._controller = None
            if data is not None:
                self._controller = facts_json.decode_broker(data, path).id
        else:
            self._versions[path] = version
            self._take_single(path, data)

    def _take_single(self, path: str, data: bytes | None) -> None:
        if path == DELETED:
            self._deleted, self._first_term = (), 0
            if data is not None:
                self._deleted, self._first_term = facts_json.decode_deletions(data, path)
        elif path == PRODUCER_IDS:
            if data is not None:
                self._next_producer_id = facts_json.decode_producer_ids(data, path)
        elif path == CLUSTER and data is not None:
            cluster = facts_json.decode_cluster(data, path)
            self._cluster_id, self._drained, self._broker_settings = cluster

    def _take_topic(self, path: str, data: bytes | None, version: int) -> None:
        name = path.removeprefix(f"{TOPICS}/")
        self._topics.pop(name, None)
        if data is not None:
            topic = facts_json.decode_topic(data, path, version)
            if topic.name != name:
                raise CorruptFacts(f"{path} cannot be understood: it is of {topic.name!r}.")
            self._topics[name] = topic

    def _take_broker(self, path: str, data: bytes | None) -> None:
        number = BrokerId(int(path.removeprefix(f"{BROKERS}/")))
        self._brokers.pop(number, None)
        if data is not None:
            broker = facts_json.decode_broker(data, path)
            if broker.id != number:
                raise CorruptFacts(f"{path} cannot be understood: it is of broker {broker.id}.")
            self._brokers[number] = broker

    # --- changing ------------------------------------------------------------------------------

    def _operations(self, change: Change, before: Facts, after: Facts) -> list[Operation]:
        operations: list[Operation] = []
        is_guarded = is_deleting = False
        for name in topics_of(change):
            path, old, new = _topic_path(name), before.topics.get(name), after.topics.get(name)
            if new is old:
                continue
            if old is None and new is not None:
                operations.append(Create(path, facts_json.encode_topic(new)))
                # It begins with a term that is later than those of all that were deleted.
                is_guarded = True
            elif old is not None and new is None:
                operations.append(Delete(path, old.version))
                is_deleting = True
            elif old is not None and new is not None:
                operations.append(Replace(path, facts_json.encode_topic(new), old.version))
                is_guarded = True
        deleted, deleted_before = (
            facts_json.encode_deletions(facts.deleted_topics, facts.first_term)
            for facts in (after, before)
        )
        if is_deleting or deleted != deleted_before:
            operations.append(self._replacement(DELETED, deleted))
        elif is_guarded:
            operations.append(self._guard())
        old_cluster, cluster = (
            facts_json.encode_cluster(facts.cluster_id, facts.drained, facts.broker_settings)
            for facts in (before, after)
        )
        if cluster != old_cluster:
            operations.append(self._replacement(CLUSTER, cluster))
        if after.next_producer_id != before.next_producer_id:
            data = facts_json.encode_producer_ids(after.next_producer_id)
            operations.append(self._replacement(PRODUCER_IDS, data))
        _check_size(operations)
        return operations

    def _guard(self) -> Operation:
        version = self._versions[DELETED]
        if version == _MISSING:
            return Create(DELETED, facts_json.encode_deletions(self._deleted, self._first_term))
        return Check(DELETED, version)

    def _replacement(self, path: str, data: bytes) -> Operation:
        version = self._versions[path]
        return Create(path, data) if version == _MISSING else Replace(path, data, version)

    def _is_made(self, change: Change, operations: list[Operation]) -> bool:
        """Whether it was done, also if the connection broke meanwhile; if not, it is to be decided
        anew by what is there then."""
        try:
            return self._session.commit(operations)
        except OutcomeUnknown as error:
            # Two brokers that reserve producer ids at once write the same: it may be the other's.
            if isinstance(change, ReserveProducerIds):
                return False
            try:
                return self._is_there(operations)
            except RegistryUnavailable:
                raise error from None

    def _is_there(self, operations: list[Operation]) -> bool:
        written = [operation for operation in operations if not isinstance(operation, Check)]
        znodes = self._session.read_all([operation.path for operation in written])
        for operation, znode in zip(written, znodes, strict=True):
            if isinstance(operation, Delete):
                if znode is not None:
                    return False
            elif znode is None or znode.data != operation.data:
                return False
        return True

    def _commit_surely(self, operations: list[Operation]) -> None:
        """For what may be done by anybody: that somebody did it is enough."""
        try:
            self._session.commit(operations)
        except OutcomeUnknown:
            if not self._is_there(operations):
                raise


def _topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def _check_size(operations: list[Operation]) -> None:
    size = sum(len(each.data) for each in operations if isinstance(each, Create | Replace))
    if size > ZNODE_BYTES_MAX:
        raise InvalidRequest(
            f"The change is {size} bytes, and ZooKeeper takes {ZNODE_BYTES_MAX} at once: make it "
            "in parts, of fewer topics each."
        )
