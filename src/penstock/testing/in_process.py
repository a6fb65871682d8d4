"""A real broker inside the process, for tests: `with penstock.testing.broker() as address:`.

It is the broker that `penstock up` runs, on a free loopback port, in a thread with its own event
loop, so that the test may block or run a loop of its own. The invariant: when the `with` ends the
thread, the port and the temporary folder are gone; a broker that cannot start raises in the caller.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypedDict, Unpack

from penstock.broker.config import BrokerConfig
from penstock.model.topic_config import TopicConfig

_ANY_FREE_PORT: Final = "127.0.0.1:0"


class BrokerSettings(TypedDict, total=False):
    """The settings of `BrokerConfig`, as keywords of `broker`."""

    data: str
    listen: tuple[str, ...]
    advertise: str
    broker_id: int
    registry: str
    roles: tuple[str, ...]
    host: str
    replication_factor_default: int
    internal_replication_factor: int
    auto_create_topics: bool
    partitions_default: int
    partitions_per_topic_max: int
    connections_max: int
    frame_bytes_max: int
    first_frame_timeout_ms: int
    frame_timeout_ms: int
    idle_ping_ms: int
    ping_timeout_ms: int
    push_timeout_ms: int
    push_retry_ms: int
    retention_check_ms: int
    shutdown_timeout_ms: int
    flush_threads: int
    group_initial_rebalance_delay_ms: int
    group_session_timeout_ms_min: int
    group_session_timeout_ms_max: int
    group_consumer_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_members_max: int
    offsets_retention_ms: int
    topic_defaults: TopicConfig


@contextmanager
def broker(**settings: Unpack[BrokerSettings]) -> Iterator[str]:
    """Run a broker and give its address. The settings are those of `BrokerConfig`.

    It listens at a free port of this machine, unless `listen` says otherwise. Without `data` the
    broker works in a temporary folder and topics are not flushed to the disk: what a test writes
    need not survive the machine. With `data` the folder is the caller's, and a second broker on it
    finds what the first one left."""
    config = BrokerConfig(listen=(_ANY_FREE_PORT,), topic_defaults=TopicConfig(durability="os"))
    config = replace(config, **settings)
    with ExitStack() as stack:
        if "data" not in settings:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-test-"))
            config = replace(config, data=folder)
        yield stack.enter_context(_running(config))


@dataclass(slots=True)
class _Hands:
    """What the two threads hand each other."""

    address: Future[str] = field(default_factory=Future)
    ending: Future[None] = field(default_factory=Future)
    failure: BaseException | None = None


@contextmanager
def _running(config: BrokerConfig) -> Iterator[str]:
    hands = _Hands()
    thread = threading.Thread(
        target=_run, args=(config, hands), name="penstock-broker", daemon=True
    )
    thread.start()
    try:
        yield hands.address.result()
    finally:
        hands.ending.set_result(None)
        thread.join()
    if hands.failure is not None:
        raise hands.failure


def _run(config: BrokerConfig, hands: _Hands) -> None:
    """The broker's thread."""
    from penstock.broker.broker import Broker

    async def serve() -> None:
        async with Broker(config) as running:
            hands.address.set_result(running.addresses[0])
            await asyncio.wrap_future(hands.ending)

    try:
        asyncio.run(serve())
    except BaseException as error:  # whatever it is, it belongs to the caller
        hands.failure = error
        if not hands.address.done():
            hands.address.set_exception(error)
