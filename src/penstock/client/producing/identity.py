"""What the broker knows an idempotent producer by: asked for once, and again when it is lost.

Not the numbers of its batches: those are a lane's. The invariant: all lanes of a producer send
under one identity, but for those whose batches under an earlier one may be in the log.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import INIT_PRODUCER


class ProducerIdentity(NamedTuple):
    """As a broker gave it."""

    producer_id: int
    producer_epoch: int


class Identities:
    """Of one producer."""

    def __init__(self, request_timeout_s: float) -> None:
        self._request_timeout_s = request_timeout_s
        self._latest: ProducerIdentity | None = None
        self._asking = asyncio.Lock()

    async def latest(self, channel: Channel) -> ProducerIdentity:
        """The one to begin with. channel: to any broker, which is asked if there is none."""
        async with self._asking:
            if self._latest is None:
                answer, _ = await channel.call(
                    INIT_PRODUCER, pb.InitProducerRequest(), timeout_s=self._request_timeout_s
                )
                self._latest = ProducerIdentity(answer.producer_id, answer.producer_epoch)
            return self._latest

    def drop(self, identity: ProducerIdentity | None) -> None:
        """A broker has lost it: whoever begins anew gets another."""
        if identity == self._latest:
            self._latest = None
