"""A producer's claims of topics: made before the first batch, kept while it lives (R-CORE-6).

Who may write is decided by the brokers, whatever is believed here. The invariants: a topic's claim
has one number for as long as the producer lives, and once one claim is lost the producer is told,
once, by whom it was taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Callable
from typing import Final

from penstock.client.concurrency.once import Once
from penstock.client.concurrency.tasks import TaskScope
from penstock.client.connection.routes import GROUPS, Routes
from penstock.model.errors import PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CLAIM_TOPIC, RELEASE_TOPIC

logger = logging.getLogger(__name__)

# A claim is renewed so often within the time that it is kept for.
_RENEWALS: Final = 3
# A producer that ends does not wait for longer: its claims run out by themselves.
_RELEASE_S: Final = 2.0


class Exclusivity:
    """Of one producer."""

    def __init__(
        self,
        routes: Routes,
        client_name: str,
        *,
        is_fencing: bool,
        on_lost: Callable[[PenstockError], None],
    ) -> None:
        self._routes = routes
        # What people are told who want the topic too.
        self._client_name = f"{client_name} ({socket.gethostname()}, process {os.getpid()})"
        self._is_fencing = is_fencing
        self._on_lost = on_lost
        # Nobody else can renew or release what this producer has claimed.
        self._claimant = uuid.uuid4().hex
        self._numbers: dict[str, int] = {}
        self._attempts: Once[str, int] = Once()
        self._keeping = TaskScope()

    def number(self, topic: str) -> int:
        """What batches to the topic are sent with. It has been claimed."""
        return self._numbers[topic]

    async def claim(self, topic: str) -> None:
        """Have the topic for this producer alone. TopicClaimed names who has it already."""
        if topic not in self._numbers:
            await self._attempts.join(topic, lambda: self._claim(topic))

    async def close(self) -> None:
        """Let others have the topics."""
        await self._attempts.close()
        await self._keeping.close()
        releasing = [self._release(topic) for topic in self._numbers]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RELEASE_S):
                await asyncio.gather(*releasing)

    async def _claim(self, topic: str) -> int:
        answer = await self._ask(topic, claim=0)
        self._numbers[topic] = answer.claim
        renew_s = answer.keep_within_ms / _RENEWALS / 1000
        self._keeping.start(self._keep(topic, renew_s), name=f"claim of {topic}")
        return answer.claim

    async def _keep(self, topic: str, renew_s: float) -> None:
        while True:
            await asyncio.sleep(renew_s)
            try:
                await self._ask(topic, claim=self._numbers[topic])
            except PenstockError as error:
                if not error.retriable:
                    self._on_lost(error)
                    return
                # As long as nobody else wants it, it stays this producer's.
                logger.warning("The claim of %s could not be renewed: %s", topic, error)

    async def _ask(self, topic: str, claim: int) -> pb.ClaimTopicResponse:
        request = pb.ClaimTopicRequest(
            topic=topic,
            claimant=self._claimant,
            client_name=self._client_name,
            fence=self._is_fencing,
            claim=claim,
        )
        return await self._routes.call_coordinator(GROUPS, CLAIM_TOPIC, request)

    async def _release(self, topic: str) -> None:
        request = pb.ReleaseTopicRequest(topic=topic, claimant=self._claimant)
        try:
            await self._routes.call_coordinator(GROUPS, RELEASE_TOPIC, request)
        except PenstockError as error:
            logger.info("The claim of %s runs out by itself: %s", topic, error)
