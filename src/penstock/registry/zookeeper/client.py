"""The registry on ZooKeeper (R-REP-4): brokers come and go with their sessions, everything else
stays, and whoever watches is told.

What a registry offers, each call handed to the thread that talks to ZooKeeper (`follower`). The
invariant: a change that returns is in the image.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from penstock.net.clock import Clock, SystemClock
from penstock.registry.api import Registry
from penstock.registry.facts import Adopt, Change, Facts, check_free
from penstock.registry.image import BrokerImage, ClusterImage
from penstock.registry.zookeeper.config import ZooKeeperConfig
from penstock.registry.zookeeper.follower import ZooKeeperFollower

# Between two looks whether an id has become free.
_ID_CHECK_S: Final = 0.2


class ZooKeeperRegistry(Registry):
    """One broker's, from `open` to `close`."""

    def __init__(
        self,
        config: ZooKeeperConfig,
        cluster_id: str,
        *,
        may_make: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """cluster_id: for a cluster that does not exist yet, if that may be made."""
        super().__init__(ClusterImage(cluster_id=cluster_id, brokers={}, topics={}))
        self._config = config
        self._clock = clock or SystemClock()
        self._follower = ZooKeeperFollower(
            config, self._clock, cluster_id, self._install, may_make=may_make
        )

    async def open(self) -> None:
        """Connect and read the cluster, which is made if there is none. RegistryUnavailable if
        ZooKeeper does not answer."""
        await self._follower.open()

    async def close(self) -> None:
        await self._follower.close()

    @property
    def is_controller(self) -> bool:
        return self._follower.lease.is_held

    async def catch_up(self) -> None:
        await self._follower.run(self._follower.look_at_brokers)

    async def change(self, change: Change) -> Facts:
        return await self._follower.run(self._follower.change, change)

    async def adopt(self, facts: Facts) -> None:
        # One by one: a transaction holds a megabyte, and what is adopted already is left alone.
        for name, topic in facts.topics.items():
            one = replace(facts, topics={name: topic}, deleted_topics=(), next_producer_id=0)
            await self.change(Adopt(facts=one))
        await self.change(Adopt(facts=replace(facts, topics={})))

    async def register_broker(self, broker: BrokerImage) -> None:
        """A broker that lost its folder comes back while its old session has not expired yet: wait
        for that. Whose id is still in use then is told so."""
        patience_s = self._config.session_timeout_ms / 1000 + self._config.patience_s
        give_up_at = self._clock.monotonic() + patience_s
        while (other := await self._follower.run(self._follower.join, broker)) is not None:
            if self._clock.monotonic() >= give_up_at:
                check_free(other, broker)
            await asyncio.sleep(_ID_CHECK_S)
