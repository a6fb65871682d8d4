"""How dead letters go back where they came from, and are marked as gone (R-DEL-9).

Not which ones: that is `dead_letters`'. The invariant: a letter is marked as gone only when its
message is acknowledged in the topic it was put back to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from time import time_ns
from typing import Final, Literal

from penstock.client.concurrency.tasks import all_of
from penstock.client.connection.routes import Routes
from penstock.client.producing.producer import Producer
from penstock.client.producing.receipts import Receipt
from penstock.model.dead_letter import REDRIVES_MAX, DeadLetter, redrive_headers
from penstock.model.errors import InvalidRequest, PenstockError
from penstock.model.limits import MIB

LetterResult = Literal["redriven", "dropped", "guarded", "failed"]
"""guarded: it was redriven twice already and died again, and nobody insisted."""

# So many are put back before they are marked as gone, and no more bytes than this.
WINDOW_LETTERS: Final = 256
WINDOW_BYTES: Final = 8 * MIB
# With a rate a window takes at most this long.
_WINDOW_S: Final = 1.0
# What a summary keeps of letters that could not be put back.
_PROBLEMS_KEPT: Final = 100
RATE_MAX: Final = 1_000_000.0

GUARDED: Final = (
    f"It was redriven {REDRIVES_MAX} times and died again: redrive it with force if it is to go "
    "round once more."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterOutcome:
    """What became of one letter, or would."""

    letter: DeadLetter
    outcome: LetterResult
    problem: str = ""


@dataclass(slots=True, kw_only=True)
class LetterSummary:
    """What became of letters, or would."""

    is_dry_run: bool = False
    redriven: int = 0
    dropped: int = 0
    guarded: int = 0
    failed: int = 0
    problems: list[LetterOutcome] = field(default_factory=list)
    """The first of those that were guarded or failed."""
    missing: list[str] = field(default_factory=list)
    """Ids that were asked for and are not there."""

    @property
    def total(self) -> int:
        return self.redriven + self.dropped + self.guarded + self.failed

    def add(self, one: LetterOutcome) -> None:
        setattr(self, one.outcome, getattr(self, one.outcome) + 1)
        if one.problem and len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(one)


OnOutcome = Callable[[LetterOutcome], None]


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A letter, and the partition of the dead-letter topic that has it."""

    letter: DeadLetter
    partition: int


class Redriving:
    """One redrive."""

    def __init__(self, routes: Routes, letters_topic: str, to_topic: str | None) -> None:
        self._routes = routes
        self._letters_topic = letters_topic
        self._to_topic = to_topic
        # How many partitions topics have; or why nothing can be put there.
        self._topics: dict[str, int | str] = {}

    async def problem(self, letter: DeadLetter) -> str:
        """Why it cannot be put back, as far as can be told before."""
        topic = self._to_topic or letter.topic
        if topic not in self._topics:
            try:
                # Not created: a topic that was deleted is not made anew by its dead letters.
                route = await self._routes.topic(topic, refresh=True)
                self._topics[topic] = route.partition_count
            except PenstockError as error:
                if error.retriable:
                    raise
                self._topics[topic] = error.message
        found = self._topics[topic]
        return found if isinstance(found, str) else ""

    async def put_back(
        self,
        producer: Producer,
        window: list[KeptLetter],
        pace: Pace,
        tell: Callable[[LetterOutcome], None],
    ) -> None:
        """Publish them, and mark those as gone that were acknowledged."""
        receipts = []
        for kept in window:
            await pace.wait()
            receipts.append(await self._submit(producer, kept.letter))
        results = await asyncio.gather(*receipts, return_exceptions=True)
        gone: list[KeptLetter] = []
        failure: BaseException | None = None
        for kept, result in zip(window, results, strict=True):
            if not isinstance(result, BaseException):
                gone.append(kept)
            elif isinstance(result, PenstockError) and not result.retriable:
                tell(LetterOutcome(letter=kept.letter, outcome="failed", problem=result.message))
            else:
                failure = result  # of all letters, sooner or later
        await mark_gone(
            producer,
            self._letters_topic,
            gone,
            lambda kept: tell(LetterOutcome(letter=kept.letter, outcome="redriven")),
        )
        if failure is not None:
            raise failure

    async def _submit(self, producer: Producer, letter: DeadLetter) -> asyncio.Future[Receipt]:
        topic = self._to_topic or letter.topic
        count = self._topics[topic]
        assert isinstance(count, int), f"{topic} was found before"
        is_there = self._to_topic is None and letter.partition < count
        headers = redrive_headers(letter, time_ns() // 1_000_000)
        try:
            return await producer.submit(
                topic,
                letter.value,
                letter.key,
                headers=headers,
                partition=letter.partition if is_there else None,
            )
        except PenstockError as error:  # told like those that the broker refuses
            refused: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused


async def mark_gone(
    producer: Producer, topic: str, window: list[KeptLetter], tell: Callable[[KeptLetter], None]
) -> None:
    await all_of(
        producer.publish(topic, None, kept.letter.id.encode(), partition=kept.partition)
        for kept in window
    )
    for kept in window:
        tell(kept)


class Pace:
    """Lets so many through in a second, one after another."""

    def __init__(self, rate_per_s: float | None) -> None:
        if rate_per_s is not None and not 0 < rate_per_s <= RATE_MAX:
            raise InvalidRequest(
                f"The rate is {rate_per_s!r} messages a second: give more than 0 and at most "
                f"{RATE_MAX:,.0f}."
            )
        self._interval_s = 0.0 if rate_per_s is None else 1 / rate_per_s
        self._next_s = 0.0
        self.window_letters = WINDOW_LETTERS
        if rate_per_s is not None:
            self.window_letters = max(min(int(rate_per_s * _WINDOW_S), WINDOW_LETTERS), 1)

    async def wait(self) -> None:
        if not self._interval_s:
            return
        now_s = asyncio.get_running_loop().time()
        # What was not used is not made up for.
        self._next_s = max(self._next_s, now_s)
        if self._next_s > now_s:
            await asyncio.sleep(self._next_s - now_s)
        self._next_s += self._interval_s
