"""What the commands of the push scenarios mean.

    credit 100 4096        the client gives credit: messages, bytes
    load 10 1000           the source has what was asked for: messages, bytes
    answer 1 | refuse 1    the client answers a delivery
    withdrawn 1            the source has a delivery no more
    after 500              milliseconds pass, and the timer comes when it is due
    park | resume          an operator's
    resume automatic       the client library's
    show                   how the stream stands

Deliveries time out after 1000 ms and are sent again 200 ms later; the window is 3.
"""

from __future__ import annotations

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
    StopLoading,
    TellParked,
    TimePassed,
    Withdrawn,
)

SETTINGS = PushSettings(window=3, timeout_ms=1000, retry_ms=200, delivery_bytes_max=10_000)


class PushScript:
    def __init__(self) -> None:
        self._push = Push(SETTINGS)
        self._now_ms = 0

    def run(self, command: str) -> str:
        words = command.split()
        if words[0] == "show":
            return self._shown()
        if words[0] == "after":
            return self._after(int(words[1]))
        return self._told(self._event(words))

    def _event(self, words: list[str]) -> Event:
        match words:
            case ["credit", messages, size]:
                return CreditGiven(messages=int(messages), size_bytes=int(size))
            case ["load", messages, size]:
                return Loaded(messages=int(messages), size_bytes=int(size))
            case ["answer", delivery]:
                return Answered(int(delivery))
            case ["refuse", delivery]:
                return Refused(int(delivery))
            case ["withdrawn", delivery]:
                return Withdrawn(int(delivery))
            case ["park"]:
                return ParkAsked(reason="An operator has parked it.")
            case ["resume", *how]:
                return ResumeAsked(is_automatic=how == ["automatic"])
            case _:
                raise AssertionError(f"no such command: {words}")

    def _told(self, event: Event) -> str:
        effects = self._push.handle(event, self._now_ms)
        return "\n".join(_told(effect) for effect in effects) or "nothing"

    def _after(self, wait_ms: int) -> str:
        end_ms = self._now_ms + wait_ms
        told = []
        while (due_ms := self._push.deadline_ms) is not None and due_ms <= end_ms:
            self._now_ms = due_ms
            told.append(f"at {due_ms}: {self._told(TimePassed())}".replace("\n", ", "))
        self._now_ms = end_ms
        return "\n".join(told) or "nothing"

    def _shown(self) -> str:
        push = self._push
        shown = (
            f"{push.state}, {push.unanswered_count} unanswered with {push.in_flight_messages} "
            f"messages, credit {push.credit_messages} messages {push.credit_bytes} bytes, "
            f"{push.delivered_messages} delivered, {push.timeouts} timeouts, {push.strays} strays"
        )
        return f"{shown}: {push.reason}" if push.reason else shown


def _told(effect: Effect) -> str:
    match effect:
        case Load():
            return f"load up to {effect.messages_max} messages, {effect.bytes_max} bytes"
        case StopLoading():
            return "stop loading"
        case Send():
            return f"send {effect.delivery}"
        case SendAgain():
            return f"send {effect.delivery} again"
        case TellParked():
            return "tell the client that it is parked"
