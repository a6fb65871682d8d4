"""Push streams under any order of events: nothing beyond credit and window, nothing while parked,
every delivery answered or sent again until it is (R-DEL-6, R-DEL-8)."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.coordination.delivery.push import (
    Answered,
    CreditGiven,
    Effect,
    Event,
    Load,
    Loaded,
    ParkAsked,
    Push,
    PushSettings,
    Refused,
    ResumeAsked,
    Send,
    SendAgain,
    State,
    StopLoading,
    TellParked,
    TimePassed,
    Withdrawn,
)
from penstock.model.errors import InvalidCredit, Parked
from penstock.model.limits import PUSH_CREDIT_BYTES_MAX, PUSH_CREDIT_MESSAGES_MAX

SETTINGS = PushSettings(window=4, timeout_ms=100, retry_ms=30, delivery_bytes_max=1_000)


class PushStreams(RuleBasedStateMachine):
    """A model that counts for itself what the machine says it did."""

    def __init__(self) -> None:
        super().__init__()
        self.push = Push(SETTINGS)
        self.now_ms = 0
        self.credit_messages = 0
        self.credit_bytes = 0
        self.wanted: Load | None = None
        self.unanswered: dict[int, int] = {}
        self.sent: list[int] = []
        self.delivered = 0

    def tell(self, event: Event) -> list[Effect]:
        was_parked = self.push.state is State.PARKED
        effects = self.push.handle(event, self.now_ms)
        for effect in effects:
            match effect:
                case Load():
                    assert self.wanted is None
                    assert self.push.state in (State.ALIVE, State.SLOW)
                    assert 1 <= effect.messages_max <= self.credit_messages
                    assert 1 <= effect.bytes_max <= self.credit_bytes
                    self.wanted = effect
                case StopLoading():
                    assert self.wanted is not None
                    self.wanted = None
                case Send():
                    assert not was_parked
                    assert effect.delivery == len(self.sent) + 1
                    self.sent.append(effect.delivery)
                case SendAgain():
                    assert effect.delivery in self.unanswered
                    assert not was_parked or isinstance(event, ResumeAsked)
                case TellParked():
                    assert self.push.state is State.PARKED
        return effects

    @rule(messages=st.integers(-5, 500), size=st.integers(-5, 5_000))
    def give_credit(self, messages: int, size: int) -> None:
        self._give_credit(messages, size)

    @rule(data=st.data())
    def give_too_much(self, data: st.DataObject) -> None:
        beyond = PUSH_CREDIT_MESSAGES_MAX - self.credit_messages + 1
        messages = data.draw(st.integers(beyond, 2**63 - 1))
        with pytest.raises(InvalidCredit):
            self.tell(CreditGiven(messages=messages, size_bytes=1))

    def _give_credit(self, messages: int, size: int) -> None:
        is_valid = messages >= 0 and size >= 0 and messages + size > 0
        is_valid &= self.credit_messages + messages <= PUSH_CREDIT_MESSAGES_MAX
        is_valid &= self.credit_bytes + size <= PUSH_CREDIT_BYTES_MAX
        if is_valid:
            self.credit_messages += messages
            self.credit_bytes += size
        try:
            self.tell(CreditGiven(messages=messages, size_bytes=size))
        except InvalidCredit:
            assert not is_valid

    @precondition(lambda self: self.wanted is not None)
    @rule(messages=st.integers(0, 600), size=st.integers(0, 3_000))
    def load(self, messages: int, size: int) -> None:
        self.wanted = None
        # Of the machine's own count: it is told before the effects are looked at.
        self.credit_messages -= messages
        self.credit_bytes -= size
        self.unanswered[len(self.sent) + 1] = messages
        effects = self.tell(Loaded(messages=messages, size_bytes=size))
        assert isinstance(effects[0], Send)

    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.sent) + 2))
        strays = self.push.strays
        messages = self.unanswered.pop(number, None)
        self.tell(Answered(number))
        self.delivered += messages or 0
        assert self.push.strays == strays + (messages is None)

    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        self.tell(Refused(data.draw(st.integers(0, len(self.sent) + 2))))

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.unanswered)))
        self.tell(Withdrawn(number))
        if not self.push.awaits(number):
            del self.unanswered[number]

    @rule(wait_ms=st.integers(1, 150))
    def wait(self, wait_ms: int) -> None:
        self.now_ms += wait_ms
        self.tell(TimePassed())

    @rule()
    def park(self) -> None:
        self.tell(ParkAsked(reason="because"))

    @rule(is_automatic=st.booleans())
    def resume(self, is_automatic: bool) -> None:
        was_parked = self.push.state is State.PARKED
        before = list(self.unanswered)
        try:
            effects = self.tell(ResumeAsked(is_automatic=is_automatic))
        except Parked:
            assert is_automatic
            assert self.push.is_parked_by_operator
            return
        again = [effect.delivery for effect in effects if isinstance(effect, SendAgain)]
        assert again == (before if was_parked else [])

    @rule()
    def come_alive(self) -> None:
        """A client that answers everything, resumes and gives credit gets whatever there is."""
        for number in list(self.unanswered):
            self.delivered += self.unanswered.pop(number)
            self.tell(Answered(number))
        self.tell(ResumeAsked(is_automatic=False))
        if self.push.state is State.TIMEOUT:  # with nothing left to send again
            self.wait(SETTINGS.retry_ms)
        needed = (max(1, 1 - self.credit_messages), max(1, 1 - self.credit_bytes))
        self._give_credit(*needed)
        assert self.wanted is not None
        assert self.push.state is State.ALIVE

    @invariant()
    def counts_agree(self) -> None:
        push = self.push
        assert push.credit_messages == self.credit_messages
        assert push.credit_bytes == self.credit_bytes
        assert push.unanswered_count == len(self.unanswered) <= SETTINGS.window
        assert push.in_flight_messages == sum(self.unanswered.values())
        assert push.delivered_messages == self.delivered

    @invariant()
    def somebody_is_awaited(self) -> None:
        """A stream that is not parked never waits for nothing: there is a timer, a load, or a
        client that has given no credit."""
        push = self.push
        if push.state in (State.ALIVE, State.TIMEOUT):
            assert self.wanted is not None or push.deadline_ms is not None
        if push.state is State.PARKED:
            assert self.wanted is None
            assert push.deadline_ms is None
            assert push.reason


TestPushStreams = PushStreams.TestCase
TestPushStreams.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
