"""A producer that keeps five batches on their way, and a log that loses its end again and again.

R-PRO-2: what it repeats is there once, and it is told where. Whoever leads recognises batches by
what it remembers of the producer, which is cut off together with the log.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from penstock.coordination.producers.state import ProducerState
from penstock.model.errors import OutOfOrderSequence, UnknownProducer
from tests.kit.runs.tiers import seeds

SEEDS = 800
PARTS = 4
STEPS = 80
# As Kafka's producers have it, and as ours has.
ON_THE_WAY_MAX = 5
WEIGHTS = {"send": 6, "repeat": 2, "commit": 3, "hear": 3, "other": 1, "cut": 1.5}


@dataclass(frozen=True)
class Batch:
    base_sequence: int
    count: int
    producer_id: int = 7
    producer_epoch: int = 0

    @property
    def last_sequence(self) -> int:
        return self.base_sequence + self.count - 1


class Logged(NamedTuple):
    """In the log. None: somebody else's."""

    offset: int
    batch: Batch | None


class Story:
    """One producer, and a copy that leads whenever it is written to."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log: list[Logged] = []
        self.next_offset = 0
        self.committed = 0
        self.state = ProducerState()
        # Those that the producer has not heard of, the earliest first.
        self.unanswered: list[Batch] = []
        self.next_sequence = 0

    def step(self) -> None:
        [name] = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        getattr(self, name)()

    def send(self) -> None:
        if len(self.unanswered) < ON_THE_WAY_MAX:
            batch = Batch(self.next_sequence, self.random.choice((1, 1, 3)))
            self.next_sequence += batch.count
            self.unanswered.append(batch)
            self._deliver(batch)

    def repeat(self) -> None:
        """All of them, since a connection was lost, or another leads."""
        for batch in self.unanswered:
            self._deliver(batch)

    def commit(self) -> None:
        ends = [each.offset for each in self.log if each.offset > self.committed]
        self.committed = self.random.choice([*ends, self.next_offset])

    def hear(self) -> None:
        """The answers to the earliest arrive; any others are lost."""
        for _ in range(self.random.randint(1, ON_THE_WAY_MAX)):
            if self.unanswered and 0 <= self._place(self.unanswered[0]) < self.committed:
                self.unanswered.pop(0)

    def other(self) -> None:
        self._append(None)

    def cut(self) -> None:
        """Another led, which did not have it: of what was not committed anything may go."""
        offset = self.random.choice(
            [self.next_offset, *(each.offset for each in self.log if each.offset >= self.committed)]
        )
        self.log = [each for each in self.log if each.offset < offset]
        self.next_offset = offset
        before = self.state.before(offset) if offset else None
        self.state = self._recovered() if before is None else before

    def _recovered(self) -> ProducerState:
        state = ProducerState()
        for offset, batch in self.log:
            if batch is not None:
                state.record_copy(batch, offset, 0)
        return state

    def _deliver(self, batch: Batch) -> None:
        try:
            found = self.state.check(batch)
        except (OutOfOrderSequence, UnknownProducer):
            # One before it is to be sent again first; that it is not there itself is the point.
            assert self._place(batch) < 0, batch
            return
        assert found == (None if self._place(batch) < 0 else self._place(batch)), batch
        if found is None:
            self.state.record(batch, self.next_offset, 0)
            self._append(batch)

    def _append(self, batch: Batch | None) -> None:
        self.log.append(Logged(self.next_offset, batch))
        self.next_offset += 1 if batch is None else batch.count

    def _place(self, batch: Batch) -> int:
        """-1: it is not in the log."""
        return next((offset for offset, logged in self.log if logged == batch), -1)


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_repeated_is_found_with_its_place_whatever_was_cut_off(part: int) -> None:
    for seed in seeds(SEEDS, part, PARTS):
        story = Story(seed)
        try:
            for _ in range(STEPS):
                story.step()
            for _ in range(2):
                story.repeat()
            sequences = [batch.base_sequence for _, batch in story.log if batch is not None]
            assert sequences == sorted(set(sequences)), "each once, in order"
            assert all(story._place(batch) >= 0 for batch in story.unanswered), "all are there"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
