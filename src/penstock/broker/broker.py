"""A broker's life: parts are started in order, and stopped in the reverse of it.

The invariant: when `start` fails, everything it had started is stopped again; when `stop` returns,
everything that was acknowledged is on disk, and a mark of the orderly stop beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from functools import partial
from types import TracebackType
from typing import Final, Self

from penstock.broker.carrier.parts import NoChannels, Parts
from penstock.broker.clients.clients import Clients
from penstock.broker.clients.session import Session
from penstock.broker.cluster.handover import hand_over
from penstock.broker.cluster.work import start_cluster_work
from penstock.broker.config import BrokerConfig
from penstock.broker.context import Context
from penstock.broker.data_folder import DataFolder, read_or_make_meta
from penstock.broker.delivery.work import start_delivery_work
from penstock.broker.entry.dispatch import Dispatcher
from penstock.broker.ground import Ground
from penstock.broker.groups.client import GroupsClient
from penstock.broker.groups.coordinator import GroupCoordinator, coordinator_config
from penstock.broker.groups.log import GroupLog
from penstock.broker.groups.questions import Questions
from penstock.broker.handlers.groups.members import groups_of
from penstock.broker.joining import Joined, alone, join
from penstock.broker.kafka.fetch_sessions import FetchSessions
from penstock.broker.kafka.session import KafkaSession
from penstock.broker.kafka.share_sessions import ShareSessions
from penstock.broker.partitions.compaction import Compactor
from penstock.broker.partitions.housekeeping import Housekeeping
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.producers.ids import ProducerIds
from penstock.broker.staging.coordinator import StagingCoordinator
from penstock.broker.topics.assignment import Assignment
from penstock.broker.topics.topics import Topics
from penstock.model.ids import BrokerId
from penstock.net.address import parse_address
from penstock.net.channel import Channel
from penstock.net.clock import Clock, SystemClock
from penstock.net.connection import Connection
from penstock.net.protocol_switch import ProtocolSwitch
from penstock.net.server import Server, ServerConfig
from penstock.net.strangers import Port
from penstock.registry.image import BrokerImage
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Flusher, ThreadFlusher
from penstock.storage.files.files import Directory

_PORT: Final = Port(
    speaks="Kafka's protocol and Penstock's own",
    advice="use a Kafka client or `penstock` with this address",
)


class Broker:
    """`async with Broker(config) as broker`, or `start` and `stop`.

    `clock` and `disk` stand in for the machine's own in tests: with a disk, the folder that the
    config names is not touched.
    """

    def __init__(
        self, config: BrokerConfig, *, clock: Clock | None = None, disk: Directory | None = None
    ) -> None:
        config.validate()
        self.config = config
        self._disk = disk
        self.addresses: list[str] = []
        self._clock = clock or SystemClock()
        self._running = contextlib.AsyncExitStack()

    async def start(self) -> None:
        async with contextlib.AsyncExitStack() as starting:
            await self._start(starting)
            self._running = starting.pop_all()

    async def stop(self) -> None:
        await self._running.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _start(self, starting: contextlib.AsyncExitStack) -> None:
        """Each part leaves behind how it is stopped."""
        config, clock = self.config, self._clock
        ground = self._prepare(starting)
        dispatcher = Dispatcher(ground)
        server = self._make_server(ground, dispatcher)
        if config.registry:
            await server.start()
            starting.push_async_callback(server.close)
            joined = await join(starting, ground, self._address(server))
        else:
            joined = alone(ground)
        context = await self._open(starting, ground, joined)
        ground.clients.groups_of = partial(groups_of, context)
        self._start_keeping(starting, context.partitions, ground.flusher)

        if not config.registry:
            await server.start()
        starting.push_async_callback(dispatcher.tasks.finish, config.shutdown_timeout_ms / 1000)
        starting.push_async_callback(server.drain, config.shutdown_timeout_ms / 1000)
        # Before the server drains: a long poll would keep it until its time is up.
        starting.callback(context.partitions.begin_closing)
        starting.callback(context.groups.begin_closing)
        starting.callback(context.staging.begin_closing)
        starting.callback(context.delivery.shares.begin_closing)
        if joined.peering is not None:
            starting.push_async_callback(
                hand_over, context.partitions, joined.peering, ground.driver, clock
            )
        dispatcher.let_clients(context)
        if not config.registry:
            here = BrokerImage(
                id=BrokerId(config.broker_id),
                address=self._address(server),
                host=config.host,
                directory=ground.meta.directory_id,
            )
            await joined.registry.register_broker(here)

    def _address(self, server: Server) -> str:
        """Where clients and other brokers reach this one."""
        self.addresses = [str(address) for address in server.addresses]
        return self.config.advertise or self.addresses[0]

    def _prepare(self, starting: contextlib.AsyncExitStack) -> Ground:
        config = self.config
        data, folder = self._disk, None
        if data is None:
            folder = DataFolder(config.data)
            data = folder.take()
            starting.callback(folder.leave)
        meta = read_or_make_meta(data, config.broker_id)
        flusher = ThreadFlusher(asyncio.get_running_loop(), config.flush_threads)
        flusher.start()
        starting.callback(flusher.stop)
        return Ground(
            config=config,
            data=data,
            meta=meta,
            # A disk that stands in for the machine's has no copies.
            place=meta.directory_id if folder is None else folder.place,
            driver=Driver(),
            flusher=flusher,
            clock=self._clock,
            clients=Clients(self._clock),
        )

    async def _open(
        self, starting: contextlib.AsyncExitStack, ground: Ground, joined: Joined
    ) -> Context:
        """The partitions, and what stands on them."""
        config, clock, registry = self.config, self._clock, joined.registry
        driver, flusher, me = ground.driver, ground.flusher, BrokerId(config.broker_id)
        replicas = None if joined.peering is None else joined.peering.replicas
        channels = NoChannels() if joined.peering is None else joined.peering.links
        partitions = Partitions(ground.data, joined.around, replicas)
        assignment = Assignment(config, me, registry, partitions)
        leaders = Leaders(me, registry, partitions, clock, replicas, joined.known)
        topics = Topics(config, registry, partitions, assignment, leaders)
        partitions.begin()
        starting.push_async_callback(partitions.close)
        parts = Parts(
            registry=registry,
            topics=topics,
            partitions=partitions,
            leaders=leaders,
            channels=channels,
            driver=driver,
            flusher=flusher,
            clock=clock,
        )
        staging = StagingCoordinator(parts)
        await topics.open_all(between=staging.begin)
        assignment.start()
        starting.push_async_callback(assignment.stop)
        group_log = GroupLog(topics, partitions, driver=driver, flusher=flusher, clock=clock)
        groups = GroupCoordinator(
            coordinator_config(config), group_log, registry=registry, clock=clock
        )
        await groups.start()
        starting.push_async_callback(groups.stop)
        await staging.start()
        starting.push_async_callback(staging.stop)
        groups_client = GroupsClient(me, leaders, channels, Questions(groups, registry, leaders))
        delivery = start_delivery_work(starting, config, parts, groups_client)
        return Context(
            config=config,
            loop=asyncio.get_running_loop(),
            clock=clock,
            driver=driver,
            registry=registry,
            partitions=partitions,
            leaders=leaders,
            topics=topics,
            groups=groups,
            groups_client=groups_client,
            producer_ids=_start_producer_ids(starting, joined),
            staging=staging,
            clients=ground.clients,
            channels=channels,
            delivery=delivery,
            cluster=start_cluster_work(
                starting,
                joined.around,
                registry,
                joined.peering,
                partitions,
                assignment,
                leaders,
                internal_replication_factor=config.internal_replication_factor,
            ),
        )

    def _start_keeping(
        self, starting: contextlib.AsyncExitStack, partitions: Partitions, flusher: Flusher
    ) -> None:
        """What goes over all partitions now and then."""
        loop, clock = asyncio.get_running_loop(), self._clock
        interval_s = self.config.retention_check_ms / 1000
        housekeeping = Housekeeping(partitions, flusher, clock, interval_s)
        housekeeping.rounds.start()
        starting.push_async_callback(housekeeping.rounds.stop)
        compaction_thread = ThreadFlusher(loop, 1)
        compaction_thread.start()
        starting.callback(compaction_thread.stop)
        compactor = Compactor(partitions, compaction_thread, clock, interval_s)
        compactor.start()
        starting.push_async_callback(compactor.stop)

    def _make_server(self, ground: Ground, dispatcher: Dispatcher) -> Server:
        config, driver = self.config, ground.driver
        fetch_sessions = FetchSessions(self._clock.now_ms, lambda: secrets.randbelow(2**31 - 1) + 1)
        share_sessions = ShareSessions()

        def make_native(connection: Connection) -> Channel:
            session = Session(
                connection,
                dispatcher.native,
                on_read_end=driver.end_turn,
                frame_bytes_max=config.frame_bytes_max,
            )
            return session.channel

        def make_kafka(connection: Connection) -> KafkaSession:
            return KafkaSession(
                connection,
                dispatcher.kafka,
                on_read_end=driver.end_turn,
                frame_bytes_max=config.frame_bytes_max,
                fetch_sessions=fetch_sessions,
                share_sessions=share_sessions,
            )

        def make_session(connection: Connection) -> ProtocolSwitch:
            return ProtocolSwitch(connection, _PORT, make_native=make_native, make_kafka=make_kafka)

        return Server(
            [parse_address(address) for address in config.listen],
            make_session,
            config=ServerConfig(
                connections_max=config.connections_max,
                first_frame_timeout_s=config.first_frame_timeout_ms / 1000,
                frame_timeout_s=config.frame_timeout_ms / 1000,
                idle_ping_s=config.idle_ping_ms / 1000,
                ping_timeout_s=config.ping_timeout_ms / 1000,
            ),
            clock=self._clock,
        )


def _start_producer_ids(starting: contextlib.AsyncExitStack, joined: Joined) -> ProducerIds:
    producer_ids = ProducerIds(joined.registry)
    if joined.peering is not None:  # a registry of its own is never away
        producer_ids.start()
        starting.push_async_callback(producer_ids.stop)
    return producer_ids
