"""Long work of many clients on the event loop: a little of it in each turn, each client's in its
turn.

The work is generators that yield where they may pause. Unlike `broker.in_turns`, which is for one
piece of work at a time, this bounds what all of them take together. The invariants: one turn of the
loop does at most PIECES_PER_TURN pieces; at most FILTERED_READS_MAX works have begun and not ended,
so what they hold is bounded; of one client at most one has, so nobody waits for all that another
has asked for; and after `cancel` nobody is called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeVar

from penstock.model.errors import InternalError, PenstockError
from penstock.model.limits import FILTERED_READS_MAX

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

# A piece takes about half a millisecond.
PIECES_PER_TURN: Final = 4


class Work(Generic[ResultT]):
    """Made by `FairTurns.begin`."""

    __slots__ = ("_failed", "_is_over", "_over", "_pieces")

    def __init__(
        self,
        pieces: Generator[None, None, ResultT],
        over: Callable[[ResultT], None],
        failed: Callable[[PenstockError], None],
    ) -> None:
        self._pieces = pieces
        self._over = over
        self._failed = failed
        self._is_over = False

    def cancel(self) -> None:
        """Leave it as it is."""
        self._is_over = True
        self._pieces.close()

    def go_on(self) -> bool:
        """Do one piece. True if that was the last."""
        if self._is_over:
            return True
        try:
            next(self._pieces)
        except StopIteration as stop:
            self._is_over = True
            self._over(stop.value)
        except PenstockError as error:
            self._is_over = True
            self._failed(error)
        except Exception:
            logger.exception("Work in turns failed.")
            self._is_over = True
            self._failed(InternalError())
        return self._is_over


class FairTurns:
    """One per broker. All calls come from the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # The works of each client in their order; the first has begun if the client is at it.
        self._lines: dict[object, deque[Work[Any]]] = {}
        self._at_it: deque[object] = deque()
        self._waiting: deque[object] = deque()
        self._next: asyncio.Handle | None = None

    def begin(
        self,
        client: object,
        pieces: Generator[None, None, ResultT],
        over: Callable[[ResultT], None],
        failed: Callable[[PenstockError], None],
    ) -> Work[ResultT]:
        """Have the work done, behind what the client has asked for before. over: is told what it
        came to. failed: or what it ended by. Neither is called before this returns."""
        work = Work(pieces, over, failed)
        line = self._lines.get(client)
        if line is not None:
            line.append(work)
            return work
        self._lines[client] = deque([work])
        self._waiting.append(client)
        if self._next is None:
            self._next = self._loop.call_soon(self._turn)
        return work

    def close(self) -> None:
        """Leave all of it as it is."""
        for line in self._lines.values():
            for work in line:
                work.cancel()
        if self._next is not None:
            self._next.cancel()

    def _turn(self) -> None:
        for _ in range(PIECES_PER_TURN):
            self._admit()
            if not self._at_it:
                break
            client = self._at_it.popleft()
            line = self._lines[client]
            if not line[0].go_on():
                self._at_it.append(client)
                continue
            line.popleft()
            if line:
                self._waiting.append(client)
            else:
                del self._lines[client]
        self._next = self._loop.call_soon(self._turn) if self._lines else None

    def _admit(self) -> None:
        while self._waiting and len(self._at_it) < FILTERED_READS_MAX:
            self._at_it.append(self._waiting.popleft())
