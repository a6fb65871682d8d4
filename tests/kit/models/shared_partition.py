"""A shared group in a partition, as simply as it can be said: a state for each message, all of them
looked at each time.

The naive counterpart of `coordination.delivery.shared_partition`, for the property tests: it says
which messages a lease must give, who may settle what, and what a new leader knows. Not fast, and
nothing that the machine does is used here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

FREE, LEASED, DOUBT, WAITING, DYING, DONE = "free", "leased", "doubt", "waiting", "dying", "done"


@dataclass
class ModelMessage:
    """A message of the log, and where it stands."""

    offset: int
    key: int | None = None
    priority: int = 4
    expires_ms: int | None = None
    is_skipped: bool = False
    is_fed: bool = False
    state: str = FREE
    member: str = ""
    until_ms: int = 0
    attempts: int = 0
    is_doubtful: bool = False
    # Nobody can hand it out again, whoever leads: it is durably done, expired, or not there.
    is_gone: bool = False


@dataclass
class ShareModel:
    """The machine, told message by message."""

    lease_ms: int
    attempts_max: int
    is_ordered: bool
    messages: list[ModelMessage] = field(default_factory=list)
    ceiling: int = 0
    acknowledged: int = 0
    expired: int = 0
    dead: int = 0

    # --- questions -----------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """Behind the messages in front that are done, of those the log was read up to."""
        for message in self.messages:
            if message.state != DONE:
                return message.offset
        return len(self.messages)

    def is_next_of_key(self, message: ModelMessage) -> bool:
        if not self.is_ordered or message.key is None:
            return True
        return all(
            other.is_gone
            for other in self.messages[: message.offset]
            if other.key == message.key and not other.is_skipped
        )

    def leasable(self) -> list[ModelMessage]:
        """What a lease gives, in this order."""
        found = [
            message
            for message in self.messages[: self.ceiling]
            if message.state == FREE and message.is_fed and self.is_next_of_key(message)
        ]
        return sorted(found, key=lambda message: (-message.priority, message.offset))

    def may_settle(self, member: str, message: ModelMessage) -> bool:
        if message.state == LEASED:
            return message.member == member
        if message.state == DOUBT:
            return True
        # One that was in doubt, as long as it is handed out again to nobody.
        is_nobodys = message.state == FREE and message.is_doubtful
        return is_nobodys and (not message.is_fed or self.is_next_of_key(message))

    def count(self, state: str) -> int:
        return sum(message.state == state for message in self.messages)

    def next_ms(self) -> int | None:
        """When something must happen by itself."""
        times = [
            message.until_ms
            for message in self.messages
            if message.state in (LEASED, DOUBT, WAITING)
        ]
        times += [
            message.expires_ms
            for message in self.messages
            if message.expires_ms is not None
            and message.is_fed
            and message.state in (FREE, WAITING)
        ]
        return min(times, default=None)

    # --- changes -------------------------------------------------------------------------------

    def feed(self, end: int, now_ms: int) -> None:
        for message in self.messages[:end]:
            if message.is_fed:
                continue
            message.is_fed = True
            if message.is_skipped:
                message.state, message.is_gone = DONE, True
        self.pass_time(now_ms)
        for message in self.messages[:end]:
            # No former leader can have leased it, whoever was first in line.
            message.is_doubtful &= message.state == FREE and self.is_next_of_key(message)

    def pass_time(self, now_ms: int) -> None:
        """One thing after another, as they come to their time."""
        ends = [
            (message.until_ms, message.offset)
            for message in self.messages
            if message.state in (LEASED, DOUBT, WAITING)
        ]
        expiries = [
            (message.expires_ms, message.offset)
            for message in self.messages
            if message.expires_ms is not None
        ]
        for when_ms, offset in sorted(ends + expiries):
            message = self.messages[offset]
            if when_ms > now_ms:
                break
            if message.state in (LEASED, DOUBT, WAITING) and message.until_ms == when_ms:
                if message.state == LEASED:
                    self.fail(message, now_ms, 0)
                else:
                    self._free(message, now_ms, is_doubtful=message.state == DOUBT)
            self._expire(message, now_ms)

    def lease(self, member: str, messages_max: int, now_ms: int) -> list[tuple[int, int]]:
        """Offsets and attempts."""
        given = []
        for message in self.leasable()[:messages_max]:
            attempt = message.attempts + 1
            given.append((message.offset, max(2, attempt) if message.is_doubtful else attempt))
            message.is_doubtful = False
            message.state, message.member = LEASED, member
            message.until_ms = now_ms + self.lease_ms
        return given

    def acknowledge(self, message: ModelMessage) -> None:
        message.state = DONE
        self.acknowledged += 1

    def release(self, message: ModelMessage, now_ms: int, delay_ms: int) -> None:
        doubt_ms = message.until_ms if message.state == DOUBT else 0
        until_ms = max(now_ms + delay_ms, doubt_ms)
        if until_ms > now_ms:
            message.state, message.until_ms = WAITING, until_ms
            message.is_doubtful = False
            self._expire(message, now_ms)
        else:
            self._free(message, now_ms)

    def extend(self, message: ModelMessage, member: str, now_ms: int) -> None:
        if message.state == DOUBT:
            # Perhaps another's.
            message.until_ms = max(message.until_ms, now_ms + self.lease_ms)
            return
        message.state, message.member = LEASED, member
        message.until_ms = now_ms + self.lease_ms
        message.is_doubtful = False

    def reject(self, message: ModelMessage) -> None:
        message.attempts += 1
        message.state = DYING

    def fail(self, message: ModelMessage, now_ms: int, backoff_ms: int) -> None:
        message.attempts += 1
        if message.attempts >= self.attempts_max:
            message.state = DYING
        else:
            self.release(message, now_ms, backoff_ms)

    def bury(self, message: ModelMessage) -> None:
        message.state = DONE
        self.dead += 1

    def forget_before(self, offset: int) -> None:
        for message in self.messages[:offset]:
            # What is done already becomes durable in its time; that costs no more than a moment.
            message.is_gone |= message.state != DONE
            message.state, message.is_fed = DONE, True

    def _free(self, message: ModelMessage, now_ms: int, *, is_doubtful: bool = False) -> None:
        is_in_line = message.is_fed and not self.is_next_of_key(message)
        message.state, message.is_doubtful = FREE, is_doubtful and not is_in_line
        self._expire(message, now_ms)

    def _expire(self, message: ModelMessage, now_ms: int) -> None:
        """If it is time."""
        is_expired = message.expires_ms is not None and message.expires_ms <= now_ms
        if is_expired and message.is_fed and message.state in (FREE, WAITING):
            message.state, message.is_gone = DONE, True
            self.expired += 1

    # --- leaders -------------------------------------------------------------------------------

    def snapshot(self, ceiling: int) -> ShareModel:
        saved = copy.deepcopy(self)
        saved.ceiling = ceiling
        return saved

    def durable(self, saved: ShareModel) -> None:
        self.ceiling = max(self.ceiling, saved.ceiling)
        for message, then in zip(self.messages, saved.messages, strict=False):
            message.is_gone |= then.state == DONE

    def taken_over(self, log: list[ModelMessage], now_ms: int) -> ShareModel:
        """What the next leader makes of this, which was durable, with its log."""
        new = copy.deepcopy(self)
        new.messages += copy.deepcopy(log[len(new.messages) :])
        start = new.start
        for message in new.messages:
            message.is_doubtful = False
            if message.state == DONE:
                message.is_gone, message.is_fed = True, message.offset < start
                continue
            message.is_fed = False
            if message.state == DYING:
                continue
            if message.offset < self.ceiling:
                waits_ms = message.until_ms if message.state in (WAITING, DOUBT) else 0
                message.until_ms = max(now_ms + self.lease_ms, -(-waits_ms // 1000) * 1000)
                message.state = DOUBT
            else:
                message.state = FREE
        return new
