"""Long work of many clients on the event loop: a little of it in each turn, each client's in its
turn.

The work is generators that yield where they may pause, and what takes long in one go they yield as
a job, which a thread does. Unlike `broker.turns.in_turns`, which is for one piece of work at a
time, this bounds what all of them take together. The invariants: a turn of the loop ends with the
piece that is under way after _TURN_S; at most FILTERED_READS_MAX works have begun and not ended, so
what they hold is bounded; of one client at most one has, so nobody waits for all that another has
asked for; none begins for a client that does not read its answers, which are in memory; and after
`cancel` nobody is called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from penstock.model.errors import InternalError, PenstockError
from penstock.model.limits import FILTERED_READS_MAX, WRITE_QUEUE_BYTES_LOW

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

Job = Callable[[], object]
"""Done by a thread: it touches nothing that anybody else has."""
Pieces = Generator[Job | None, Any, ResultT]
"""Yields None to pause, or a job, and is sent what came of it."""

# A piece takes about half a millisecond at the most, and mostly less.
_TURN_S: Final = 0.002
# One job may take half a second: whoever asks for such gets no more of the machine than this.
_THREADS: Final = 2


class Room(Protocol):
    """What waits to be sent to a client: an `Outbox`."""

    def when_room(self, unsent_bytes: int, then: Callable[[], None]) -> None: ...


class Client(Protocol):
    """Whom work is for: a connection."""

    is_writable: bool

    @property
    def outbox(self) -> Room: ...


class Unanswered:
    """Whom work is for that nobody is sent the outcome of: it has its turn like a client."""

    is_writable = True

    @property
    def outbox(self) -> Room:
        raise AssertionError("nothing is sent, so there is always room")


class Work(Generic[ResultT]):
    """Made by `FairTurns.begin`."""

    __slots__ = ("_done_job", "_failed", "_is_over", "_over", "_pieces", "_wake", "job")

    def __init__(
        self,
        pieces: Pieces[ResultT],
        over: Callable[[ResultT], None],
        failed: Callable[[PenstockError], None],
        wake: Callable[[], None],
    ) -> None:
        """wake: called when it is cancelled."""
        self._pieces = pieces
        self._over = over
        self._failed = failed
        self._wake = wake
        self._is_over = False
        # What must be done before it goes on, and then what came of it.
        self.job: Job | None = None
        self._done_job: asyncio.Future[object] | None = None

    @property
    def is_over(self) -> bool:
        return self._is_over

    def cancel(self) -> None:
        """Leave it as it is."""
        self._is_over = True
        self._pieces.close()
        self._wake()

    def job_done(self, done: asyncio.Future[object]) -> None:
        self.job, self._done_job = None, done

    def go_on(self) -> bool:
        """Do one piece. True if that was the last."""
        if self._is_over:
            return True
        done, self._done_job = self._done_job, None
        try:
            if done is None:
                self.job = next(self._pieces)
            elif (error := done.exception()) is not None:
                self.job = self._pieces.throw(error)
            else:
                self.job = self._pieces.send(done.result())
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
        # Those whose jobs are being done.
        self._away_count = 0
        # Those that do not read, until they have.
        self._full: set[Client] = set()
        self._next: asyncio.Handle | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-filter")
        self._is_closed = False

    def begin(
        self,
        client: Client,
        pieces: Pieces[ResultT],
        over: Callable[[ResultT], None],
        failed: Callable[[PenstockError], None],
    ) -> Work[ResultT]:
        """Have the work done, behind what the client has asked for before. over: is told what it
        came to. failed: or what it ended by. Neither is called before this returns."""
        work = Work(pieces, over, failed, partial(self._look_again, client))
        line = self._lines.get(client)
        if line is not None:
            line.append(work)
            return work
        self._lines[client] = deque([work])
        self._waiting.append(client)
        self._set_next()
        return work

    async def outcome(self, client: Client, pieces: Pieces[ResultT]) -> ResultT:
        """What the work comes to, for a task that waits for it; cancelled, it leaves it."""
        told: asyncio.Future[ResultT] = self._loop.create_future()
        work = self.begin(client, pieces, told.set_result, told.set_exception)
        try:
            return await told
        except asyncio.CancelledError:
            work.cancel()
            raise

    def close(self) -> None:
        """Leave all of it as it is."""
        self._is_closed = True
        for line in self._lines.values():
            for work in line:
                work.cancel()
        if self._next is not None:
            self._next.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _turn(self) -> None:
        self._next = None
        end_s = self._loop.time() + _TURN_S
        while True:
            self._admit()
            if not self._at_it:
                break
            self._go_on(self._at_it.popleft())
            if self._loop.time() >= end_s:
                break
        if self._at_it or (self._waiting and self._has_place):
            self._set_next()

    def _go_on(self, client: Client) -> None:
        line = self._lines[client]
        work = line[0]
        if work.go_on():
            line.popleft()
            if line:
                self._waiting.append(client)
            else:
                del self._lines[client]
        elif work.job is None:
            self._at_it.append(client)
        else:
            self._away_count += 1
            job = self._loop.run_in_executor(self._threads, work.job)
            job.add_done_callback(partial(self._job_done, client, work))

    def _job_done(self, client: Client, work: Work[Any], done: asyncio.Future[object]) -> None:
        self._away_count -= 1
        if not self._is_closed:
            work.job_done(done)
            self._at_it.append(client)
            self._set_next()

    @property
    def _has_place(self) -> bool:
        return len(self._at_it) + self._away_count < FILTERED_READS_MAX

    def _admit(self) -> None:
        while self._waiting and self._has_place:
            client = self._waiting.popleft()
            if client.is_writable or self._lines[client][0].is_over:
                self._at_it.append(client)
            else:
                self._full.add(client)
                client.outbox.when_room(WRITE_QUEUE_BYTES_LOW, partial(self._has_read, client))

    def _has_read(self, client: Client) -> None:
        """Told within a flush, and only behind it `is_writable` says so."""
        self._loop.call_soon(self._look_again, client)

    def _look_again(self, client: Client) -> None:
        """It has read, or does not want some of it any more."""
        if client in self._full and not self._is_closed:
            self._full.remove(client)
            self._waiting.append(client)
            self._set_next()

    def _set_next(self) -> None:
        if self._next is None:
            self._next = self._loop.call_soon(self._turn)
