"""The registry on meta servers, as a broker has it (R-REP-5): it registers, and asks for changes.

Everything is on the event loop. Not the servers (`metaserver.service`), nor what goes on meanwhile
(`metaserver.session`). The invariant: a change that returns is in the image.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from penstock.model.errors import InvalidConfig, RegistryUnavailable
from penstock.net.clock import Clock, SystemClock
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.api import Registry, lost_cluster
from penstock.registry.facts import Adopt, Change, Facts, ReserveProducerIds, check_free
from penstock.registry.image import BrokerImage, ClusterImage
from penstock.registry.metaserver.config import MetaConfig
from penstock.registry.metaserver.entries import MakeCluster
from penstock.registry.metaserver.session import ANSWER_S, MetaSession, closed
from penstock.registry.quorum import Quorum, Voter

# Between two looks whether an id has become free.
_ID_CHECK_S: Final = 0.2
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
        self._session = MetaSession(
            config,
            self._clock,
            lambda facts, controller: self._install(facts.image(controller=controller)),
        )

    async def open(self) -> None:
        """Find the servers and read the cluster, which is made if there is none.
        RegistryUnavailable if they do not serve."""
        session = self._session
        try:
            await session.fetch(0, session.patience_s)
            if session.facts is None:
                cluster_id = self._image.cluster_id
                if not self._may_make:
                    raise lost_cluster(str(self._config), cluster_id)
                await session.send(MakeCluster(cluster_id=cluster_id), session.patience_s)
                await session.fetch(0, session.patience_s)
        except BaseException:
            await self.close()
            raise
        session.start()

    async def close(self) -> None:
        await self._session.close()

    @property
    def is_controller(self) -> bool:
        return self._session.lease.is_held

    async def describe_quorum(self) -> Quorum:
        request = pb.MetaLeaderRequest()
        answer, _ = await self._session.link.call(
            calls.META_LEADER, request, patience_s=self._session.patience_s, answer_s=ANSWER_S
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
        await self._session.fetch_whole()

    async def change(self, change: Change) -> Facts:
        """Returns the facts that were known here before it."""
        before = self._session.facts
        if before is None:
            raise closed()
        await self._session.change(change)
        return before

    async def reserve_producer_ids(self, count: int) -> range:
        response = await self._session.change(ReserveProducerIds(count=count))
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
            await self._session.change(
                Adopt(facts=replace(rest, topics=topics, deleted_topics=(), next_producer_id=0))
            )
        await self._session.change(Adopt(facts=rest))

    async def register_broker(self, broker: BrokerImage) -> None:
        """A broker that lost its folder comes back while its old session has not expired yet: wait
        for that. Whose id is still in use then is told so."""
        patience_s = self._session.timeout_ms / 1000 + self._session.patience_s
        give_up_at = self._clock.monotonic() + patience_s
        while True:
            try:
                check_free(self._image.brokers.get(broker.id), broker)
                await self._session.register(broker)
                return
            except InvalidConfig:
                if self._clock.monotonic() >= give_up_at:
                    raise
            await asyncio.sleep(_ID_CHECK_S)
