"""Messages that are asked for: one question waits at each partition's leader.

Not what is asked, nor what comes of it: a feed knows. The invariants: a partition has at most one
live question; a leader that answers without getting anywhere is not asked in a busy loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from penstock.client.reading.supply import Source, Supply
from penstock.model.errors import PenstockError
from penstock.net.channel import Channel


class AskedSource(Source):
    """Of one consumer."""

    waits_for_room: ClassVar = True

    def begin(self, supply: Supply, channel: Channel) -> None:
        question = supply.feed.question()
        answered = partial(self._answered, supply, supply.generation)
        channel.start_call(question.number, question.request, (), answered, question.timeout_s)

    def stop(self, supply: Supply) -> None:
        """Nothing comes unasked."""

    def resume(self, supplies: Iterable[Supply]) -> None:
        """Nobody parks what is asked for."""

    def _answered(
        self,
        supply: Supply,
        generation: int,
        error: PenstockError | None,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        if generation != supply.generation or self.is_closed:
            return
        supply.is_busy = False
        try:
            if error is not None:
                raise error
            is_further = supply.feed.on_answer(envelope, payload)
        except PenstockError as problem:
            supply.feed.on_error(problem)
            return
        if is_further:
            supply.failures = 0
            supply.go_on()
        else:
            supply.try_again()
