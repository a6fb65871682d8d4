"""Who waits until no job of a replica runs: then its log may be closed, or cut back.

Not the jobs. The invariant: each is called once, and not while a job runs.
"""

from __future__ import annotations

from collections.abc import Callable


class Idleness:
    """Of one replica. `tell` is called whenever a job is over."""

    __slots__ = ("_is_idle", "_waiting")

    def __init__(self, is_idle: Callable[[], bool]) -> None:
        self._is_idle = is_idle
        self._waiting: list[Callable[[], None]] = []

    def when(self, then: Callable[[], None]) -> None:
        """Now, or when the last job is over."""
        if self._is_idle():
            then()
        else:
            self._waiting.append(then)

    def tell(self) -> None:
        if self._waiting and self._is_idle():
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()
