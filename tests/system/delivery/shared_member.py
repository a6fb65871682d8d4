"""A member of a shared group in a process of its own, to be stopped and killed: every message that
comes to it and all that it says of them is written down, as it happens.

python -m tests.system.delivery.shared_member BOOTSTRAP TOPIC GROUP NAME SEED LEASE_MS HOW [ordered]

It behaves well most of the time; else it answers late, twice, for what others hold, fails, extends,
releases, forgets, or leaves in the middle and comes back. A line of JSON for each event. HOW: by
"pull", or by "push".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import penstock
from penstock.client.sharing.consumer import SharedConsumer
from penstock.model.errors import PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import SETTLE
from tests.kit.histories.leases import ACKNOWLEDGE, EXTEND, FAIL, REJECT, RELEASE

_KINDS = {
    ACKNOWLEDGE: pb.SettleRequest.KIND_ACKNOWLEDGE,
    RELEASE: pb.SettleRequest.KIND_RELEASE,
    REJECT: pb.SettleRequest.KIND_REJECT,
    EXTEND: pb.SettleRequest.KIND_EXTEND,
    FAIL: pb.SettleRequest.KIND_FAIL,
}


def write(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class Member:
    """Reads by the client, and settles by calls of its own, so that each has its answer."""

    def __init__(self, consumer: SharedConsumer, group: str, lease_ms: int, seed: str) -> None:
        self._consumer = consumer
        self._name = consumer.member_id
        self._group = group
        # As it is told: the broker's clock tells whole milliseconds.
        self._lease_s = (lease_ms - 1) / 1000
        self._random = random.Random(seed)
        self._seen: list[int] = []

    async def run(self) -> None:
        """Until it has had enough."""
        for _ in range(self._random.randrange(20, 200)):
            messages = await self._consumer.fetch(20, timeout_s=0.5)
            came_s = time.monotonic()
            for message in messages:
                hold = self._consumer.ledger.held[message.topic, message.partition, message.offset]
                write(
                    event="leased",
                    offset=message.offset,
                    member=self._name,
                    leased_s=hold.leased_at_s,
                    came_s=came_s,
                    until_s=hold.leased_at_s + hold.lease_s,
                    attempt=message.attempt,
                )
                self._seen.append(message.offset)
            if messages:
                await self._deal_with([message.offset for message in messages])

    async def _deal_with(self, offsets: list[int]) -> None:
        match self._random.randrange(40):
            case 0:
                await self._settle(offsets[:1], FAIL)
                await self._settle(offsets[1:], ACKNOWLEDGE)
            case 1:
                await self._settle(offsets, RELEASE)
            case 2:
                await self._settle(offsets[:1], REJECT)
                await self._settle(offsets[1:], ACKNOWLEDGE)
            case 3:
                await self._settle(offsets, EXTEND)
                await asyncio.sleep(self._lease_s * 0.5)
                await self._settle(offsets, ACKNOWLEDGE)
            case 4:
                await asyncio.sleep(self._lease_s * 1.2)
                await self._settle(offsets, ACKNOWLEDGE)
            case 5 | 6:
                await self._settle(offsets, ACKNOWLEDGE)
                await self._settle(offsets, ACKNOWLEDGE)
            case 7 | 8:
                # Long settled, or another's by now.
                await self._settle(self._random.sample(self._seen, 1), ACKNOWLEDGE)
                await self._settle(offsets, ACKNOWLEDGE)
            case 9:
                """It forgets about them."""
            case _:
                await self._settle(offsets, ACKNOWLEDGE)

    async def _settle(self, offsets: list[int], kind: str) -> None:
        if not (offsets and self._consumer.partitions):
            return
        (partition,) = self._consumer.partitions
        ranges = [
            pb.SettleRequest.Range(first=offset, last=offset, kind=_KINDS[kind])
            for offset in offsets
        ]
        request = pb.SettleRequest(
            group=self._group,
            member_id=self._name,
            topic=partition.topic,
            partition=partition.partition,
            ranges=ranges,
        )
        said_s = time.monotonic()
        # Before it is said: this may be the last that it does.
        for offset in offsets:
            write(event="settled", offset=offset, member=self._name, kind=kind, said_s=said_s)
        try:
            leader = await self._consumer.ledger._routes.leader(*partition, refresh=False)
            answer, _ = await leader.call(SETTLE, request, timeout_s=3.0)
        except PenstockError:
            with contextlib.suppress(PenstockError):
                await self._consumer.ledger._routes.leader(*partition, refresh=True)
            return
        told_s = time.monotonic()
        for offset, outcome in zip(offsets, answer.outcomes, strict=True):
            if not outcome.code:
                write(
                    event="settled",
                    offset=offset,
                    member=self._name,
                    kind=kind,
                    said_s=said_s,
                    told_s=told_s,
                    until_s=said_s + self._lease_s,
                )


@contextlib.asynccontextmanager
async def joined(
    bootstrap: str,
    topic: str,
    group: str,
    name: str,
    lease_ms: int,
    *,
    push: bool,
    is_ordered: bool,
) -> AsyncIterator[SharedConsumer]:
    async with penstock.connect(bootstrap, client_name=name) as mq:
        consumer = mq.share(
            topic,
            group=group,
            lease_ms=lease_ms,
            attempts_max=8,
            backoff_ms=50,
            max_wait_ms=500,
            push=push,
            ordered=is_ordered,
        )
        async with consumer:
            try:
                yield consumer
            finally:
                # What it said before counts; from here on it holds nothing.
                write(event="lost", member=consumer.member_id, at_s=time.monotonic())


async def main(
    bootstrap: str,
    topic: str,
    group: str,
    name: str,
    seed: str,
    lease_ms: str,
    how: str,
    order: str = "",
) -> None:
    life = 0
    while True:
        life += 1
        try:
            async with joined(
                bootstrap,
                topic,
                group,
                name,
                int(lease_ms),
                push=how == "push",
                is_ordered=order == "ordered",
            ) as consumer:
                await Member(consumer, group, int(lease_ms), f"{seed}/{life}").run()
        except PenstockError as error:
            write(event="error", what=repr(error))
            await asyncio.sleep(0.2)


asyncio.run(main(*sys.argv[1:]))
