"""One push stream of a client: the machine, its source, its timer, and its calls.

Not what is decided: that is `coordination.delivery.push`. Not whose turn it is on the connection:
that is `broker.delivery.push.streams`. The invariant: when a stream is closed nothing refers to it,
no call of it waits for an answer, and its source has been told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, assert_never

from penstock.broker.delivery.push.client_clock import ClientClock
from penstock.broker.delivery.push.sources import Load, Source
from penstock.coordination.delivery import push
from penstock.coordination.delivery.push import Effect, Event, Push, PushSettings, State
from penstock.model.errors import (
    ConnectionLost,
    MalformedFrame,
    Parked,
    PenstockError,
    UnknownStream,
)
from penstock.model.ids import TopicPartition
from penstock.net.channel import Channel
from penstock.net.clock import Clock
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import error_envelope, parse

logger = logging.getLogger(__name__)

# The machine has the deadlines: an answer that is late is an answer all the same.
_ANSWER_S_MAX: Final = 10 * 365 * 86_400.0
# The first call of a delivery may be answered late, and the last one in time.
_CALLS_PER_DELIVERY_MAX: Final = 2


class Turns(Protocol):
    """Who lets streams of one connection send, one after another."""

    @property
    def channel(self) -> Channel: ...
    @property
    def has_room(self) -> bool:
        """Whether the connection keeps up, so that more may be sent."""
        ...

    def ask(self, stream: PushStream) -> None:
        """Call `take_turn` of the stream when there is room and it is its turn."""
        ...

    def ended(self, stream: PushStream) -> None:
        """The stream is closed."""
        ...


class PushStream:
    """Made by `Pushes`."""

    __slots__ = (
        "_calls",
        "_client_clock",
        "_clock",
        "_held",
        "_loop",
        "_sent",
        "_source",
        "_timeout_ms",
        "_timer",
        "_timer_ms",
        "_turns",
        "_wanted",
        "group",
        "is_closed",
        "is_queued",
        "is_shared",
        "machine",
        "member_id",
        "name",
        "number",
        "parked_at_ms",
    )

    def __init__(
        self,
        request: pb.OpenPushRequest,
        source: Source,
        settings: PushSettings,
        turns: Turns,
        clock: Clock,
    ) -> None:
        self.number = request.stream
        self.group = request.group
        self.member_id = request.member_id
        self.name = TopicPartition(request.topic, request.partition)
        self.is_shared = request.shared
        self.machine = Push(settings)
        self._timeout_ms = settings.timeout_ms
        self.is_closed = False
        # For `turns`: whether it is among those that wait for one.
        self.is_queued = False
        self.parked_at_ms = 0
        self._source = source
        self._turns = turns
        self._clock = clock
        self._client_clock = ClientClock()
        self._client_clock.said(request.now_ms, clock.monotonic())
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        # What the machine asked for, until the source has it; what it gave, until it is sent.
        self._wanted: push.Load | None = None
        self._held: Load | None = None
        # Of deliveries without an answer: what they had, and the calls that may answer them.
        self._sent: dict[int, Load] = {}
        self._calls: dict[int, list[int]] = {}

    def handle(self, event: Event) -> None:
        """Let something happen. What is raised has changed nothing."""
        self._do(self.machine.handle(event, self._now_ms()))

    def take_turn(self) -> None:
        """Send what is there, or ask for it. Only where there is room."""
        if self._held is not None:
            load = self._held
            self.handle(push.Loaded(messages=load.messages, size_bytes=load.size_bytes))
        elif self._wanted is not None:
            self._source.next(self._wanted.messages_max, self._wanted.bytes_max, self._loaded)

    def end(self, error: PenstockError) -> None:
        """Close it, and tell the client why."""
        if self.is_closed:
            return
        self.close()
        ended = pb.PushEndedRequest(stream=self.number)
        ended.error.ParseFromString(error_envelope(error))
        self._tell(ended)

    def close(self) -> None:
        """Close it without a word: the client knows, or is gone."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        channel = self._turns.channel
        for calls in self._calls.values():
            for message_id in calls:
                channel.cancel_call(message_id)
        self._calls.clear()
        unanswered = list(self._sent.values())
        if self._held is not None:
            unanswered.append(self._held)
        self._sent.clear()
        self._wanted = self._held = None
        self._source.close(unanswered)
        self._turns.ended(self)

    # --- what the machine wants ----------------------------------------------------------------

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if self.is_closed:
                return
            match effect:
                case push.Load():
                    self._wanted = effect
                    self._turns.ask(self)
                case push.StopLoading():
                    self._stop_loading()
                case push.Send():
                    assert self._held is not None, f"{effect} of nothing"
                    load, self._held = self._held, None
                    self._sent[effect.delivery] = load.without_bytes()
                    self._call(effect.delivery, load)
                case push.SendAgain():
                    self._send_again(effect.delivery)
                case push.TellParked():
                    self._tell_parked()
                case _:
                    assert_never(effect)
        if not self.is_closed:
            self._set_timer()

    def _stop_loading(self) -> None:
        self._wanted = None
        self._source.cancel()
        if self._held is not None:
            load, self._held = self._held, None
            self._source.drop(load)

    def _loaded(self, outcome: Load | PenstockError | None) -> None:
        if isinstance(outcome, PenstockError):
            self.end(outcome)
            return
        if outcome is not None:
            self._held, self._wanted = outcome, None
        self._turns.ask(self)

    def _send_again(self, delivery: int) -> None:
        if not self._turns.has_room:
            return  # what was sent first is still before the client
        try:
            load = self._source.again(self._sent[delivery])
        except PenstockError as error:
            self.end(error)
            return
        if load is None:
            self.handle(push.Withdrawn(delivery))
            if not self.machine.awaits(delivery):
                self._forget(delivery)
        else:
            self._call(delivery, load)

    def _call(self, delivery: int, load: Load) -> None:
        request = pb.DeliverRequest(
            stream=self.number,
            delivery=delivery,
            next_offset=load.next_offset,
            leases=load.leases,
            lease_ms=load.lease_ms,
            leased_at_ms=self._client_clock.at_ms(load.leased_at_s) if load.leases else 0,
            timeout_ms=self._timeout_ms if load.leases else 0,
            high_watermark=load.high_watermark,
            messages=load.messages,
            has_gaps=load.has_gaps,
        )
        envelope = request.SerializeToString()
        channel, payload = self._turns.channel, load.payload
        answered: Callable[..., None] = partial(self._answered, delivery)
        calls = self._calls.setdefault(delivery, [])
        if len(calls) == _CALLS_PER_DELIVERY_MAX:
            channel.cancel_call(calls.pop())
        try:
            if isinstance(payload, bytes):
                message_id = channel.start_call(
                    pb.CALL_DELIVER, envelope, (payload,), answered, _ANSWER_S_MAX
                )
            else:
                message_id = channel.start_call(
                    pb.CALL_DELIVER, envelope, (), answered, _ANSWER_S_MAX, file_slice=payload
                )
        except PenstockError as error:
            self.end(error)
        else:
            calls.append(message_id)

    def _answered(
        self,
        delivery: int,
        error: PenstockError | None,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        del payload
        if self.is_closed or isinstance(error, ConnectionLost):
            return  # its end is told by itself
        if isinstance(error, UnknownStream):
            self.close()
        elif error is not None:
            logger.debug("%s refused a delivery of %s: %s", self._peer, self.name, error)
            self.handle(push.Refused(delivery))
        else:
            if self.is_shared:
                self._hear_clock(envelope)
            self._forget(delivery)
            self.handle(push.Answered(delivery))

    def _hear_clock(self, envelope: memoryview) -> None:
        try:
            said_ms = parse(pb.DeliverResponse, envelope).now_ms
        except MalformedFrame as error:
            logger.debug("%s does not say what time it is: %s", self._peer, error)
        else:
            self._client_clock.said(said_ms, self._clock.monotonic())

    def _forget(self, delivery: int) -> None:
        """A delivery is settled: whatever else answers it is of no use."""
        self._sent.pop(delivery, None)
        for message_id in self._calls.pop(delivery, ()):
            self._turns.channel.cancel_call(message_id)

    def _tell_parked(self) -> None:
        machine = self.machine
        self.parked_at_ms = self._clock.now_ms()
        logger.warning(
            "The delivery of %s to %s is parked: %s", self.name, self._peer, machine.reason
        )
        ended = pb.PushEndedRequest(
            stream=self.number, is_parked=True, by_operator=machine.is_parked_by_operator
        )
        # Whom an operator parks lives: it is about to answer.
        if not machine.is_parked_by_operator and self._source.take_back(list(self._sent.values())):
            ended.withdrawn.extend(self._sent)
        ended.error.ParseFromString(error_envelope(Parked(machine.reason)))
        self._tell(ended)

    def _tell(self, ended: pb.PushEndedRequest) -> None:
        channel = self._turns.channel
        if not channel.connection.is_closed:
            channel.tell(pb.CALL_PUSH_ENDED, ended.SerializeToString())

    @property
    def _peer(self) -> str:
        return self._turns.channel.connection.peer

    # --- time ----------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return round(self._clock.monotonic() * 1000)

    def _set_timer(self) -> None:
        """One that is there already may be too early, and then looks again: most deliveries are
        answered long before, and none of them moves a timer."""
        deadline_ms = self.machine.deadline_ms
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        wait_s = max(deadline_ms - self._now_ms(), 1) / 1000
        self._timer = self._loop.call_later(wait_s, self._time_up)

    def _time_up(self) -> None:
        self._timer = None
        if not self.is_closed:
            self.handle(push.TimePassed())

    @property
    def state(self) -> State:
        return self.machine.state
