"""How a broker follows what is in ZooKeeper, is there itself, and is controller if nobody else is.

The event loop never waits for ZooKeeper: all calls run in one thread, one after another, and their
images are handed to the loop. Not what a registry offers (`client`), the znodes (`store`), nor the
connection (`session`). Invariants: who has no connection is not controller from that moment on; who
was away, or whose process stood still, is not either, since being controller is a lease shorter
than the session; a session that expired is followed by registering anew, before any election.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from penstock.model.errors import ChangedMeanwhile, PenstockError, RegistryUnavailable
from penstock.model.limits import REGISTRY_CONFLICTS_MAX
from penstock.net.clock import Clock
from penstock.registry import facts_json
from penstock.registry.facts import Change, Facts, check_free
from penstock.registry.image import BrokerImage, ClusterImage
from penstock.registry.lease import Lease
from penstock.registry.zookeeper.config import ZooKeeperConfig
from penstock.registry.zookeeper.session import (
    Create,
    Delete,
    Operation,
    OutcomeUnknown,
    Replace,
    State,
    ZooKeeperSession,
)
from penstock.registry.zookeeper.store import BROKERS, CLUSTER, CONTROLLER, ZooKeeperStore

logger = logging.getLogger(__name__)

# After how much of the session's time the lease is renewed.
_TEND_SHARE: Final = 1 / 4

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class ZooKeeperFollower:
    """One broker's, from `open` to `close`."""

    def __init__(
        self,
        config: ZooKeeperConfig,
        clock: Clock,
        cluster_id: str,
        on_image: Callable[[ClusterImage], None],
        *,
        may_make: bool,
    ) -> None:
        """on_image: is told each new image, on the event loop."""
        self._config = config
        self._on_image = on_image
        self.session = ZooKeeperSession(
            config, clock, on_state=self._hear_state, on_event=self._hear_event
        )
        self.lease = Lease(clock)
        self._store = ZooKeeperStore(self.session, cluster_id, may_make=may_make)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-zookeeper")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tending: asyncio.Task[None] | None = None
        self._broker: BrokerImage | None = None
        self._stale_paths = _StalePaths()
        self._was_connected = False
        # What was last told to be wrong: it may stay so, and is looked at again and again.
        self._complaint = ""

    async def open(self) -> None:
        """Connect and read everything. RegistryUnavailable if ZooKeeper does not answer."""
        self._loop = asyncio.get_running_loop()
        try:
            await self.run(self._begin)
        except BaseException:
            await self.close()
            raise
        self._tending = self._loop.create_task(self._keep_tending())

    async def close(self) -> None:
        if self._loop is None:
            return
        if self._tending is not None:
            self._tending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tending
            self._tending = None
        self.lease.end()
        self.session.interrupt()
        await self.run(self.session.stop)
        await asyncio.to_thread(self._thread.shutdown)
        self._loop = None

    async def run(
        self,
        call: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """In the thread, behind what was to be done before."""
        if self._loop is None:
            raise RegistryUnavailable("The registry is closed: nothing can be changed any more.")
        return await self._loop.run_in_executor(self._thread, lambda: call(*args, **kwargs))

    async def _keep_tending(self) -> None:
        """Renew the lease, and mend what was missed."""
        while True:
            await asyncio.sleep(self._config.session_timeout_ms / 1000 * _TEND_SHARE)
            is_connected = self.session.is_connected
            await self.run(self._quietly, self._tend if is_connected else self.session.revive)

    # --- in kazoo's threads ---------------------------------------------------------------------

    def _hear_state(self, state: State) -> None:
        if state != "connected":
            self.lease.end()
            logger.warning(
                "ZooKeeper's session is %s: what is known is served, nothing can be changed", state
            )
        elif self._was_connected:
            logger.warning("ZooKeeper answers again")
            self._stale_paths.add_everything()
            self._submit(self._tend)
        else:
            # Opening reads everything.
            self._was_connected = True

    def _hear_event(self, path: str) -> None:
        if self._stale_paths.add(path):
            self._submit(self._catch_up)

    def _submit(self, call: Callable[[], None]) -> None:
        # The thread takes nothing more once the registry is closed.
        with contextlib.suppress(RuntimeError):
            self._thread.submit(self._quietly, call)

    # --- in the registry's thread ---------------------------------------------------------------

    def _begin(self) -> None:
        self.session.start()
        self._store.begin()
        self._tell()

    def look_at_brokers(self) -> None:
        self.session.catch_up(BROKERS)
        self._store.refresh([CLUSTER, BROKERS])
        self._tell()

    def change(self, change: Change) -> Facts:
        before = self._store.change(change)
        self._tell()
        return before

    def _quietly(self, call: Callable[[], None]) -> None:
        """Nobody waits for it: what fails is done again when tending, or after reconnecting."""
        try:
            call()
        except RegistryUnavailable as error:
            self._stale_paths.add_everything()
            logger.info("%s", error)
        except PenstockError as error:
            self._stale_paths.add_everything()
            if error.message != self._complaint:
                logger.error("%s", error)
            self._complaint = error.message
        except Exception:
            self._stale_paths.add_everything()
            logger.exception("The registry's thread hit a bug")

    def _catch_up(self) -> None:
        """Read what others changed."""
        paths = self._stale_paths.take()
        if paths is None:
            self._store.read_all()
        elif paths:
            self._store.refresh(paths)
        else:
            return
        if paths is None or CONTROLLER in paths:
            self._control_if_nobody_does()
        self._tell()

    def _tend(self) -> None:
        if self._broker is not None and (other := self.join(self._broker)) is not None:
            check_free(other, self._broker)
        self._catch_up()
        self._control_if_nobody_does()

    def join(self, broker: BrokerImage) -> BrokerImage | None:
        """Be registered by this session; or who has the id, with another folder."""
        path = f"{BROKERS}/{broker.id}"
        data = facts_json.encode_broker(broker)
        mine = Create(path, data, is_ephemeral=True)
        for _ in range(REGISTRY_CONFLICTS_MAX):
            znode = self.session.read(path)
            if znode is None:
                self._try([mine])
            elif znode.owner != self.session.id:
                other = facts_json.decode_broker(znode.data, path)
                if not other.has_folder(broker.directory, broker.place):
                    return other
                # Of an earlier session of this broker: a folder is used by one process at a time.
                self._try([Delete(path, znode.version), mine])
            elif znode.data != data:
                self._try([Replace(path, data, znode.version)])
            else:
                self._be(broker)
                return None
        raise ChangedMeanwhile(f"Others write {path} all the time: give the broker its own id.")

    def _be(self, broker: BrokerImage) -> None:
        if self._broker != broker:
            self._broker = broker
            self._store.refresh([BROKERS, f"{BROKERS}/{broker.id}"])
            self._control_if_nobody_does()
            self._tell()

    def _try(self, operations: list[Operation]) -> None:
        """Whether it was done is seen when it is read again."""
        with contextlib.suppress(OutcomeUnknown):
            self.session.commit(operations)

    def _control_if_nobody_does(self) -> None:
        """Be controller if nobody is; if it is this session, for one more lease."""
        if self._broker is None:
            return
        attempt = self.lease.begin()
        znode = self.session.read(CONTROLLER)
        if znode is None:
            data = facts_json.encode_broker(self._broker)
            self._try([Create(CONTROLLER, data, is_ephemeral=True)])
            znode = self.session.read(CONTROLLER)
            self._store.refresh([CONTROLLER])
            self._tell()
        if znode is not None and znode.owner == self.session.id:
            self.lease.extend(attempt, self._config.session_timeout_ms)
        else:
            self.lease.end()

    def _tell(self) -> None:
        assert self._loop is not None, "not open"
        image = self._store.image()
        # A loop that is closed has nobody left to be told.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_image, image)


class _StalePaths:
    """What has to be read again, gathered while the thread is busy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: dict[str, None] = {}
        self._is_everything = False

    def add(self, path: str) -> bool:
        """Whether it is the first since the last `take`."""
        with self._lock:
            is_first = not self._paths
            self._paths[path] = None
            return is_first

    def add_everything(self) -> None:
        with self._lock:
            self._is_everything = True

    def take(self) -> list[str] | None:
        """All of them; None for everything."""
        with self._lock:
            paths, is_everything = list(self._paths), self._is_everything
            self._paths.clear()
            self._is_everything = False
        return None if is_everything else paths
