"""Who waits for more of a partition, and when they are woken: when the producers were answered.

A commit only notes who is to be woken. That happens in the next turn of the loop, behind what the
commit had to say to producers, so many in a turn, and partitions take turns in it: so how long
publishing takes does not depend on how many read. Not what a reader does when it is woken. The
invariants: nobody is woken from within a commit; a reader that has stopped waiting is not woken.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from penstock.model.limits import READERS_WOKEN_PER_TURN_MAX

logger = logging.getLogger(__name__)

Wake = Callable[[], None]


class Wakings:
    """Of a broker: whose turn it is. All calls come from the event loop."""

    def __init__(self, call_soon: Callable[[Wake], object]) -> None:
        """call_soon: has something done in the next turn of the loop, after all that was to be done
        in it before."""
        self._call_soon: Final = call_soon
        self._due: deque[Readers] = deque()

    def note(self, readers: Readers) -> None:
        """Somebody of these is to be woken."""
        if not self._due:
            self._call_soon(self._take_turn)
        self._due.append(readers)

    def _take_turn(self) -> None:
        try:
            for _ in range(READERS_WOKEN_PER_TURN_MAX):
                if not self._due:
                    break
                self._wake_one()
        finally:
            # Whatever ended this one, or `note` would count on it for good.
            if self._due:
                self._call_soon(self._take_turn)

    def _wake_one(self) -> None:
        # It stays there meanwhile, or `note` would plan another turn.
        readers = self._due[0]
        try:
            readers.wake_next()
        finally:
            self._due.popleft()
            if readers.is_due:
                self._due.append(readers)


class Readers:
    """Of one partition."""

    __slots__ = ("_due", "_waiting", "_wakings")

    def __init__(self, wakings: Wakings) -> None:
        self._wakings = wakings
        self._waiting: dict[object, Wake] = {}
        # There is more for these, and they have not looked yet.
        self._due: OrderedDict[object, Wake] = OrderedDict()

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._waiting.keys() | self._due.keys())

    @property
    def is_due(self) -> bool:
        """Whether somebody is to be woken."""
        return bool(self._due)

    def wait(self, waiter: object, wake: Wake) -> None:
        """Call `wake` once, when there is more to read."""
        self._waiting[waiter] = wake

    def stop_waiting(self, waiter: object) -> None:
        self._waiting.pop(waiter, None)
        self._due.pop(waiter, None)

    def on_more(self) -> None:
        """There is more to read."""
        if self._waiting:
            is_noted = self.is_due
            self._due.update(self._waiting)
            self._waiting.clear()
            if not is_noted:
                self._wakings.note(self)

    def wake_next(self) -> None:
        """Wake who was due first, if that has not stopped waiting."""
        if self._due:
            _, wake = self._due.popitem(last=False)
            try:
                wake()
            except Exception:
                # A bug of ours in one must not keep the others from being woken.
                logger.exception("A reader that was woken failed")

    def wake_all(self) -> None:
        """Wake everybody who waits now: not because there is more."""
        self._due.update(self._waiting)
        self._waiting.clear()
        while self._due:
            self.wake_next()
