"""Leases of a shared group under random members, crashes and lost writes, beside a naive model.

R-DEL-3: each message is with one member at a time, and acknowledged ones with nobody ever again.
R-DEL-11: messages of one key one after another, whoever leads.

Seeds rather than hypothesis: what goes wrong here needs some ten steps of the right kinds, which a
weighted choice finds far more often.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from penstock.coordination.delivery.shared_partition import SharePartition, Snapshot
from penstock.coordination.delivery.shared_settings import Settlement, ShareSettings
from penstock.coordination.delivery.window.message_details import MessageDetails
from penstock.model.errors import UnknownLease
from tests.kit.models.shared_partition import (
    DONE,
    DOUBT,
    DYING,
    FREE,
    LEASED,
    WAITING,
    ModelMessage,
    ShareModel,
)
from tests.kit.runs.tiers import seeds

SEEDS = 400
PARTS = 4
STEPS = 60
WEIGHTS = {
    "append": 4,
    "feed": 5,
    "forget": 0.3,
    "lease": 6,
    "settle": 12,
    "lose": 1,
    "wait": 2,
    "bury": 2,
    "change_limit": 0.5,
    "save": 4,
    "become_durable": 4,
    "lose_write": 0.5,
    "change_leader": 0.7,
}


class Shares:
    """One partition and its leaders, one after another; three members, who may lie."""

    def __init__(self, seed: int, *, is_ordered: bool, is_plain: bool) -> None:
        self.random = random.Random(seed)
        self.is_plain = is_plain
        self.settings = ShareSettings(
            lease_ms=1_000,
            attempts_max=3,
            backoff_ms=100,
            backoff_ms_max=150,
            is_ordered_by_key=is_ordered,
            window_max=24,
        )
        self.now_ms = 1_000_000
        self.log: list[ModelMessage] = []
        self.log_start = 0
        self.machine = SharePartition.fresh(0, self.settings)
        self.model = ShareModel(1_000, 3, is_ordered)
        self.saving: tuple[Snapshot, ShareModel] | None = None
        self.saved = (self.machine.snapshot(), self.model.snapshot(0))
        # What outlives leaders: until when each message is with somebody, and what may not return.
        self.held_ms: dict[int, int] = {}
        self.answered: set[int] = set()

    def step(self) -> None:
        [name] = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        getattr(self, name)()
        self.check()

    def member(self) -> str:
        return self.random.choice("abc")

    # --- the log -------------------------------------------------------------------------------

    def append(self) -> None:
        for _ in range(self.random.randint(1, 12)):
            message = ModelMessage(len(self.log))
            if not self.is_plain:
                ttl_ms = self.random.choice((None, None, None, 0, 500, 5_000))
                message.key = self.random.choice((None, 1, 1, 2))
                message.priority = self.random.choice((4, 4, 4, 9, 0))
                message.expires_ms = None if ttl_ms is None else self.now_ms + ttl_ms
                message.is_skipped = self.random.random() < 0.2
            self.log.append(message)
            self.model.messages.append(ModelMessage(**vars(message)))

    def feed(self) -> None:
        first = self.machine.wanted
        if first is None or first >= len(self.log):
            return
        assert first >= self.log_start
        window_end = self.machine.start + self.settings.window_max
        end = min(first + self.random.randint(1, 30), len(self.log))
        offered = self.log[first:end]
        self.machine.offer(
            first,
            end,
            self.now_ms,
            skipped=[(each.offset, each.offset + 1) for each in offered if each.is_skipped],
            details=[
                MessageDetails(each.offset, each.key, each.priority, each.expires_ms)
                for each in offered
                if not each.is_skipped
                and (each.key, each.priority, each.expires_ms) != (None, 4, None)
            ],
        )
        # Or beyond, where the next are done already.
        assert self.machine.window.fed >= min(end, window_end)
        self.model.feed(self.machine.window.fed, self.now_ms)

    def forget(self) -> None:
        offset = min(self.machine.start + self.random.randint(1, 10), len(self.log))
        self.log_start = max(self.log_start, offset)
        self.machine.forget_before(offset)
        self.model.forget_before(offset)

    # --- members -------------------------------------------------------------------------------

    def lease(self, messages_max: int | None = None) -> None:
        member, messages = self.member(), messages_max or self.random.randint(1, 15)
        self.model.pass_time(self.now_ms)
        leases = self.machine.lease(member, messages, self.now_ms)
        given = [
            (offset, lease.attempt)
            for lease in leases
            for offset in range(lease.first, lease.last + 1)
        ]
        assert given == self.model.lease(member, messages, self.now_ms)
        for offset, _ in given:
            assert offset < self.saved[0].ceiling, "above the durable ceiling"
            assert offset not in self.answered, "acknowledged before"
            assert self.held_ms.get(offset, 0) <= self.now_ms, "with somebody else"
            self.held_ms[offset] = self.now_ms + self.settings.lease_ms

    def settle(self) -> None:
        self.model.pass_time(self.now_ms)
        member, length = self.member(), self.random.choice((1, 1, 2, self.random.randint(1, 8)))
        ahead = self.random.choice((0, 0, 1, 2, self.random.randint(-2, 24)))
        first = max(0, self.model.start + ahead)
        kind = self.random.choice((*Settlement, Settlement.ACKNOWLEDGE))
        delay_ms = self.random.choice((0, 0, 700, 2_500))
        jitter = self.random.choice((0.0, 0.5, 0.99))
        self._settle(member, first, length, kind, delay_ms, jitter)

    def _settle(
        self, member: str, first: int, length: int, kind: Settlement, delay_ms: int, jitter: float
    ) -> None:
        chosen = self.model.messages[first : first + length]
        is_held = len(chosen) == length and all(
            self.model.may_settle(member, message) for message in chosen
        )
        last, now_ms = first + length - 1, self.now_ms
        try:
            self.machine.settle(member, first, last, kind, now_ms, delay_ms=delay_ms, jitter=jitter)
        except UnknownLease:
            assert not is_held
            return
        assert is_held
        for message in chosen:
            self.held_ms.pop(message.offset, None)
            match kind:
                case Settlement.ACKNOWLEDGE:
                    self.model.acknowledge(message)
                case Settlement.RELEASE:
                    self.model.release(message, now_ms, delay_ms)
                case Settlement.REJECT:
                    self.model.reject(message)
                case Settlement.EXTEND:
                    self.model.extend(message, member, now_ms)
                    self.held_ms[message.offset] = now_ms + self.settings.lease_ms
                case Settlement.FAIL:
                    whole_ms = 100 if message.attempts == 0 else 150
                    self.model.fail(message, now_ms, (whole_ms + int(whole_ms * jitter)) // 2)
                case Settlement.ABANDON:
                    self.model.fail(message, now_ms, 0)

    def lose(self) -> None:
        member = self.member()
        self.model.pass_time(self.now_ms)
        self.machine.drop_member(member, self.now_ms)
        for message in self.model.messages:
            if message.state == LEASED and message.member == member:
                self.model.fail(message, self.now_ms, 0)
                self.held_ms.pop(message.offset, None)

    def change_limit(self) -> None:
        self.model.attempts_max = self.random.randint(2, 4)
        self.settings = replace(self.settings, attempts_max=self.model.attempts_max)
        self.machine.settings = self.settings

    def wait(self, passed_ms: int | None = None) -> None:
        self.now_ms += passed_ms or self.random.choice((1, 49, 100, 500, 1_000, 3_000))
        self.machine.expire(self.now_ms)
        self.model.pass_time(self.now_ms)

    # --- the dead ------------------------------------------------------------------------------

    def bury(self) -> None:
        messages, is_written = self.random.randint(1, 5), self.random.random() < 0.7
        expected = [each for each in self.model.messages if each.state == DYING]
        taken = self.machine.take_dead(messages)
        assert len(taken) == min(messages, len(expected))
        for offset, attempts, reason in taken:
            message = self.model.messages[offset]
            assert message in expected
            assert attempts == message.attempts
            assert reason
            if is_written:
                self.machine.buried(offset)
                self.model.bury(message)
            else:
                self.machine.not_buried(offset, self.now_ms)
                self.machine.expire(self.now_ms)

    # --- leaders -------------------------------------------------------------------------------

    def save(self) -> None:
        if self.saving is None:
            snapshot = self.machine.snapshot()
            self.saving = (snapshot, self.model.snapshot(snapshot.ceiling))

    def become_durable(self) -> None:
        if self.saving is not None:
            self.machine.durable(self.saving[0])
            self.model.durable(self.saving[1])
            self._answer(self.saving)

    def lose_write(self) -> None:
        self.saving = None

    def change_leader(self) -> None:
        """A write that is on its way is durable, or is not; the old leader does not hear of it."""
        if self.saving is not None and self.random.random() < 0.5:
            self._answer(self.saving)
        self.saving = None
        snapshot, model = self.saved
        end = len(self.log)
        self.machine = SharePartition.restore(snapshot.state, self.settings, self.now_ms, end)
        self.model = model.taken_over(self.log, self.now_ms)
        self.model.attempts_max = self.settings.attempts_max
        self.machine.forget_before(self.log_start)
        self.model.forget_before(self.log_start)

    def _answer(self, saved: tuple[Snapshot, ShareModel]) -> None:
        self.saved, self.saving = saved, None
        self.answered.update(each.offset for each in saved[1].messages if each.state == DONE)

    # --- always --------------------------------------------------------------------------------

    def check(self) -> None:
        self.machine.check()
        counts, model = self.machine.counts(), self.model
        runs = self.machine.window.runs
        assert self.machine.start == model.start
        assert counts.leased == model.count(LEASED)
        assert counts.in_doubt == model.count(DOUBT)
        assert counts.waiting == model.count(WAITING)
        assert counts.dying == model.count(DYING)
        unread = max(0, len(self.log) - runs.end)
        assert counts.available + counts.blocked == model.count(FREE) - unread
        assert counts.acknowledged_total == model.acknowledged
        assert counts.dead_total == model.dead
        assert counts.expired_total == model.expired
        assert self.machine.lag(len(self.log)) == len(self.log) - model.count(DONE)
        is_ready = self.machine.window.ready.next() is not None
        assert is_ready is bool(model.leasable())
        next_ms, deadline_ms = model.next_ms(), self.machine.deadline_ms
        assert next_ms is None or (deadline_ms is not None and deadline_ms <= next_ms)

    def finish(self) -> None:
        """Whatever happened, all messages are handed out until they are done."""
        for _ in range(100):
            self.feed()
            self.lease(15)
            for message in self.model.messages:
                if message.state == LEASED:
                    settled = (message.member, message.offset, 1, Settlement.ACKNOWLEDGE, 0, 0.0)
                    self._settle(*settled)
            self.bury()
            self.lose_write()
            self.save()
            self.become_durable()
            self.wait(1_000)
            if self.machine.start == len(self.log):
                return
        raise AssertionError(list(self.machine.window.runs))


def run(seed: int, *, is_ordered: bool, is_plain: bool) -> None:
    shares = Shares(seed, is_ordered=is_ordered, is_plain=is_plain)
    try:
        for _ in range(STEPS):
            shares.step()
        shares.finish()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("part", range(PARTS))
def test_plain_messages(part: int) -> None:
    """R-DEL-3."""
    for seed in seeds(SEEDS, part, PARTS):
        run(seed, is_ordered=False, is_plain=True)


@pytest.mark.parametrize("part", range(PARTS))
def test_priorities_and_expiry(part: int) -> None:
    """R-DEL-3: higher priorities first; what has expired is never handed out."""
    for seed in seeds(SEEDS, part, PARTS):
        run(seed, is_ordered=False, is_plain=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_ordered_by_key(part: int) -> None:
    """R-DEL-11."""
    for seed in seeds(SEEDS, part, PARTS):
        run(seed, is_ordered=True, is_plain=False)
