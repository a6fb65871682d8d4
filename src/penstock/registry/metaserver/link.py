"""A broker's way to the meta server that leads: found, kept, found again.

Not what is asked. The invariants: an answer comes from a server that said it leads, or is a
refusal; whoever waits is told within its patience; what may have been done, and was not answered,
is asked again with the same bytes, so that its id tells that it is the same.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.model.errors import (
    Busy,
    ConnectionLost,
    NotLeader,
    PenstockError,
    RegistryUnavailable,
    ShuttingDown,
    TimedOut,
)
from penstock.net.address import parse_address
from penstock.net.channel import Channel, connect_channel
from penstock.net.clock import Clock
from penstock.net.receive_pool import ReceivePool
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CallType, RequestT, ResponseT
from penstock.registry.metaserver.config import MetaConfig

logger = logging.getLogger(__name__)

# Another server may do better, or the same one later. Any other error is the answer.
_PASSING: Final = (NotLeader, ConnectionLost, TimedOut, Busy, ShuttingDown, RegistryUnavailable)
# For all servers together to say who leads: one that stands still must not be waited for.
_FIND_S: Final = 1.0
_BACKOFF_FIRST_S: Final = 0.05
_BACKOFF_MAX_S: Final = 0.5


class MetaLink:
    """One broker's. `close` belongs to its life."""

    def __init__(self, config: MetaConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._pool = ReceivePool()
        self._channels: dict[int, Channel] = {}
        self._leader: Channel | None = None
        self._finding = asyncio.Lock()
        self._is_closed = False

    async def call(
        self,
        call: CallType[RequestT, ResponseT],
        request: RequestT,
        *,
        patience_s: float,
        answer_s: float,
    ) -> tuple[ResponseT, memoryview]:
        """The leader's answer. RegistryUnavailable after so much patience, or at once if there is
        none; answer_s: how long one server may take."""
        give_up_at = self._clock.monotonic() + patience_s
        delay_s = _BACKOFF_FIRST_S
        while True:
            channel = None
            try:
                channel = await self._find()
                return await channel.call(call, request, timeout_s=answer_s)
            except _PASSING as error:
                self._forget(channel, error)
                if self._is_closed or self._clock.monotonic() + delay_s > give_up_at:
                    raise self._unavailable(error) from error
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _BACKOFF_MAX_S)

    async def close(self) -> None:
        """Whoever waits is told."""
        self._is_closed = True
        for channel in self._channels.values():
            channel.close()
        self._leader = None

    def _forget(self, channel: Channel | None, error: PenstockError) -> None:
        if channel is not None and channel is self._leader:
            self._leader = None
        if channel is not None and isinstance(error, TimedOut):
            # It may be dead without a word; what else waits on it should not wait as long.
            channel.close()

    async def _find(self) -> Channel:
        async with self._finding:
            if self._is_closed:
                raise RegistryUnavailable("The registry is closed.")
            if self._leader is None or self._leader.connection.is_closed:
                self._leader = await self._channel(await self._ask_who_leads())
            return self._leader

    async def _ask_who_leads(self) -> int:
        """What the first says that knows."""
        tasks = [asyncio.create_task(self._ask(number)) for number in self._config.servers]
        asking = set(tasks)
        reason = "none of them knows who leads"
        try:
            async with asyncio.timeout(_FIND_S):
                while asking:
                    done, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
                    # All that are done, so that no error of theirs goes unseen.
                    for task in done:
                        error = task.exception()
                        if isinstance(error, PenstockError):
                            reason = str(error)
                        elif error is not None:
                            raise error
                    named = [task.result() for task in done if task.exception() is None]
                    for leader in named:
                        if leader in self._config.servers:
                            return leader
        except TimeoutError:
            pass
        finally:
            for task in asking:
                task.cancel()
            # One that fails has an error that somebody must have seen: also if it was cancelled,
            # or ended together with the one that knew.
            await asyncio.gather(*tasks, return_exceptions=True)
        raise RegistryUnavailable(reason)

    async def _ask(self, number: int) -> int:
        channel = await self._channel(number)
        response, _ = await channel.call(
            calls.META_LEADER, pb.MetaLeaderRequest(), timeout_s=_FIND_S
        )
        return response.leader

    async def _channel(self, number: int) -> Channel:
        channel = self._channels.get(number)
        if channel is None or channel.connection.is_closed:
            address = parse_address(self._config.servers[number])
            channel = await connect_channel(address, pool=self._pool, timeout_s=_FIND_S)
            if self._is_closed:
                channel.close()
                raise RegistryUnavailable("The registry is closed.")
            self._channels[number] = channel
        return channel

    def _unavailable(self, error: PenstockError) -> RegistryUnavailable:
        if self._is_closed:
            return RegistryUnavailable("The registry is closed: nothing can be changed any more.")
        reason = str(error).rstrip(".")
        return RegistryUnavailable(
            f"The meta servers at {self._config} do not serve ({reason}): start a majority of "
            "them, or correct the address."
        )
