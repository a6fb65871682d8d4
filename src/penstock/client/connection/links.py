"""The connections of a client: one channel per broker, opened when it is first needed.

It knows brokers by id and address and nothing of topics: `routes` does. The invariant: there is
at most one attempt to connect to an address at a time, which all who need it share, and attempts
at an address that failed are spaced by a growing backoff, however many ask.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from penstock import __version__
from penstock.client.concurrency.once import Once
from penstock.client.config import ClientConfig
from penstock.model.errors import (
    ClientClosed,
    ConnectionLost,
    PenstockError,
    ProtocolError,
    UnavailableError,
    UnknownCall,
)
from penstock.net.address import Address, parse_address
from penstock.net.channel import Channel, connect_channel
from penstock.net.receive_pool import ReceivePool
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import HELLO, type_name

logger = logging.getLogger(__name__)

SOFTWARE: Final = f"penstock-python {__version__}"

Handler = Callable[[Channel, int, memoryview, memoryview], None]
"""Answers a broker's call: given the channel, the message id, the envelope and the payload. What it
raises is the answer."""

Watcher = Callable[[Channel, PenstockError | None], None]
"""Is told of a connection that has ended, and why."""


class Links:
    """Live channels to brokers."""

    def __init__(self, bootstrap: Sequence[Address], config: ClientConfig) -> None:
        self._bootstrap = tuple(bootstrap)
        self._config = config
        self._backoff = config.backoff
        self._loop = asyncio.get_running_loop()
        self._pool = ReceivePool()
        # The channels in use by broker, and all that are open, those that were replaced too, with
        # where they lead.
        self._channels: dict[int, Channel] = {}
        self._open_channels: dict[Channel, Address] = {}
        self._all_closed = asyncio.Event()
        self._addresses: dict[int, Address] = {}
        self._attempts: Once[Address, Channel] = Once()
        self._failures: dict[Address, _Failure] = {}
        self._handlers: dict[int, Handler] = {}
        self._watchers: list[Watcher] = []
        # Of each open channel: the broker at its end, and what that calls this client.
        self._identities: dict[Channel, tuple[int, int]] = {}
        self._closed = False

    @property
    def client_name(self) -> str:
        """What brokers know this client by."""
        return self._config.client_name

    def serve(self, number: int, handler: Handler) -> None:
        """Let brokers call this client: the handler answers, on any channel."""
        assert number not in self._handlers, f"two handlers of {type_name(number)}"
        self._handlers[number] = handler

    def watch(self, watcher: Watcher) -> None:
        """Have it told of each connection that ends."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)

    def identity(self, channel: Channel) -> tuple[int, int]:
        """The broker at the other end, and what that calls this client."""
        found = self._identities.get(channel)
        if found is None:
            raise ConnectionLost("The connection was closed: try again.")
        return found

    def know_brokers(self, addresses: dict[int, str]) -> None:
        """Take note of where the brokers of the cluster are."""
        self._addresses = {
            broker_id: parse_address(address) for broker_id, address in addresses.items()
        }

    def knows(self, broker_id: int) -> bool:
        """Whether it has an address."""
        return broker_id in self._addresses

    def know_broker(self, broker_id: int, address: str) -> None:
        """Take note of where one of them is."""
        self._addresses[broker_id] = parse_address(address)

    async def any_broker(self, avoid: Channel | None = None) -> Channel:
        """A channel to some broker: a live one, else the first that can be reached.

        avoid: one that has just failed. Its broker may hang, or have no answer yet: it is taken
        only where there is no other.
        """
        for channel in self._channels.values():
            if not channel.connection.is_closed and channel is not avoid:
                return channel
        avoided = None if avoid is None else self._open_channels.get(avoid)
        reasons = []
        for address in dict.fromkeys((*self._bootstrap, *self._addresses.values())):
            if address == avoided:
                continue
            try:
                return await self._connect(address)
            except (ProtocolError, UnavailableError) as error:
                # Also where something answers that does not speak the protocol: others may.
                reasons.append(str(error))
        if avoid is not None and not avoid.connection.is_closed:
            return avoid
        raise ConnectionLost(f"No broker can be reached. {' '.join(reasons)}")

    async def broker(self, broker_id: int) -> Channel:
        """A channel to this broker."""
        channel = self._channels.get(broker_id)
        if channel is not None and not channel.connection.is_closed:
            return channel
        address = self._addresses.get(broker_id)
        if address is None:
            raise ConnectionLost(f"Broker {broker_id} has no address now: it may be down.")
        channel = await self._connect(address)
        if self._channels.get(broker_id) is not channel:
            raise ConnectionLost(f"Another broker than {broker_id} answers at {address} now.")
        return channel

    async def close(self) -> None:
        """Close every channel; what is queued for sending still goes out."""
        self._closed = True
        await self._attempts.close()
        self._channels.clear()
        for channel in list(self._open_channels):
            channel.close()
        while self._open_channels:  # a connection bounds the time that its closing takes
            self._all_closed.clear()
            await self._all_closed.wait()

    async def _connect(self, address: Address) -> Channel:
        if self._closed:
            raise ClientClosed
        failure = self._failures.get(address)
        if failure is not None and self._loop.time() < failure.retry_at_s:
            # Too soon after the last attempt: whoever asks has a backoff of its own.
            raise ConnectionLost(str(failure.error))
        return await self._attempts.join(address, lambda: self._attempt(address))

    async def _attempt(self, address: Address) -> Channel:
        try:
            channel = await self._open(address)
        except UnavailableError as error:
            before = self._failures.get(address)
            attempts = before.attempts + 1 if before is not None else 1
            retry_at_s = self._loop.time() + self._backoff.wait_s(attempts)
            self._failures[address] = _Failure(attempts, retry_at_s, error)
            raise
        self._failures.pop(address, None)
        return channel

    async def _open(self, address: Address) -> Channel:
        """Connect, and hear from the broker who it is."""
        timeout_s = self._config.connect_timeout_s
        channel = await connect_channel(
            address, self._serve, pool=self._pool, timeout_s=timeout_s, on_closed=self._on_closed
        )
        self._open_channels[channel] = address
        request = pb.HelloRequest(client_name=self._config.client_name, software=SOFTWARE)
        try:
            hello, _ = await channel.call(HELLO, request, timeout_s=timeout_s)
        except BaseException:
            channel.close()
            raise
        logger.debug("Connected to broker %d at %s.", hello.broker_id, address)
        # A second channel to a broker known by two addresses takes the place of the first, which
        # those who hold it may use on until it closes.
        self._channels[hello.broker_id] = channel
        self._identities[channel] = hello.broker_id, hello.client
        return channel

    def _serve(
        self,
        channel: Channel,
        number: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        handler = self._handlers.get(number)
        if handler is None:
            raise UnknownCall(f"{type_name(number)} cannot be called on this side.")
        handler(channel, message_id, envelope, payload)

    def _on_closed(self, channel: Channel, error: PenstockError | None) -> None:
        if error is not None and not self._closed:
            logger.info("A connection ended: %s", error)
        self._open_channels.pop(channel, None)
        self._identities.pop(channel, None)
        for watcher in list(self._watchers):
            watcher(channel, error)
        self._all_closed.set()


class _Failure(NamedTuple):
    """The attempts at an address that have failed since the last success."""

    attempts: int
    retry_at_s: float
    error: UnavailableError
