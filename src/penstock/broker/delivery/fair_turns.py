"""Long work of many clients on the event loop: a little of it in each turn, each client's in its
turn.

The work is generators that yield where they may pause. Unlike `broker.in_turns`, which is for one
piece of work at a time, this bounds what all of them take together. The invariants: one turn of the
loop does at most PIECES_PER_TURN pieces; at most FILTERED_READS_MAX works have begun and not ended,
so what they hold is bounded; of one client at most one has, so nobody waits for all that another
has asked for; none begins for a client that does not read its answers, which are in memory; and
after `cancel` nobody is called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, Protocol, TypeVar

from penstock.model.errors import InternalError, PenstockError
from penstock.model.limits import FILTERED_READS_MAX

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

# A piece takes about half a millisecond.
PIECES_PER_TURN: Final = 4
# How often it is seen whether a client has read what it was sent.
_FULL_S: Final = 0.01


class Client(Protocol):
    """Whom work is for: a connection."""

    is_writable: bool


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

    @property
    def is_over(self) -> bool:
        return self._is_over

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
        self._lines: dict[Client, deque[Work[Any]]] = {}
        self._at_it: deque[Client] = deque()
        self._waiting: deque[Client] = deque()
        # Those that do not read, until they are looked at again.
        self._full: list[Client] = []
        self._next: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(
        self,
        client: Client,
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
        self._set_next()
        return work

    def close(self) -> None:
        """Leave all of it as it is."""
        for line in self._lines.values():
            for work in line:
                work.cancel()
        for handle in (self._next, self._timer):
            if handle is not None:
                handle.cancel()

    def _turn(self) -> None:
        self._next = None
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
        if self._at_it or self._waiting:
            self._set_next()

    def _admit(self) -> None:
        while self._waiting and len(self._at_it) < FILTERED_READS_MAX:
            client = self._waiting.popleft()
            if client.is_writable or self._lines[client][0].is_over:
                self._at_it.append(client)
                continue
            self._full.append(client)
            if self._timer is None:
                self._timer = self._loop.call_later(_FULL_S, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._waiting += self._full
        self._full.clear()
        self._set_next()

    def _set_next(self) -> None:
        if self._next is None:
            self._next = self._loop.call_soon(self._turn)
