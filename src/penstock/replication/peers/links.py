"""A broker's connections to the others: one to each, kept up, for parcels and for other calls.

A pair of brokers has two, one made by each side; a broker says what it has to say on its own. Not
what is in a parcel, and not which brokers there are: `know` is told that. The invariants: a node is
up only while there is a connection to it on which it said who it is; and what waits to be sent to a
peer that does not read is bounded, since Raft repeats what is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from penstock import __version__
from penstock.model.errors import (
    ConnectionLost,
    InvalidRequest,
    PenstockError,
    ProtocolError,
    TimedOut,
)
from penstock.model.limits import PEER_QUEUE_BYTES_MAX
from penstock.net.address import parse_address
from penstock.net.channel import Channel, connect_channel
from penstock.net.receive_pool import ReceivePool
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import HELLO, PING, RAFT
from penstock.raft.membership import Node
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.parcels.wire import encode

logger = logging.getLogger(__name__)

# What a peer gets to accept a connection, and to say who it is.
_HELLO_TIMEOUT_S: Final = 2.0
# After a connection failed or ended: so long until the next one, then twice as long, up to this.
_RETRY_S_MIN: Final = 0.05
_RETRY_S_MAX: Final = 1.0
# How often a peer is asked for a sign of life, and how long it may take: a machine that is gone
# does not say so, and TCP would wait for minutes.
_PING_S: Final = 2.0
_PING_TIMEOUT_S: Final = 5.0


class PeerLinks:
    """One per broker. Implements `replication.peers.replicas.Transport`. All calls come from the
    loop."""

    def __init__(
        self,
        me: Node,
        cluster_id: Callable[[], str],
        *,
        on_up: Callable[[Node], None],
        on_down: Callable[[Node], None],
    ) -> None:
        """cluster_id: empty as long as it is not known; then it is not looked at."""
        self._me = me
        self._cluster_id = cluster_id
        self._on_up = on_up
        self._on_down = on_down
        self._links: dict[Node, _Link] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._pool = ReceivePool()
        self.parcels_dropped = 0

    def know(self, addresses: Mapping[Node, str]) -> None:
        """These are the other brokers from now on. A node without a directory (0) is whoever has
        its number."""
        for node, link in list(self._links.items()):
            if addresses.get(node) != link.address:
                del self._links[node]
                self._end(link)
        for node, address in addresses.items():
            if node != self._me and node not in self._links:
                link = self._links[node] = _Link(self, node, address)
                link.task = asyncio.get_running_loop().create_task(link.keep())

    def knows(self, node: Node) -> bool:
        return node in self._links

    def channel(self, broker_id: int) -> Channel | None:
        """The connection to the broker, for other calls; None while it cannot be reached."""
        for node, link in self._links.items():
            if node.broker == broker_id and link.channel is not None:
                return link.channel
        return None

    def send(self, parcel: Parcel) -> None:
        """Send what can be sent now: the rest is lost, and Raft says it again."""
        link = self._links.get(parcel.receiver)
        channel = None if link is None else link.channel
        if channel is None or channel.connection.is_closed:
            return
        queued_bytes = channel.connection.outbox.queued_bytes
        if queued_bytes > PEER_QUEUE_BYTES_MAX:
            self.parcels_dropped += 1
            if parcel.heartbeat is None:
                return
            if queued_bytes > 2 * PEER_QUEUE_BYTES_MAX:
                channel.connection.abort(ConnectionLost(f"{parcel.receiver} does not keep up."))
                return
            parcel = replace(parcel, letters=())
        envelope, payloads = encode(replace(parcel, cluster_id=self._cluster_id()))
        try:
            channel.tell(RAFT.number, envelope, payloads)
        except ProtocolError as error:
            logger.error("Broker %s cannot be told something: %s", parcel.receiver, error)

    def is_crowded(self, node: Node) -> bool:
        """Whether so much waits to be sent to it that more should wait elsewhere."""
        link = self._links.get(node)
        channel = None if link is None else link.channel
        return channel is not None and not channel.connection.is_writable

    def hurry(self, node: Node) -> None:
        """The node was heard: if it is not reached, it is worth another try."""
        if (link := self._links.get(node)) is not None:
            link.retry.set()

    async def close(self) -> None:
        self.know({})
        if self._ending:
            await asyncio.wait(self._ending)

    # --- for links -------------------------------------------------------------------------------

    def _end(self, link: _Link) -> None:
        assert link.task is not None
        self._ending.add(link.task)
        link.task.add_done_callback(self._ending.discard)
        link.task.cancel()
        link.end()

    async def meet(self, node: Node, address: str, ended: asyncio.Event) -> Channel:
        """A connection on which the node said who it is; `ended` is set when it is over."""

        def on_closed(_channel: Channel, _error: PenstockError | None) -> None:
            ended.set()

        channel = await connect_channel(
            parse_address(address),
            pool=self._pool,
            timeout_s=_HELLO_TIMEOUT_S,
            on_closed=on_closed,
        )
        try:
            request = pb.HelloRequest(
                client_name=f"broker {self._me}", software=f"penstock/{__version__}"
            )
            hello, _ = await channel.call(HELLO, request, timeout_s=_HELLO_TIMEOUT_S)
            self._check(node, hello)
        except BaseException:
            channel.close()
            raise
        return channel

    def _check(self, node: Node, hello: pb.HelloResponse) -> None:
        cluster_id = self._cluster_id()
        if cluster_id and hello.cluster_id and hello.cluster_id != cluster_id:
            raise InvalidRequest(
                f"It belongs to cluster {hello.cluster_id} and this broker to {cluster_id}: give "
                "each cluster addresses, and a registry, of its own."
            )
        found = Node(hello.broker_id, hello.directory)
        if found.broker != node.broker or node.directory not in (0, found.directory):
            raise InvalidRequest(
                f"It is {found}, where {node} is expected: it was started with another data folder "
                "or number, and the registry will tell, or two brokers share an address."
            )

    def up(self, node: Node) -> None:
        logger.info("Broker %s is connected", node)
        self._on_up(node)

    def down(self, node: Node) -> None:
        logger.info("Broker %s is disconnected", node)
        self._on_down(node)


class _Link:
    """The connection to one peer, made again whenever it ends."""

    __slots__ = ("_complaint", "_links", "_node", "address", "channel", "retry", "task")

    def __init__(self, links: PeerLinks, node: Node, address: str) -> None:
        self._links = links
        self._node = node
        self.address = address
        # While the peer is up.
        self.channel: Channel | None = None
        self.task: asyncio.Task[None] | None = None
        # Set when there is a reason to try again at once.
        self.retry = asyncio.Event()
        self._complaint = ""

    async def keep(self) -> None:
        """Run until it is cancelled."""
        delay_s = _RETRY_S_MIN
        while True:
            try:
                await self._be_connected()
                delay_s = _RETRY_S_MIN
            except PenstockError as error:
                self._complain(error)
            except Exception:
                # A bug of ours must not leave the peer unreachable for good.
                logger.exception("The connection to broker %s failed", self._node)
            self.retry.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self.retry.wait()
            delay_s = min(2 * delay_s, _RETRY_S_MAX)

    async def _be_connected(self) -> None:
        """From the connection to its end."""
        ended = asyncio.Event()
        channel = await self._links.meet(self._node, self.address, ended)
        self._complaint = ""
        self.channel = channel
        self._links.up(self._node)
        try:
            while not ended.is_set():
                await self._ask_for_life(channel)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PING_S):
                        await ended.wait()
        finally:
            self.end()

    def end(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None
            self._links.down(self._node)

    async def _ask_for_life(self, channel: Channel) -> None:
        outbox = channel.connection.outbox
        sent_bytes = outbox.sent_bytes
        try:
            await channel.call(PING, pb.PingRequest(), timeout_s=_PING_TIMEOUT_S)
        except TimedOut as error:
            # What is queued before the question may take longer, as long as it moves.
            is_moving = outbox.queued_bytes > 0 and outbox.sent_bytes > sent_bytes
            if not is_moving:
                channel.connection.abort(error)
                raise

    def _complain(self, error: PenstockError) -> None:
        """Once for each reason, until it is up again."""
        if error.message != self._complaint:
            self._complaint = error.message
            logger.warning("Broker %s at %s cannot be reached: %s", self._node, self.address, error)
