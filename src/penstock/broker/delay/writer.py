"""Who writes to `__delayed`: its leader, in the term in which it has read all that others wrote.

It knows what is on its way into the log, which the store does not have yet. Not what is written and
why. The invariants: nothing is written in another term than that of the reading; whoever waits for
a record is told once, without an error only when it is committed and the store has it; no message
is accepted that would come before what was passed already; and when anything could not be written,
nothing more is: whoever writes has changed what it believes when it proposed, so all of it is read
again from the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from penstock.broker.delay.store import DelayedStore
from penstock.broker.turns.handler_tasks import settle
from penstock.coordination.delay.records import (
    CANCELLED,
    Cancelled,
    Due,
    encode_cancelled,
)
from penstock.model.errors import (
    CoordinatorLoading,
    NotCoordinator,
    PenstockError,
    StorageError,
)
from penstock.net.clock import Clock
from penstock.records import build_batch
from penstock.records.header import read_header
from penstock.replication.disk.driver import Driver
from penstock.replication.replica.replica import refusal

Done = Callable[[PenstockError | None], None]


class DelayedWriter:
    """One for each term that this broker leads. All calls come from the event loop."""

    def __init__(
        self, store: DelayedStore, driver: Driver, clock: Clock, on_refused: Callable[[], None]
    ) -> None:
        """on_refused: called, once, when something could not be written."""
        self.store = store
        self._on_refused = on_refused
        self._is_refused = False
        self._replica = store.partition.replica
        self._term = self._replica.term
        self._driver = driver
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.passed = store.table.frontier
        """Everything up to here was taken as due: a message that is accepted now comes later."""
        self.cancelling: set[Due] = set()
        """What is being cancelled, and must not be taken any more."""
        self.recently_cancelled: set[tuple[int, int]] | None = None
        """What was cancelled since somebody wants to know."""
        # Messages on their way: (the offset behind them, the first that is due).
        self._flying: deque[tuple[int, int]] = deque()
        self._held: list[Callable[[], None]] | None = None

    @property
    def is_current(self) -> bool:
        """Whether what the store has, and what is on its way, is all there is."""
        replica = self._replica
        is_leading = replica.is_leader and replica.term == self._term
        return is_leading and not self._is_refused and self.store.partition.is_open

    @property
    def term(self) -> int:
        return self._term

    def check_current(self) -> None:
        if self._replica.failure is not None and self._replica.is_leader:
            raise refusal(self._replica)
        if self._is_refused and self._replica.is_leader:
            raise CoordinatorLoading("What is delayed is being read again: try again.")
        if not self.is_current:
            raise NotCoordinator("Delayed messages are looked after by another broker: ask which.")

    # --- writing -------------------------------------------------------------------------------

    def propose(self, batches: Sequence[bytearray], done: Done | None = None) -> list[int]:
        """Append; the end of the turn must follow. The offset of each batch, which holds if there
        is no error."""
        assert self._held is None, "held back"
        return self._propose(batches, done)

    def _propose(self, batches: Sequence[bytearray], done: Done | None) -> list[int]:
        self.check_current()
        assert batches
        *before, last = [memoryview(batch) for batch in batches]
        offsets = [self._replica.propose(read_header(batch), batch, None) for batch in before]

        def finished(error: PenstockError | None) -> None:
            if error is None:
                error = self._take_in()
            if error is not None:
                self._refuse()
            if done is not None:
                done(error)

        offsets.append(self._replica.propose(read_header(last), last, finished))
        return offsets

    def _refuse(self) -> None:
        """What was proposed is not in the log, or that is not known."""
        if not self._is_refused:
            self._is_refused = True
            self._on_refused()

    def fly(self, due_ms: int) -> None:
        """What was just proposed has messages, the first of which is due then."""
        self._flying.append((self._replica.log.next_offset, due_ms))

    def write(self, *records: tuple[bytes, bytes]) -> asyncio.Future[PenstockError | None]:
        """Append records of other kinds, each a batch of its own. The future is told when the store
        has them."""
        told: asyncio.Future[PenstockError | None] = self._loop.create_future()
        self.propose([self.batch_of(record) for record in records], partial(settle, told))
        self._driver.end_turn()
        return told

    def batch_of(self, record: tuple[bytes, bytes]) -> bytearray:
        return build_batch([record], timestamp_ms=self._clock.now_ms())

    async def cancel(self, cancelled: Sequence[Cancelled]) -> None:
        """Let these not come; they were found, and are not passed."""
        dues = {each.due for each in cancelled}
        told = self.write((CANCELLED, encode_cancelled(cancelled)))
        self.cancelling |= dues
        if self.recently_cancelled is not None:
            self.recently_cancelled |= dues
        try:
            error = await told
        finally:
            self.cancelling -= dues
        if error is not None:
            raise error

    def end_turn(self) -> None:
        self._driver.end_turn()

    @property
    def lowest_flying_ms(self) -> int | None:
        """When the first message is due that the index does not have yet."""
        return min((due_ms for _, due_ms in self._flying), default=None)

    def _take_in(self) -> PenstockError | None:
        """Something is committed."""
        try:
            self.store.catch_up()
        except StorageError as error:
            return error
        while self._flying and self._flying[0][0] <= self.store.applied:
            self._flying.popleft()
        return None

    # --- holding back --------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def when_free(self, action: Callable[[], None]) -> None:
        """Do it when nothing holds back any more."""
        assert self._held is not None
        self._held.append(action)

    async def freed(self) -> None:
        """Wait until nothing holds back."""
        while self._held is not None:
            free: asyncio.Future[None] = self._loop.create_future()
            self._held.append(partial(settle, free, None))
            await free

    async def write_settled(
        self,
        make: Callable[[], tuple[bytes, bytes] | None],
        then: Callable[[], None] = lambda: None,
    ) -> bool:
        """Write a record that is made from the store when it has all that was ever proposed; `then`
        is called when it has that one as well. Until then nothing else is written. False if there
        is nothing to write after all."""
        await self.freed()
        self._held = []
        try:
            await self._settled()
            record = make()
            if record is None:
                return False
            told: asyncio.Future[PenstockError | None] = self._loop.create_future()
            self._propose([self.batch_of(record)], partial(settle, told))
            self._driver.end_turn()
            if (error := await told) is not None:
                raise error
            then()
            return True
        finally:
            held, self._held = self._held, None
            self._loop.call_soon(self._go_on, held)

    def _go_on(self, held: list[Callable[[], None]]) -> None:
        for action in held:
            action()
        self._driver.end_turn()

    async def _settled(self) -> None:
        """Wait until the store has everything."""
        log = self._replica.log
        while self.store.applied < log.next_offset:
            self.check_current()
            settled: asyncio.Future[PenstockError | None] = self._loop.create_future()
            self._replica.when_committed(log.next_offset, partial(settle, settled))
            error = await settled or self._take_in()
            if error is not None:
                raise error
