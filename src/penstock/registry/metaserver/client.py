"""The registry on meta servers, as a broker has it (R-REP-5): it registers, shows that it is alive,
follows the facts, and asks for changes.

Everything is on the event loop. Not the servers (`metaserver.service`), nor how the one that leads
is found (`metaserver.link`). The invariants: versions of the image only rise; out of reach the
image stays and changes are refused within the patience; this broker holds itself for the controller
only for a lease that is shorter than its session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Final

from penstock.model.errors import (
    CorruptFacts,
    InvalidConfig,
    PenstockError,
    RegistryUnavailable,
)
from penstock.model.ids import BrokerId
from penstock.net.clock import Clock, SystemClock
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry import facts_json
from penstock.registry.api import Registry, lost_cluster
from penstock.registry.facts import (
    Adopt,
    Change,
    ExpireBroker,
    Facts,
    RegisterBroker,
    ReserveProducerIds,
    apply,
    check_free,
)
from penstock.registry.image import BrokerImage, ClusterImage
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
from penstock.registry.quorum import Quorum, Voter

logger = logging.getLogger(__name__)

# How long news are waited for at a time, and how much longer an answer may take than it should.
_NEWS_WAIT_MS: Final = 10_000
_ANSWER_S: Final = 2.0
# Signs of life in a session's time: some may be lost.
_BEATS_PER_SESSION: Final = 6
# Between two looks whether an id has become free, or whether what was refused is right by now.
_RETRY_S: Final = 0.2
_MISTAKE_S: Final = 1.0
# A broker that leaves does not wait long for servers that are gone: its session ends by itself.
_FAREWELL_S: Final = 1.0
_TOPICS_PER_ADOPTION: Final = 200


class MetaRegistry(Registry):
    """One broker's, from `open` to `close`."""

    def __init__(
        self,
        config: MetaConfig,
        cluster_id: str,
        *,
        may_make: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """cluster_id: for a cluster that does not exist yet, if that may be made."""
        super().__init__(ClusterImage(cluster_id=cluster_id, brokers={}, topics={}))
        self._config = config
        self._may_make = may_make
        self._clock = clock or SystemClock()
        self._patience_s = config.patience_ms / 1000
        self._link = MetaLink(config, self._clock)
        self._facts: Facts | None = None
        # What is known cannot be brought up to date: everything is needed.
        self._needs_whole = False
        self._session_timeout_ms = SESSION_TIMEOUT_MS
        self._broker: BrokerImage | None = None
        self._lease = Lease(self._clock)
        self._beat_now = asyncio.Event()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_open = False
        self._was_reached = True

    async def open(self) -> None:
        """Find the servers and read the cluster, which is made if there is none.
        RegistryUnavailable if they do not serve."""
        self._is_open = True
        try:
            await self._fetch(0, self._patience_s)
            if self._facts is None:
                if not self._may_make:
                    raise lost_cluster(str(self._config), self._image.cluster_id)
                await self._send(MakeCluster(cluster_id=self._image.cluster_id), self._patience_s)
                await self._fetch(0, self._patience_s)
        except BaseException:
            await self.close()
            raise
        self._tasks = [
            asyncio.create_task(self._keep(self._follow)),
            asyncio.create_task(self._keep(self._stay_alive)),
        ]

    async def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        self._lease.end()
        # Unless the id is another's by now, as it is if this one was away for long.
        if self._broker is not None and self._image.brokers.get(self._broker.id) == self._broker:
            with contextlib.suppress(PenstockError):
                await self._send(ExpireBroker(node=self._broker.node), _FAREWELL_S)
        await self._link.close()
        self._tell_news()

    @property
    def is_controller(self) -> bool:
        return self._lease.is_held

    async def describe_quorum(self) -> Quorum:
        request = pb.MetaLeaderRequest()
        answer, _ = await self._link.call(
            calls.META_LEADER, request, patience_s=self._patience_s, answer_s=_ANSWER_S
        )
        if not answer.voters:
            raise RegistryUnavailable("The meta servers elect another leader: ask again.")
        return Quorum(
            leader=answer.leader,
            term=answer.term,
            commit_offset=answer.commit_offset,
            voters=tuple(Voter(each.id, each.address, each.end_offset) for each in answer.voters),
        )

    async def catch_up(self) -> None:
        # Only everything is told with a proof that it is the latest.
        self._needs_whole = True
        await self._fetch(0, self._patience_s)

    async def change(self, change: Change) -> Facts:
        """Returns the facts that were known here before it."""
        before = self._facts
        if before is None:
            raise _closed()
        await self._change(change)
        return before

    async def reserve_producer_ids(self, count: int) -> range:
        response = await self._change(ReserveProducerIds(count=count))
        return range(response.first_producer_id, response.first_producer_id + count)

    async def adopt(self, facts: Facts) -> None:
        # In parts, each of which fits one entry; what is adopted already is left alone. Brokers
        # are not adopted: they register.
        names = list(facts.topics)
        rest = replace(facts, topics={}, brokers={}, drained=frozenset())
        for first in range(0, len(names), _TOPICS_PER_ADOPTION):
            topics = {
                name: facts.topics[name] for name in names[first : first + _TOPICS_PER_ADOPTION]
            }
            await self._change(
                Adopt(facts=replace(rest, topics=topics, deleted_topics=(), next_producer_id=0))
            )
        await self._change(Adopt(facts=rest))

    async def register_broker(self, broker: BrokerImage) -> None:
        """A broker that lost its folder comes back while its old session has not expired yet: wait
        for that. Whose id is still in use then is told so."""
        patience_s = self._session_timeout_ms / 1000 + self._patience_s
        give_up_at = self._clock.monotonic() + patience_s
        while True:
            try:
                check_free(self._image.brokers.get(broker.id), broker)
                await self._register(broker)
                return
            except InvalidConfig:
                if self._clock.monotonic() >= give_up_at:
                    raise
            await asyncio.sleep(_RETRY_S)

    # --- asking ----------------------------------------------------------------------------------

    async def _change(self, change: Change) -> pb.MetaChangeResponse:
        """Made, and in the image."""
        give_up_at = self._clock.monotonic() + self._patience_s
        response = await self._send(change, self._patience_s)
        while self._is_open and (self._facts is None or self._facts.version < response.version):
            left_s = give_up_at + _ANSWER_S - self._clock.monotonic()
            try:
                async with asyncio.timeout(max(left_s, 0)):
                    await self._news.wait()
            except TimeoutError:
                raise RegistryUnavailable(
                    "The change is made, and the meta servers went out of reach before it could "
                    "be read: it is seen when they are back."
                ) from None
        if not self._is_open:
            raise _closed()
        return response

    async def _send(self, action: Action, patience_s: float) -> pb.MetaChangeResponse:
        """Under one id, however often it is sent."""
        cluster_id = "" if self._facts is None else self._facts.cluster_id
        request = pb.MetaChangeRequest(cluster_id=cluster_id, entry=new_entry(action))
        response, _ = await self._link.call(
            calls.META_CHANGE, request, patience_s=patience_s, answer_s=_ANSWER_S
        )
        self._session_timeout_ms = response.session_timeout_ms
        return response

    async def _register(self, broker: BrokerImage) -> None:
        attempt = self._lease.begin()
        response = await self._change(RegisterBroker(broker=broker))
        self._broker = broker
        if response.controller == broker.id:
            self._lease.extend(attempt, response.session_timeout_ms)
        else:
            self._lease.end()

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
        await self._fetch(_NEWS_WAIT_MS if self._was_reached else 0, 0)
        self._note_reached(True)

    async def _stay_alive(self) -> None:
        beat_s = (
            min(self._config.heartbeat_ms, self._session_timeout_ms // _BEATS_PER_SESSION) / 1000
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(beat_s):
                await self._beat_now.wait()
        self._beat_now.clear()
        if self._broker is not None and self._facts is not None:
            await self._beat(self._broker, self._facts.cluster_id)

    async def _beat(self, broker: BrokerImage, cluster_id: str) -> None:
        attempt = self._lease.begin()
        request = pb.MetaHeartbeatRequest(
            cluster_id=cluster_id,
            broker=broker.id,
            directory=broker.directory,
            place=broker.place,
        )
        answer_s = min(_ANSWER_S, self._session_timeout_ms / 3000)
        response, _ = await self._link.call(
            calls.META_HEARTBEAT, request, patience_s=0, answer_s=answer_s
        )
        self._session_timeout_ms = response.session_timeout_ms
        if response.is_controller:
            self._lease.extend(attempt, response.session_timeout_ms)
        else:
            self._lease.end()
        if not response.is_registered:
            logger.warning("This broker was taken for dead: it registers anew")
            await self._register(broker)

    async def _fetch(self, wait_ms: int, patience_s: float) -> None:
        facts = self._facts
        request = pb.MetaFetchRequest(
            cluster_id="" if facts is None else facts.cluster_id,
            seen_version=NO_VERSION if facts is None or self._needs_whole else facts.version,
            max_wait_ms=wait_ms,
        )
        response, payload = await self._link.call(
            calls.META_FETCH, request, patience_s=patience_s, answer_s=wait_ms / 1000 + _ANSWER_S
        )
        self._session_timeout_ms = response.session_timeout_ms
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

    def _take(self, facts: Facts, response: pb.MetaFetchResponse) -> None:
        """The facts are these from now on, unless another question brought later ones."""
        if self._facts is not None and facts.version < self._facts.version:
            return
        controller = None if response.controller < 0 else BrokerId(response.controller)
        self._facts = facts
        self._install(facts.image(controller=controller))
        self._tell_news()
        mine = self._broker
        if mine is not None:
            is_due = controller == mine.id and not self._lease.is_held
            if is_due or mine.id not in self._image.brokers:
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


def _closed() -> RegistryUnavailable:
    return RegistryUnavailable("The registry is closed: nothing can be changed any more.")
