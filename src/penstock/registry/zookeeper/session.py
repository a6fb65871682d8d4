"""A session with ZooKeeper: requests with patience, transactions, and news of the session itself.

Everything here blocks and belongs to the registry's own thread, never to the event loop; only
`on_state` and `on_event` are called by kazoo's threads, and must not block. Not what the znodes
mean: `registry.zookeeper.store` knows. The invariant: kazoo's errors end here and become typed
ones; a transaction whose outcome is not known is reported neither as made nor as not made.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, assert_never

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from penstock.model.errors import InvalidConfig, RegistryUnavailable
from penstock.net.clock import Clock
from penstock.registry.zookeeper.config import ZooKeeperConfig

logger = logging.getLogger(__name__)

# Requests on the way at once when many znodes are read.
_REQUESTS_MAX: Final = 500

_UNREACHED: Final = (
    ConnectionLoss,
    SessionExpiredError,
    ConnectionClosedError,
    OperationTimeoutError,
    KazooTimeoutError,
)
# What a transaction is answered with if one of its conditions does not hold.
_CONFLICTS: Final = (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

State = Literal["connected", "suspended", "lost"]
_STATES: Final[dict[str, State]] = {
    KazooState.CONNECTED: "connected",
    KazooState.SUSPENDED: "suspended",
    KazooState.LOST: "lost",
}

Result = TypeVar("Result")


class Znode(NamedTuple):
    """What was read."""

    data: bytes
    version: int
    owner: int
    """The session an ephemeral one goes with; 0 for one that stays."""


class Create(NamedTuple):
    path: str
    data: bytes
    is_ephemeral: bool = False


class Replace(NamedTuple):
    path: str
    data: bytes
    version: int


class Delete(NamedTuple):
    path: str
    version: int


class Check(NamedTuple):
    path: str
    version: int


Operation: TypeAlias = Create | Replace | Delete | Check


class OutcomeUnknown(RegistryUnavailable):
    """The connection broke while a transaction was under way. It may have been made."""


class ZooKeeperSession:
    """One client of ZooKeeper; paths are those under the chroot."""

    def __init__(
        self,
        config: ZooKeeperConfig,
        clock: Clock,
        *,
        on_state: Callable[[State], None],
        on_event: Callable[[str], None],
    ) -> None:
        """on_event: a znode that was read, or its children, are not as they were."""
        self._config = config
        self._clock = clock
        self._on_state = on_state
        self._on_event = on_event
        self._connected = threading.Event()
        self._closing = threading.Event()
        # Until then calls wait for a connection; later ones, while there is none, fail at once.
        self._patient_until = clock.monotonic() + config.patience_s
        self._client = self._make_client()

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    @property
    def id(self) -> int | None:
        """Of the session, while there is a connection. A new session has a new one."""
        client_id = self._client.client_id
        return None if client_id is None else int(client_id[0])

    def start(self) -> None:
        """Connect, and make the znode that everything is under."""
        self._client.start_async()
        root = self._config.chroot
        for end in range(1, len(root)):
            if root[end] == "/":
                # Others may have their places beside ours: those on the way are nobody's own.
                self._patiently(partial(self._ensure, root[:end], OPEN_ACL_UNSAFE))
        if root:
            self._patiently(partial(self._ensure, root, self._client.default_acl))

    def revive(self) -> None:
        """Connect again if kazoo has given up, as it does when an answer is none it knows."""
        if self._client.client_state == KeeperState.CLOSED and not self._closing.is_set():
            logger.warning("The connection to ZooKeeper failed for good: it is made anew")
            # A new client, since the farewell of one that is stopped would be the first thing it
            # says when it is started again.
            self._client.remove_listener(self._hear_state)
            self._client.stop()
            self._client.close()
            self._client = self._make_client()
            self._client.start_async()

    def interrupt(self) -> None:
        """From any thread: whoever waits for a connection gives up."""
        self._closing.set()
        self._connected.set()

    def stop(self) -> None:
        """End the session: what is ephemeral goes at once, if ZooKeeper can be told."""
        self._closing.set()
        self._client.stop()
        self._client.close()

    def catch_up(self, path: str) -> None:
        """Let what is read from now on be no older than this: the server that is asked may lag
        behind the others."""
        self._patiently(lambda: self._answer(self._client.sync_async(self._full(path))))

    def read(self, path: str) -> Znode | None:
        """The znode as it is, watched from now on; None if there is none, and it is watched for."""
        return self._patiently(partial(self._read_or_watch_for, path))

    def read_all(self, paths: Sequence[str]) -> list[Znode | None]:
        """Many znodes, read in this order, and those that are there watched: a watch for each that
        is not would stay for ever."""
        znodes: list[Znode | None] = []
        for start in range(0, len(paths), _REQUESTS_MAX):
            some = paths[start : start + _REQUESTS_MAX]
            znodes += self._patiently(partial(self._read_some, some))
        return znodes

    def children(self, path: str) -> list[str]:
        """The names of the znode's children, watched from now on."""
        request = partial(self._client.get_children_async, self._full(path), self._watch)
        return self._patiently(lambda: list(self._answer(request())))

    def ensure(self, path: str) -> None:
        """Make the znode, without data, if it is not there."""
        self._patiently(partial(self._ensure, self._full(path), self._client.default_acl))

    def commit(self, operations: Sequence[Operation]) -> bool:
        """Do all of it, and whether it was done: not if a condition does not hold. Raises
        OutcomeUnknown if the connection breaks meanwhile."""
        self._wait_for_connection()
        transaction = self._client.transaction()
        for operation in operations:
            _add(transaction, self._full(operation.path), operation)
        try:
            results = self._answer(transaction.commit_async())
        except _CONFLICTS:
            return False
        except _UNREACHED as error:
            raise OutcomeUnknown(
                f"ZooKeeper at {self._config} broke off during a change, which may have been made "
                "or not: look before you try again."
            ) from error
        except KazooException as error:
            raise self._typed(error) from error
        failures = [result for result in results if isinstance(result, Exception)]
        for failure in failures:
            if not isinstance(failure, _CONFLICTS):
                raise self._typed(failure) from failure
        return not failures

    def _make_client(self) -> Any:
        config = self._config
        is_secured = bool(config.user)
        client = KazooClient(
            hosts=",".join(map(str, config.servers)),
            timeout=config.session_timeout_ms / 1000,
            auth_data=[("digest", f"{config.user}:{config.password}")] if is_secured else None,
            default_acl=(
                [make_digest_acl(config.user, config.password, all=True)] if is_secured else None
            ),
            connection_retry={
                "max_tries": -1,
                "delay": min(0.1, config.retry_delay_ms / 1000),
                "backoff": 2,
                "max_delay": config.retry_delay_ms / 1000,
            },
            logger=_kazoo_logger(),
        )
        client.add_listener(self._hear_state)
        return client

    def _hear_state(self, kazoo_state: str) -> None:
        state = _STATES[kazoo_state]
        if self._closing.is_set():
            return
        if state == "connected":
            self._connected.set()
        elif self._connected.is_set():
            self._patient_until = self._clock.monotonic() + self._config.patience_s
            self._connected.clear()
        self._on_state(state)

    def _watch(self, event: WatchedEvent) -> None:
        # Without a path it says that the connection is lost, of which the state tells already.
        if event.type != EventType.NONE and event.path is not None and not self._closing.is_set():
            self._on_event(event.path.removeprefix(self._config.chroot))

    def _full(self, path: str) -> str:
        return self._config.chroot + path

    def _answer(self, result: Any) -> Any:
        return result.get(timeout=self._config.session_timeout_ms / 1000)

    def _ensure(self, path: str, acl: object) -> None:
        with contextlib.suppress(NodeExistsError):
            self._answer(self._client.create_async(path, b"", acl=acl))

    def _read_some(self, paths: Sequence[str]) -> list[Znode | None]:
        requests = [self._client.get_async(self._full(path), self._watch) for path in paths]
        znodes: list[Znode | None] = []
        for request in requests:
            try:
                data, stat = self._answer(request)
            except NoNodeError:
                znodes.append(None)
            else:
                znodes.append(Znode(data, stat.version, stat.ephemeralOwner))
        return znodes

    def _read_or_watch_for(self, path: str) -> Znode | None:
        # A read of what is not there sets no watch; to ask whether it exists does.
        if self._answer(self._client.exists_async(self._full(path), self._watch)) is None:
            return None
        return self._read_some([path])[0]

    def _patiently(self, request: Callable[[], Result]) -> Result:
        """The answer to something that can be asked again, after a few attempts if need be."""
        for attempt in range(self._config.retries + 1):
            self._wait_for_connection()
            try:
                return request()
            except _UNREACHED as error:
                logger.info("ZooKeeper did not answer (attempt %d): %r", attempt + 1, error)
                self._closing.wait(self._config.retry_delay_ms / 1000)
            except KazooException as error:
                raise self._typed(error) from error
        raise self._unavailable()

    def _wait_for_connection(self) -> None:
        left_s = self._patient_until - self._clock.monotonic()
        if not self._connected.wait(max(left_s, 0)) or self._closing.is_set():
            raise self._unavailable()

    def _unavailable(self) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"ZooKeeper cannot be reached at {self._config}: start it, or correct the address; "
            "until then nothing can be changed."
        )

    def _typed(self, error: Exception) -> InvalidConfig | RegistryUnavailable:
        if isinstance(error, NoAuthError | AuthFailedError):
            return InvalidConfig(
                f"ZooKeeper at {self._config} refuses this user: give the user and password that "
                "the cluster was made with, as zookeeper://user:password@…"
            )
        return RegistryUnavailable(f"ZooKeeper at {self._config} failed: {error!r}.")


def _add(transaction: Any, path: str, operation: Operation) -> None:
    match operation:
        case Create():
            transaction.create(path, operation.data, ephemeral=operation.is_ephemeral)
        case Replace():
            transaction.set_data(path, operation.data, operation.version)
        case Delete():
            transaction.delete(path, operation.version)
        case Check():
            transaction.check(path, operation.version)
        case _:
            assert_never(operation)


def _kazoo_logger() -> logging.Logger:
    """Kazoo warns of every attempt to connect, as long as ZooKeeper is away: the registry tells of
    the changes, and only whoever looks for a mistake needs the attempts."""
    kazoo = logger.getChild("kazoo")
    kazoo.setLevel(logging.NOTSET if logger.isEnabledFor(logging.DEBUG) else logging.ERROR)
    return kazoo
