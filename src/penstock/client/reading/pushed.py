"""Messages that are pushed: one stream per partition, with credit for what the reader has room for.

Not how deliveries find their stream (`connection/deliveries`), nor what they bring: a feed knows.
The invariants: a broker has credit for no more than what the reader has taken leaves free; a
partition whose stream ends is pushed by another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import ClassVar

from penstock.client.config import ClientConfig
from penstock.client.connection.deliveries import Deliveries
from penstock.client.connection.parks import forget_park
from penstock.client.connection.routes import Routes
from penstock.client.reading.asked import AskedSource
from penstock.client.reading.settings import ReadingConfig
from penstock.client.reading.supply import Credit, Source, Supply
from penstock.model.errors import ConnectionLost, Parked, PenstockError, UnknownStream
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import PING

logger = logging.getLogger(__name__)


class PushedSource(Source):
    """Of one consumer."""

    waits_for_room: ClassVar = False

    def __init__(
        self,
        routes: Routes,
        config: ClientConfig,
        deliveries: Deliveries,
        *,
        group: str = "",
        member_id: str = "",
        resumes_itself: bool = True,
    ) -> None:
        """resumes_itself: go on after a park as soon as this side is alive, unless an operator has
        parked it; else the reader is told, and asks for it by `resume`."""
        super().__init__(routes, config)
        self.deliveries = deliveries
        self.group = group
        self.member_id = member_id
        """Whom the group knows this reader as, if it is a member."""
        self.resumes_itself = resumes_itself
        self._streams: dict[Supply, CreditStream] = {}
        self.telling: asyncio.Task[None] | None = None
        """Brokers hear that the reader has resumed what an operator had parked."""

    def begin(self, supply: Supply, channel: Channel) -> None:
        request = supply.feed.opening()
        request.group, request.member_id = self.group, self.member_id
        stream = self._streams[supply] = CreditStream(self, supply, channel, request)
        stream.open(request)

    def stop(self, supply: Supply) -> None:
        if (stream := self._streams.pop(supply, None)) is not None:
            stream.close()

    def resume(self, supplies: Iterable[Supply]) -> None:
        streams = [self._streams[each] for each in supplies if each in self._streams]
        parked = [stream for stream in streams if stream.is_parked]
        for stream in parked:
            stream.resume(is_automatic=False)
        if any(stream.is_parked_by_operator for stream in parked):
            told = forget_park(self.routes, self.deliveries.client_name, self.group)
            self.telling = self.scope.start(told, name=f"resume for {self.deliveries.client_name}")

    async def close(self) -> None:
        for supply in list(self._streams):
            self.stop(supply)
        await super().close()

    def ended(self, stream: CreditStream, error: PenstockError) -> None:
        """A stream is closed: go on with another, if it was the partition's last one."""
        supply = stream.supply
        if self._streams.get(supply) is stream and not self.is_closed:
            del self._streams[supply]
            supply.is_busy = False
            supply.feed.on_stream_end(stream, error)
            supply.feed.on_error(error)


def make_source(
    routes: Routes,
    config: ClientConfig,
    deliveries: Deliveries,
    settings: ReadingConfig,
    group: str,
    member_id: str = "",
) -> Source:
    """Asks, or is pushed to, as the settings say."""
    if not settings.push:
        return AskedSource(routes, config)
    return PushedSource(
        routes,
        config,
        deliveries,
        group=group,
        member_id=member_id,
        resumes_itself=settings.auto_resume,
    )


class CreditStream:
    """One stream of one partition, and the credit that is to be given back."""

    __slots__ = (
        "_channel",
        "_half_bytes",
        "_half_messages",
        "_is_closed",
        "_owed_bytes",
        "_owed_messages",
        "_source",
        "_stream",
        "is_parked",
        "is_parked_by_operator",
        "supply",
    )

    def __init__(
        self, source: PushedSource, supply: Supply, channel: Channel, request: pb.OpenPushRequest
    ) -> None:
        self.supply = supply
        self.is_parked = False
        self.is_parked_by_operator = False
        self._source = source
        self._channel = channel
        # Of all its credit.
        self._half_messages = request.credit_messages / 2
        self._half_bytes = request.credit_bytes / 2
        # What waits for the reader no longer, and was not given back.
        self._owed_messages = 0
        self._owed_bytes = 0
        self._is_closed = False
        self._stream = source.deliveries.open(channel, self)

    def open(self, request: pb.OpenPushRequest) -> None:
        request.stream = self._stream.number
        if request.shared:
            request.now_ms = self._source.deliveries.now_ms()
        timeout_s = self._source.timeout_s
        self._channel.start_call(
            pb.CALL_OPEN_PUSH, request.SerializeToString(), (), self._opened, timeout_s
        )

    def give_back(self, messages: int, size_bytes: int) -> None:
        """Let the broker push as much again, in large pieces: half of the credit is always its."""
        self._owed_messages += messages
        self._owed_bytes += size_bytes
        if self._owed_messages < self._half_messages and self._owed_bytes < self._half_bytes:
            return
        if self._is_over:
            return
        request = pb.GiveCreditRequest(
            stream=self._stream.number, messages=self._owed_messages, bytes=self._owed_bytes
        )
        self._owed_messages = self._owed_bytes = 0
        self._channel.tell(pb.CALL_GIVE_CREDIT, request.SerializeToString())

    def resume(self, *, is_automatic: bool) -> None:
        """is_automatic: by the library itself, and not because somebody asked for it."""
        if self._is_over:
            return  # another is opened
        request = pb.ResumePushRequest(stream=self._stream.number, is_automatic=is_automatic)
        self._channel.start_call(
            pb.CALL_RESUME_PUSH, request.SerializeToString(), (), self._resumed
        )

    def ping(self, answered: Callable[[], None]) -> None:
        """answered: is called when all that the broker has sent by now has come."""
        if not self._is_over:  # else its end is told by itself
            self._channel.start_call(PING.number, b"", (), partial(self._pinged, answered))

    def fail(self, error: PenstockError) -> None:
        """It is of no use: go on with another."""
        self.close()
        self._source.ended(self, error)

    def close(self) -> None:
        self._is_closed = True
        self._source.deliveries.close(self._stream)

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._channel.connection.is_closed

    def _opened(self, error: PenstockError | None, *_: memoryview) -> None:
        if error is not None:
            self.fail(error)

    def _resumed(self, error: PenstockError | None, *_: memoryview) -> None:
        if error is None:
            self.is_parked = False
        elif not isinstance(error, ConnectionLost | UnknownStream | Parked):
            self.fail(error)  # not known whether it goes on

    def _pinged(
        self, answered: Callable[[], None], error: PenstockError | None, *_: memoryview
    ) -> None:
        if self._is_closed:
            return
        try:
            if error is not None:
                raise error
            answered()
        except PenstockError as problem:
            self.fail(problem)

    # --- deliveries.Receiver -------------------------------------------------------------------

    def on_delivery(self, request: pb.DeliverRequest, payload: memoryview) -> None:
        try:
            credit = Credit(self, request.messages, len(payload))
            self.supply.feed.on_delivery(request, payload, credit)
        except PenstockError as error:
            self.fail(error)

    def on_parked(
        self, error: PenstockError, *, by_operator: bool, withdrawn: Collection[int]
    ) -> None:
        self.is_parked = True
        self.is_parked_by_operator = by_operator
        self.supply.feed.on_withdrawn(self, withdrawn)
        if by_operator:
            logger.warning("What is pushed of %s waits for a resume: %s", self.supply, error)
        elif self._source.resumes_itself:
            logger.info("%s is resumed: %s", self.supply, error)
            self.resume(is_automatic=True)
        else:
            self.supply.feed.on_parked(error)

    def on_ended(self, error: PenstockError) -> None:
        self._is_closed = True
        self._source.ended(self, error)
