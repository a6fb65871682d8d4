"""One push stream: when the next delivery may leave, and what becomes of those without an answer.

    flowing ── a delivery is not answered in time ──▶ waiting (the timeout queue)
       ▲                                                 │ after a pause it is sent again
       ├────────────── an answer ◀── trying ◀────────────┘
       │                               │ not answered again
       └──────────── resume ◀────── parked (the dead-letter queue of deliveries)

Not what is delivered: a source of the broker's has that, and this counts messages and bytes. The
machine asks for a load when there is credit and room in the window (`Load`), and hears what came
(`Loaded`). A delivery is indivisible, so the last one that credit pays for may be larger than it:
then credit is below nothing until the client has given as much again.

The invariants (R-DEL-6, R-DEL-8): nothing is asked for without credit of both kinds, nor beyond the
window; while it is not flowing nothing new leaves; a delivery that was not answered keeps its
number, and is forgotten only when it is answered, or when its source has it no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, assert_never

from penstock.model.errors import InvalidCredit, Parked
from penstock.model.limits import PUSH_CREDIT_BYTES_MAX, PUSH_CREDIT_MESSAGES_MAX

UNANSWERED: Final = "The client left a delivery unanswered twice."


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    """How much and how patiently."""

    window: int
    """Deliveries without an answer."""
    timeout_ms: int
    """How long an answer may take."""
    retry_ms: int
    """How long a delivery is in the timeout queue before it is sent again."""
    delivery_bytes_max: int
    """What one delivery may have, unless a single batch is larger."""


class State(StrEnum):
    """How a stream looks from outside."""

    ALIVE = "alive"
    SLOW = "slow"
    TIMEOUT = "timeout"
    PARKED = "parked"


# --- what happens to a stream ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditGiven:
    """The client is ready for so much more."""

    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What was asked for is there, and leaves with this."""

    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The client has a delivery."""

    delivery: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The client has answered that it could not take a delivery."""

    delivery: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The source cannot send a delivery again: what it held is somebody else's by now."""

    delivery: int


PARKED_BY_OPERATOR: Final = "An operator has parked it."


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkAsked:
    """An operator wants nothing more to be delivered."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeAsked:
    """Somebody wants the deliveries to go on.

    is_automatic: by the client's library, which does not know better than an operator.
    """

    is_automatic: bool


@dataclass(frozen=True, slots=True)
class TimePassed:
    """It may be `deadline_ms`."""


Event = CreditGiven | Loaded | Answered | Refused | Withdrawn | ParkAsked | ResumeAsked | TimePassed


# --- what is to be done about it ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Ask the source for the next messages: so many, or a single batch."""

    messages_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class StopLoading:
    """What was asked for is not wanted now."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send what was loaded, under this number."""

    delivery: int


@dataclass(frozen=True, slots=True)
class SendAgain:
    """Send what had this number before."""

    delivery: int


@dataclass(frozen=True, slots=True)
class TellParked:
    """Tell the client that it is parked."""


Effect = Load | StopLoading | Send | SendAgain | TellParked


class _Phase(Enum):
    FLOWING = 1
    WAITING = 2
    TRYING = 3
    PARKED = 4


class _Delivery:
    __slots__ = ("deadline_ms", "messages")

    def __init__(self, messages: int, deadline_ms: int) -> None:
        self.messages = messages
        self.deadline_ms = deadline_ms


class Push:
    """The machine. It has no credit at first."""

    def __init__(self, settings: PushSettings) -> None:
        self._settings = settings
        self._phase = _Phase.FLOWING
        # Of `WAITING` and `TRYING`: when it ends.
        self._phase_end_ms = 0
        self._is_loading = False
        # In the order of their numbers, and so of their deadlines.
        self._unanswered: dict[int, _Delivery] = {}
        self._next_delivery = 1
        self._is_parked_by_operator = False
        self.credit_messages = 0
        self.credit_bytes = 0
        self.in_flight_messages = 0
        """Sent and not answered."""
        self.delivered_messages = 0
        """Answered."""
        self.timeouts = 0
        self.strays = 0
        """Answers to what was never sent, or was answered before."""
        self.reason = ""
        """Why it is parked."""

    @property
    def state(self) -> State:
        if self._phase is _Phase.PARKED:
            return State.PARKED
        if self._phase is not _Phase.FLOWING:
            return State.TIMEOUT
        return State.ALIVE if self._has_credit else State.SLOW

    @property
    def is_parked_by_operator(self) -> bool:
        return self._is_parked_by_operator

    def awaits(self, delivery: int) -> bool:
        """Whether an answer to it would matter."""
        return delivery in self._unanswered

    @property
    def unanswered_count(self) -> int:
        return len(self._unanswered)

    @property
    def deadline_ms(self) -> int | None:
        """When `TimePassed` is due."""
        if self._phase is _Phase.PARKED:
            return None
        if self._phase is not _Phase.FLOWING:
            return self._phase_end_ms
        for delivery in self._unanswered.values():
            return delivery.deadline_ms
        return None

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take note of what happened. What is raised has changed nothing."""
        match event:
            case CreditGiven():
                return self._credit(event.messages, event.size_bytes)
            case Loaded():
                return self._loaded(event, now_ms)
            case Answered():
                return self._answered(event.delivery, now_ms)
            case Refused():
                return self._refused(event.delivery, now_ms)
            case Withdrawn():
                return self._withdrawn(event.delivery)
            case ParkAsked():
                self._is_parked_by_operator = True
                return self._park(event.reason)
            case ResumeAsked():
                return self._resume(event.is_automatic, now_ms)
            case TimePassed():
                return self._time_passed(now_ms)
            case _:
                assert_never(event)

    # --- deliveries ----------------------------------------------------------------------------

    @property
    def _has_credit(self) -> bool:
        return self.credit_messages > 0 and self.credit_bytes > 0

    def _credit(self, messages: int, size_bytes: int) -> list[Effect]:
        check_credit(self.credit_messages, self.credit_bytes, messages, size_bytes)
        self.credit_messages += messages
        self.credit_bytes += size_bytes
        return self._load()

    def _load(self) -> list[Effect]:
        """Ask for more, if more may be sent."""
        if (
            self._is_loading
            or self._phase is not _Phase.FLOWING
            or not self._has_credit
            or len(self._unanswered) >= self._settings.window
        ):
            return []
        self._is_loading = True
        bytes_max = min(self.credit_bytes, self._settings.delivery_bytes_max)
        return [Load(messages_max=self.credit_messages, bytes_max=bytes_max)]

    def _loaded(self, event: Loaded, now_ms: int) -> list[Effect]:
        assert self._is_loading, f"loaded {event}, and nothing was asked for"
        assert self._phase is _Phase.FLOWING, f"loaded {event} while {self._phase}"
        assert len(self._unanswered) < self._settings.window, len(self._unanswered)
        self._is_loading = False
        number = self._next_delivery
        self._next_delivery += 1
        self._unanswered[number] = _Delivery(event.messages, now_ms + self._settings.timeout_ms)
        self.in_flight_messages += event.messages
        self.credit_messages -= event.messages
        self.credit_bytes -= event.size_bytes
        return [Send(number), *self._load()]

    def _answered(self, number: int, now_ms: int) -> list[Effect]:
        delivery = self._forget(number)
        if delivery is None:
            self.strays += 1
            return []
        self.delivered_messages += delivery.messages
        if self._phase in (_Phase.WAITING, _Phase.TRYING):
            self._flow(now_ms)
        return self._load()

    def _refused(self, number: int, now_ms: int) -> list[Effect]:
        """It is as if the time for an answer were over."""
        if number not in self._unanswered:
            self.strays += 1
            return []
        match self._phase:
            case _Phase.FLOWING:
                return self._wait(now_ms)
            case _Phase.TRYING:
                return self._park(UNANSWERED)
            case _Phase.WAITING | _Phase.PARKED:
                return []
            case _:
                assert_never(self._phase)

    def _withdrawn(self, number: int) -> list[Effect]:
        if self._phase is _Phase.TRYING:
            # Its answer would show that the client lives: without one it is parked, or it would be
            # given more and more that it does not take.
            return []
        self._forget(number)
        return self._load()

    def _forget(self, number: int) -> _Delivery | None:
        delivery = self._unanswered.pop(number, None)
        if delivery is not None:
            self.in_flight_messages -= delivery.messages
        return delivery

    # --- without an answer ---------------------------------------------------------------------

    def _time_passed(self, now_ms: int) -> list[Effect]:
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return []
        match self._phase:
            case _Phase.FLOWING:
                return self._wait(now_ms)
            case _Phase.WAITING:
                return self._try(now_ms)
            case _Phase.TRYING:
                return self._park(UNANSWERED)
            case _Phase.PARKED:
                return []
            case _:
                assert_never(self._phase)

    def _wait(self, now_ms: int) -> list[Effect]:
        self.timeouts += 1
        self._phase = _Phase.WAITING
        self._phase_end_ms = now_ms + self._settings.retry_ms
        return self._stop_loading()

    def _try(self, now_ms: int) -> list[Effect]:
        """Send the oldest again: those behind it are on their way as long as it is."""
        for number in self._unanswered:
            self._phase = _Phase.TRYING
            self._phase_end_ms = now_ms + self._settings.timeout_ms
            return [SendAgain(number)]
        self._flow(now_ms)
        return self._load()

    def _park(self, reason: str) -> list[Effect]:
        self._phase = _Phase.PARKED
        self.reason = reason
        return [*self._stop_loading(), TellParked()]

    def _resume(self, is_automatic: bool, now_ms: int) -> list[Effect]:
        if self._phase is not _Phase.PARKED:
            return []
        if is_automatic and self._is_parked_by_operator:
            raise Parked(f"The delivery stays parked: {self.reason}")
        self._is_parked_by_operator = False
        self.reason = ""
        self._flow(now_ms)
        again: list[Effect] = [SendAgain(number) for number in self._unanswered]
        return again + self._load()

    def _flow(self, now_ms: int) -> None:
        """The client lives: what it has not answered has its whole time again."""
        self._phase = _Phase.FLOWING
        for delivery in self._unanswered.values():
            delivery.deadline_ms = now_ms + self._settings.timeout_ms

    def _stop_loading(self) -> list[Effect]:
        was_loading, self._is_loading = self._is_loading, False
        return [StopLoading()] if was_loading else []


def check_credit(has_messages: int, has_bytes: int, messages: int, size_bytes: int) -> None:
    """Raise InvalidCredit unless a stream that has so much may be given so much more."""
    if messages < 0 or size_bytes < 0 or not (messages or size_bytes):
        raise InvalidCredit(
            f"Credit of {messages} messages and {size_bytes} bytes makes no sense: give more than "
            f"nothing."
        )
    if (
        has_messages + messages > PUSH_CREDIT_MESSAGES_MAX
        or has_bytes + size_bytes > PUSH_CREDIT_BYTES_MAX
    ):
        raise InvalidCredit(
            f"With {messages} messages and {size_bytes} bytes more the stream's credit would be "
            f"beyond {PUSH_CREDIT_MESSAGES_MAX} messages or {PUSH_CREDIT_BYTES_MAX} bytes: give "
            f"less."
        )
