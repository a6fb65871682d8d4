"""What was asked of topics at each broker of a cluster, what was answered, and what must hold.

The promise: creations and deletions of a name take place one after another, each between its call
and its answer, whichever brokers are asked (they are linearizable). Looks are not: each is of one
broker's image, which may lag behind the others', but never goes back, and never behind what that
broker itself has answered. Nothing is said of brokers that die meanwhile, and not who asks.
The invariant: a topic is told apart from others of its name by its id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Final

NONE: Final = ""
# There is one, and nobody was told its id.
SOME: Final = "?"
# Of those that explain the answers, so many are held against what was seen.
ORDERS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One call that was answered. A broker's answers come one after another."""

    kind: str
    """`create`, `delete` or `look`."""
    name: str
    broker: int
    began_s: float
    ended_s: float
    topic_id: str = NONE
    """Which was made, or seen."""
    is_refused: bool = False
    """There was one already, or there was none to delete."""
    is_open: bool = False
    """It was not said whether it took place: it may have, at any time after its call."""


class TopicHistory:
    """Threads may record at the same time."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._lock = threading.Lock()

    def note(
        self,
        kind: str,
        name: str,
        broker: int,
        began_s: float,
        topic_id: str = NONE,
        *,
        is_refused: bool = False,
        is_open: bool = False,
    ) -> None:
        with self._lock:
            self.asked.append(
                Asked(
                    kind=kind,
                    name=name,
                    broker=broker,
                    began_s=began_s,
                    ended_s=time.monotonic(),
                    topic_id=topic_id,
                    is_refused=is_refused,
                    is_open=is_open,
                )
            )

    def check(self) -> None:
        for name in sorted({one.name for one in self.asked}):
            about = [one for one in self.asked if one.name == name]
            check_one(name, about)


def check_one(name: str, about: Sequence[Asked]) -> None:
    """Of one name. Several orders may explain the answers, and not all of them what was seen."""
    writes = [one for one in about if one.kind != "look"]
    for attempt in range(ORDERS_MAX):
        order = linearized(writes, Random(attempt))
        assert order is not None, f"no order explains what was answered of {name}: {about}"
        try:
            check_looks(about, order)
            return
        except AssertionError:
            if attempt == ORDERS_MAX - 1:
                raise


def linearized(writes: Sequence[Asked], chance: Random) -> list[Asked] | None:
    """An order of the creations and deletions of one name that explains every answer and in which
    nothing comes before what was answered before it was asked (Wing and Gong)."""
    left = frozenset(range(len(writes)))
    tried: set[tuple[frozenset[int], str]] = set()
    # What is left, what there is, and the order up to there.
    stack: list[tuple[frozenset[int], str, tuple[int, ...]]] = [(left, NONE, ())]
    while stack:
        left, topic_id, order = stack.pop()
        if all(writes[number].is_open for number in left):
            return [writes[number] for number in order]
        if (left, topic_id) in tried:
            continue
        tried.add((left, topic_id))
        first_end_s = min(
            inf if writes[number].is_open else writes[number].ended_s for number in left
        )
        for number in chance.sample(sorted(left), len(left)):
            one = writes[number]
            exists = topic_id != NONE
            fits = exists == (one.is_refused if one.kind == "create" else not one.is_refused)
            if one.began_s <= first_end_s and fits:
                after = topic_id if one.is_refused else one.topic_id
                stack.append((left - {number}, after, (*order, number)))
    return None


def check_looks(about: Iterable[Asked], order: Sequence[Asked]) -> None:
    """No broker shows less than it showed or answered before."""
    changes = [one for one in order if not one.is_refused]
    # What there was after each change, the first of which is that there was nothing.
    states = [NONE, *(one.topic_id for one in changes)]
    reached: dict[int, int] = {}
    for one in sorted(about, key=lambda one: one.ended_s):
        at = reached.get(one.broker, 0)
        if one.kind == "look":
            # Not later than it was seen.
            seen = [
                place
                for place in range(at, len(states))
                if is_shown(states[place], one.topic_id)
                and (place == 0 or changes[place - 1].began_s <= one.ended_s)
            ]
            assert seen, f"broker {one.broker} goes back, or shows what never was: {one}; {order}"
            reached[one.broker] = seen[0]
        elif not one.is_refused and not one.is_open:
            reached[one.broker] = max(at, changes.index(one) + 1)


def is_shown(state: str, seen: str) -> bool:
    return state == seen or (state == SOME and seen != NONE)
