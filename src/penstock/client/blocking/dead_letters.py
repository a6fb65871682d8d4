"""Dead letters for code without an event loop. A facade: see `DeadLetters`. The invariant: each
call has ended when it returns; `list` reads on as it is iterated."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Unpack

from penstock.client.admin.dead_letters import LetterFilters, LetterGroup
from penstock.client.admin.redriving import LetterSummary, OnOutcome
from penstock.client.client import Client
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.model.dead_letter import DeadLetter


class BlockingDeadLetters:
    """See `DeadLetters`."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._run = thread.run
        self._letters = client.dead_letters

    def groups(self) -> list[LetterGroup]:
        return self._run(self._letters.groups())

    def show(self, group: str, letter_id: str) -> DeadLetter:
        return self._run(self._letters.show(group, letter_id))

    def redrive(
        self,
        group: str,
        ids: Collection[str] | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        rate_per_s: float | None = None,
        to_topic: str | None = None,
        on_outcome: OnOutcome | None = None,
        **filters: Unpack[LetterFilters],
    ) -> LetterSummary:
        """on_outcome: called in the loop's thread."""
        redriving = self._letters.redrive(
            group,
            ids,
            dry_run=dry_run,
            force=force,
            rate_per_s=rate_per_s,
            to_topic=to_topic,
            on_outcome=on_outcome,
            **filters,
        )
        return self._run(redriving)

    def drop(
        self,
        group: str,
        ids: Collection[str] | None = None,
        *,
        everything: bool = False,
        dry_run: bool = False,
        on_outcome: OnOutcome | None = None,
        **filters: Unpack[LetterFilters],
    ) -> LetterSummary:
        dropping = self._letters.drop(
            group,
            ids,
            everything=everything,
            dry_run=dry_run,
            on_outcome=on_outcome,
            **filters,
        )
        return self._run(dropping)

    def list(self, group: str, **filters: Unpack[LetterFilters]) -> Iterator[DeadLetter]:
        letters = self._letters.list(group, **filters)

        async def following() -> DeadLetter | None:
            return await anext(letters, None)

        while (letter := self._run(following())) is not None:
            yield letter
