"""A broker's session with the meta servers: it follows the facts, shows that the broker is alive,
and holds itself for the controller for a lease.

Everything is on the event loop. Not what a registry offers (`metaserver.client`), nor how the
server that leads is found (`metaserver.link`). The invariants: versions of the facts only rise; out
of reach they stay and changes are refused within the patience; the lease is shorter than the
session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Final

from penstock.model.errors import CorruptFacts, PenstockError, RegistryUnavailable
from penstock.model.ids import BrokerId
from penstock.net.clock import Clock
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry import facts_json
from penstock.registry.facts import Change, ExpireBroker, Facts, RegisterBroker, apply
from penstock.registry.image import BrokerImage
from penstock.registry.lease import Lease
from penstock.registry.metaserver.config import MetaConfig
from penstock.registry.metaserver.entries import (
    Action,
    Confirm,
    MakeCluster,
    decode_entry,
    new_entry,
)
from penstock.registry.metaserver.link import MetaLink
from penstock.registry.metaserver.service import SESSION_TIMEOUT_MS
from penstock.registry.metaserver.state import NO_VERSION

logger = logging.getLogger(__name__)

# How long news are waited for at a time, and how much longer an answer may take than it should.
_NEWS_WAIT_MS: Final = 10_000
ANSWER_S: Final = 2.0
# Signs of life in a session's time: some may be lost.
_BEATS_PER_SESSION: Final = 6
# Between two looks whether what was refused is right by now, or the servers are in reach.
_RETRY_S: Final = 0.2
_MISTAKE_S: Final = 1.0
# A broker that leaves does not wait long for servers that are gone: its session ends by itself.
_FAREWELL_S: Final = 1.0


class MetaSession:
    """One broker's, from the first `fetch` to `close`."""

    def __init__(
        self,
        config: MetaConfig,
        clock: Clock,
        on_facts: Callable[[Facts, BrokerId | None], None],
    ) -> None:
        """on_facts: is told new facts, and who is the controller."""
        self.patience_s = config.patience_ms / 1000
        self.link = MetaLink(config, clock)
        self.lease = Lease(clock)
        self.facts: Facts | None = None
        self.timeout_ms = SESSION_TIMEOUT_MS
        self._config = config
        self._clock = clock
        self._on_facts = on_facts
        # What is known cannot be brought up to date: everything is needed.
        self._needs_whole = False
        self._broker: BrokerImage | None = None
        self._beat_now = asyncio.Event()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False
        self._was_reached = True

    def start(self) -> None:
        """Follow the facts, and show from the registration on that the broker is alive."""
        self._tasks = [
            asyncio.create_task(self._keep(self._follow)),
            asyncio.create_task(self._keep(self._stay_alive)),
        ]

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        self.lease.end()
        # Unless the id is another's by now, as it is if this one was away for long.
        mine = self._broker
        if mine is not None and self.facts is not None and self.facts.brokers.get(mine.id) == mine:
            with contextlib.suppress(PenstockError):
                await self.send(ExpireBroker(node=mine.node), _FAREWELL_S)
        await self.link.close()
        self._tell_news()

    # --- asking ----------------------------------------------------------------------------------

    async def change(self, change: Change) -> pb.MetaChangeResponse:
        """Made, and in the image."""
        give_up_at = self._clock.monotonic() + self.patience_s
        response = await self.send(change, self.patience_s)
        while not self._is_closed and (self.facts is None or self.facts.version < response.version):
            left_s = give_up_at + ANSWER_S - self._clock.monotonic()
            try:
                async with asyncio.timeout(max(left_s, 0)):
                    await self._news.wait()
            except TimeoutError:
                raise RegistryUnavailable(
                    "The change is made, and the meta servers went out of reach before it could "
                    "be read: it is seen when they are back."
                ) from None
        if self._is_closed:
            raise closed()
        return response

    async def send(self, action: Action, patience_s: float) -> pb.MetaChangeResponse:
        """Under one id, however often it is sent."""
        cluster_id = "" if self.facts is None else self.facts.cluster_id
        request = pb.MetaChangeRequest(cluster_id=cluster_id, entry=new_entry(action))
        response, _ = await self.link.call(
            calls.META_CHANGE, request, patience_s=patience_s, answer_s=ANSWER_S
        )
        self.timeout_ms = response.session_timeout_ms
        return response

    async def register(self, broker: BrokerImage) -> None:
        attempt = self.lease.begin()
        response = await self.change(RegisterBroker(broker=broker))
        self._broker = broker
        if response.controller == broker.id:
            self.lease.extend(attempt, response.session_timeout_ms)
        else:
            self.lease.end()

    async def fetch(self, wait_ms: int, patience_s: float) -> None:
        """Have the facts of now, or the changes since those that are known; wait_ms: if there are
        none, wait so long for one."""
        facts = self.facts
        request = pb.MetaFetchRequest(
            cluster_id="" if facts is None else facts.cluster_id,
            seen_version=NO_VERSION if facts is None or self._needs_whole else facts.version,
            max_wait_ms=wait_ms,
        )
        response, payload = await self.link.call(
            calls.META_FETCH, request, patience_s=patience_s, answer_s=wait_ms / 1000 + ANSWER_S
        )
        self.timeout_ms = response.session_timeout_ms
        if response.is_whole:
            if response.version != NO_VERSION:
                self._take(facts_json.decode_facts(bytes(payload), "The cluster"), response)
                self._needs_whole = False
        elif response.entries and facts is not None:
            try:
                self._take(_after(facts, response), response)
            except PenstockError as error:
                self._needs_whole = True
                logger.error("A change is not understood, so everything is read: %s", error)

    async def fetch_whole(self) -> None:
        """Only everything is told with a proof that it is the latest."""
        self._needs_whole = True
        await self.fetch(0, self.patience_s)

    # --- in the background -----------------------------------------------------------------------

    async def _keep(self, step: Callable[[], Coroutine[object, object, None]]) -> None:
        """Do it again and again, whatever becomes of it."""
        complaint = ""
        while True:
            try:
                await step()
            except RegistryUnavailable as error:
                self._note_reached(False, error)
                await asyncio.sleep(_RETRY_S)
            except PenstockError as error:
                if error.message != complaint:
                    logger.error("%s", error)
                complaint = error.message
                await asyncio.sleep(_MISTAKE_S)
            except Exception:
                logger.exception("The registry hit a bug")
                await asyncio.sleep(_MISTAKE_S)

    async def _follow(self) -> None:
        # Whoever is found again says so at once, also if there is no news for long.
        await self.fetch(_NEWS_WAIT_MS if self._was_reached else 0, 0)
        self._note_reached(True)

    async def _stay_alive(self) -> None:
        beat_s = min(self._config.heartbeat_ms, self.timeout_ms // _BEATS_PER_SESSION) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(beat_s):
                await self._beat_now.wait()
        self._beat_now.clear()
        if self._broker is not None and self.facts is not None:
            await self._beat(self._broker, self.facts.cluster_id)

    async def _beat(self, broker: BrokerImage, cluster_id: str) -> None:
        attempt = self.lease.begin()
        request = pb.MetaHeartbeatRequest(
            cluster_id=cluster_id,
            broker=broker.id,
            directory=broker.directory,
            place=broker.place,
        )
        answer_s = min(ANSWER_S, self.timeout_ms / 3000)
        response, _ = await self.link.call(
            calls.META_HEARTBEAT, request, patience_s=0, answer_s=answer_s
        )
        self.timeout_ms = response.session_timeout_ms
        if response.is_controller:
            self.lease.extend(attempt, response.session_timeout_ms)
        else:
            self.lease.end()
        if not response.is_registered:
            logger.warning("This broker was taken for dead: it registers anew")
            await self.register(broker)

    def _take(self, facts: Facts, response: pb.MetaFetchResponse) -> None:
        """The facts are these from now on, unless another question brought later ones."""
        if self.facts is not None and facts.version < self.facts.version:
            return
        controller = None if response.controller < 0 else BrokerId(response.controller)
        self.facts = facts
        self._on_facts(facts, controller)
        self._tell_news()
        mine = self._broker
        if mine is not None:
            known = facts.brokers.get(mine.id)
            is_due = controller == mine.id and not self.lease.is_held
            if is_due or known is None or not known.is_alive:
                self._beat_now.set()

    def _tell_news(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _note_reached(self, is_reached: bool, error: PenstockError | None = None) -> None:
        if is_reached != self._was_reached:
            self._was_reached = is_reached
            if is_reached:
                logger.info("The meta servers serve again")
            else:
                logger.warning("What is known is served, nothing can be changed: %s", error)


def _after(facts: Facts, response: pb.MetaFetchResponse) -> Facts:
    """The facts with the changes of the response."""
    for entry in response.entries:
        action = decode_entry(entry, "A change")
        if isinstance(action.action, MakeCluster | Confirm):
            raise CorruptFacts("A change is none.")
        facts = apply(facts, action.action)
    if facts.version != response.version:
        raise CorruptFacts(
            f"The changes lead to version {facts.version}, not to {response.version}."
        )
    return facts


def closed() -> RegistryUnavailable:
    return RegistryUnavailable("The registry is closed: nothing can be changed any more.")
