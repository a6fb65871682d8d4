"""What brokers push to this client: each delivery to the stream that it is for.

A stream is one partition pushed by one broker; who opened it takes what comes. Not how much may
come, nor where it goes: `reading.pushed` knows. The invariants: a stream hears of its end once,
whether the broker says so, its connection ends, or a broker that is silent answers no ping; a
delivery that comes again is answered and dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Final, Protocol

from penstock.client.connection.links import Links
from penstock.model.errors import ConnectionLost, PenstockError, TimedOut, UnknownStream
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DELIVER, PING, PUSH_ENDED, error_from, parse

# A broker that pushes nothing for so long is asked whether it is there; nobody else would notice
# that its machine is gone.
_SILENT_S_MAX: Final = 15.0
_PING_S_MAX: Final = 10.0
_LOOK_S: Final = 5.0


class Receiver(Protocol):
    """Who opened a stream."""

    def on_delivery(self, request: pb.DeliverRequest, payload: memoryview) -> None:
        """Messages have come, for the first time. They may be kept."""
        ...

    def on_parked(
        self, error: PenstockError, *, by_operator: bool, withdrawn: Collection[int]
    ) -> None:
        """Nothing more comes until the stream is resumed. withdrawn: deliveries of which nothing is
        this client's any more, if it came at all."""
        ...

    def on_ended(self, error: PenstockError) -> None:
        """Nothing more comes. The stream is closed already."""
        ...


class DeliveryStream:
    """An open stream. Made by `Deliveries.open`."""

    __slots__ = ("_next_delivery", "channel", "number", "receiver")

    def __init__(self, number: int, channel: Channel, receiver: Receiver) -> None:
        self.number = number
        self.channel = channel
        self.receiver = receiver
        self._next_delivery = 0

    def is_new(self, delivery: int) -> bool:
        """Whether it did not come before; from now on it did."""
        if delivery < self._next_delivery:
            return False
        self._next_delivery = delivery + 1
        return True


class Deliveries:
    """One per client."""

    def __init__(self, links: Links) -> None:
        self._loop = asyncio.get_running_loop()
        self.client_name = links.client_name
        # By numbers that no other stream of this client had.
        self._streams: dict[int, DeliveryStream] = {}
        self._next_number = 1
        self._timer: asyncio.TimerHandle | None = None
        links.serve(DELIVER.number, self._on_deliver)
        links.serve(PUSH_ENDED.number, self._on_push_ended)
        links.watch(self._on_lost)

    def open(self, channel: Channel, receiver: Receiver) -> DeliveryStream:
        """A stream that deliveries find; the broker has to be asked for them."""
        stream = DeliveryStream(self._next_number, channel, receiver)
        self._next_number += 1
        self._streams[stream.number] = stream
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_S, self._look)
        return stream

    def close(self, stream: DeliveryStream) -> None:
        """Take nothing more of a stream. The broker hears of it."""
        if self._streams.pop(stream.number, None) is None:
            return
        if not stream.channel.connection.is_closed:
            request = pb.ClosePushRequest(stream=stream.number)
            stream.channel.tell(pb.CALL_CLOSE_PUSH, request.SerializeToString())

    def now_ms(self) -> int:
        """What a broker is told so that it can say when, by this clock, it leased messages."""
        return int(self._loop.time() * 1000)

    def end(self) -> None:
        """The client ends; whoever opened streams has closed them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- what brokers call ---------------------------------------------------------------------

    def _on_deliver(
        self, channel: Channel, message_id: int, envelope: memoryview, payload: memoryview
    ) -> None:
        request = parse(pb.DeliverRequest, envelope)
        stream = self._find(channel, request.stream)
        if stream.is_new(request.delivery):
            stream.receiver.on_delivery(request, payload)
        answer = b""
        if request.leases:
            answer = pb.DeliverResponse(now_ms=self.now_ms()).SerializeToString()
        channel.answer(message_id, pb.CALL_DELIVER, answer)

    def _on_push_ended(
        self, channel: Channel, message_id: int, envelope: memoryview, payload: memoryview
    ) -> None:
        del payload
        request = parse(pb.PushEndedRequest, envelope)
        stream = self._find(channel, request.stream)
        channel.answer(message_id, pb.CALL_PUSH_ENDED, b"")
        error = error_from(request.error.SerializeToString())
        if request.is_parked:
            stream.receiver.on_parked(
                error, by_operator=request.by_operator, withdrawn=request.withdrawn
            )
        else:
            self._end(stream, error)

    def _find(self, channel: Channel, number: int) -> DeliveryStream:
        stream = self._streams.get(number)
        if stream is None or stream.channel is not channel:
            raise UnknownStream(f"The client has no stream {number} open here.")
        return stream

    def _end(self, stream: DeliveryStream, error: PenstockError) -> None:
        del self._streams[stream.number]
        stream.receiver.on_ended(error)

    def _on_lost(self, channel: Channel, error: PenstockError | None) -> None:
        reason = error or ConnectionLost(f"{channel.connection.peer} closed the connection.")
        if not reason.retriable:
            reason = ConnectionLost(reason.message)
        for stream in list(self._streams.values()):
            # One may have been closed by whoever was told of another.
            if stream.channel is channel and stream.number in self._streams:
                self._end(stream, reason)

    # --- brokers that are silent ---------------------------------------------------------------

    def _look(self) -> None:
        self._timer = None
        if not self._streams:
            return
        self._timer = self._loop.call_later(_LOOK_S, self._look)
        since_s = self._loop.time() - _SILENT_S_MAX
        for channel in {stream.channel for stream in self._streams.values()}:
            if channel.connection.heard_at_s < since_s and not channel.connection.is_closed:
                answered = partial(_on_pong, channel)
                channel.start_call(PING.number, b"", (), answered, _PING_S_MAX)


def _on_pong(channel: Channel, error: PenstockError | None, *_: memoryview) -> None:
    if isinstance(error, TimedOut):
        channel.connection.abort(error)
