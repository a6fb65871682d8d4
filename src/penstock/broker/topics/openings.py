"""Batches that the broker has to open before it goes on with them: their topic is compacted or has
a compression of its own, or they are to be delayed, each message for itself.

Everything that clients send in is opened here, one way for all: little ones where they come, what
is large or may become large in its turn, by a thread (`broker.partitions.unopened`), while the loop
serves others. What is done with it then is the caller's. The invariants: what was opened is what
the topic's settings ask for when it is gone on with; of one connection batches are gone on with in
the order in which they came; each is told of once; and no more than OPENING_BYTES_MAX of them wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Final, NamedTuple

from penstock.broker.partitions.admission import NOT_OPENED, Admission, Opening
from penstock.broker.partitions.partition import Append, Partition
from penstock.broker.partitions.unopened import TurnBudget, Unopened
from penstock.broker.topics.remote_admission import StagedAdmission
from penstock.broker.turns.fair_turns import FairTurns, Pieces, Unanswered
from penstock.model.errors import Busy, InvalidBatch, NotLeader, PenstockError
from penstock.model.ids import check_public
from penstock.model.limits import DELAYED_HEADERS_PER_CALL_MAX, OPENING_BYTES_MAX
from penstock.records import Message, count_headers, decode_batch
from penstock.records.header import BatchHeader, check_produced, read_header
from penstock.records.plain import PlainBatch
from penstock.replication.disk.driver import Driver


class Opened(NamedTuple):
    """A batch as its topic wants it. A tuple: one for each batch that is opened."""

    header: BatchHeader
    batch: memoryview
    by: Opening
    size_bytes: int
    """In memory, about."""
    messages: Sequence[Message] = ()
    """Where they were asked for."""


# A name and a value as Python has them.
_HEADER_BYTES: Final = 200

Then = Callable[[Opened], None]
"""Goes on with it; may raise PenstockError."""


class _Line(Unanswered):
    """What waits of one connection. What has come of a client that is gone is gone on with all the
    same, so it is not the connection that has its turn."""

    def __init__(self) -> None:
        # How many wait, by what they are for.
        self.counts: Counter[object] = Counter()


class Openings:
    """One per broker. All calls come from the event loop."""

    def __init__(
        self,
        turns: FairTurns,
        budget: TurnBudget,
        driver: Driver,
        staged_admission: StagedAdmission,
    ) -> None:
        self._turns = turns
        self._budget = budget
        self._staged_admission = staged_admission
        self._driver = driver
        self._lines: dict[Hashable, _Line] = {}
        self._waiting_bytes = 0

    @property
    def is_any_waiting(self) -> bool:
        """While there is none, a batch that need not be opened need not come here."""
        return bool(self._lines)

    def append(
        self,
        connection: Hashable,
        partition: Partition,
        batch: memoryview,
        append: Append,
        acks: int,
        into: Then | None = None,
    ) -> None:
        """As `Partition.append`, with the batch opened first if its topic wants that. connection:
        whose batches stay in order. into: where it goes then, if not into the partition."""
        header = check_produced(batch)

        def then(opened: Opened) -> None:
            if not partition.is_open:
                raise NotLeader(f"{partition.name} is no longer led here.")
            if partition.lacks_replicas:
                partition.check_acks(acks)
            if into is None:
                partition.append_known(opened.batch, append, acks, opened_by=opened.by)
            else:
                into(opened)

        def refused(error: PenstockError) -> None:
            if error.retriable:
                partition.sequences.turn_away(header)
            append.finished(error)

        self._open_first(
            connection,
            batch,
            header,
            partition.admission,
            lambda: partition.admission,
            then,
            refused,
            about=partition,
        )

    def open_for_later(
        self,
        connection: Hashable,
        topic: str,
        partition: int,
        header: BatchHeader,
        batch: memoryview,
        then: Then,
        refused: Callable[[PenstockError], None],
        *,
        takes_messages: bool = False,
    ) -> None:
        """Go on with the checked batch when it is opened, in this call if that takes no time, for a
        partition that any broker may lead when it is appended. A topic that is not there is left to
        `then`, which may have the batch from before.

        What is wrong with the batch at once is raised, and `then` and `refused` not called; of what
        waits one of them is, and the turn is ended. takes_messages: they are wanted, whatever the
        settings are."""
        find = partial(self._staged_admission.find, topic, partition)
        try:
            check_public(topic)
            admission = find()
        except PenstockError:
            then(Opened(header, batch, NOT_OPENED, len(batch)))
            return
        self._open_first(
            connection, batch, header, admission, find, then, refused, takes_messages=takes_messages
        )

    def _open_first(
        self,
        connection: Hashable,
        batch: memoryview,
        header: BatchHeader,
        admission: Admission,
        find: Callable[[], Admission],
        then: Then,
        refused: Callable[[PenstockError], None],
        *,
        about: object = None,
        takes_messages: bool = False,
    ) -> None:
        """admission: whose settings hold; `find` tells it again when the batch is opened. about:
        what comes for the same thing stays behind."""
        line = self._lines.get(connection)
        admission.check_size(header)
        must_open = takes_messages or (
            admission.opens_batches and admission.opening.must_open(header)
        )
        if line is None or not (must_open or about in line.counts):
            if not must_open:
                then(Opened(header, batch, admission.opening, len(batch)))
                return
            unopened = _unopened(admission.opening, header, batch, takes_messages)
            opened = unopened.at_once(self._budget) if line is None else None
            if opened is not None:
                then(opened)
                return
        if self._waiting_bytes + len(batch) > OPENING_BYTES_MAX:
            raise Busy("Too much waits to be opened: try again, or send smaller batches.")
        if line is None:
            line = self._lines[connection] = _Line()
        line.counts[about] += 1
        self._waiting_bytes += len(batch)
        # Where it was received is overwritten when this turn ends.
        kept = memoryview(bytearray(batch))
        left = partial(self._left, connection, about, len(kept))
        self._turns.begin(
            line,
            _in_turn(find, header, kept, takes_messages),
            partial(self._go_on, left, then, refused),
            partial(self._refuse, left, refused),
        )

    def _go_on(
        self,
        left: Callable[[], None],
        then: Then,
        refused: Callable[[PenstockError], None],
        opened: Opened,
    ) -> None:
        left()
        try:
            then(opened)
        except PenstockError as error:
            refused(error)
        self._driver.end_turn()

    def _refuse(
        self,
        left: Callable[[], None],
        refused: Callable[[PenstockError], None],
        error: PenstockError,
    ) -> None:
        left()
        refused(error)
        self._driver.end_turn()

    def _left(self, connection: Hashable, about: object, size_bytes: int) -> None:
        """It waits no longer."""
        self._waiting_bytes -= size_bytes
        line = self._lines[connection]
        line.counts[about] -= 1
        if not line.counts[about]:
            del line.counts[about]
        if not line.counts:
            del self._lines[connection]


def _in_turn(
    find: Callable[[], Admission], header: BatchHeader, batch: memoryview, takes_messages: bool
) -> Pieces[Opened]:
    """The batch, by the settings that hold when it is opened, as often as they are changed."""
    while True:
        admission = find()
        opening = admission.opening
        admission.check_size(header)
        opened = Opened(header, batch, opening, len(batch))
        if takes_messages or opening.must_open(header):
            opened = yield from _unopened(opening, header, batch, takes_messages).in_turn()
        if find().opening == opening:
            return opened


def _unopened(
    opening: Opening, header: BatchHeader, batch: memoryview, takes_messages: bool
) -> Unopened[Opened]:
    def make(plain: PlainBatch) -> Opened:
        admitted = opening.admitted(header, batch, plain)
        known = header if admitted is batch else read_header(admitted)
        if not takes_messages:
            return Opened(known, admitted, opening, len(admitted))
        header_count = count_headers(plain.header, plain.batch, len(plain.batch))
        if header_count > DELAYED_HEADERS_PER_CALL_MAX:
            raise InvalidBatch(
                f"The messages have {header_count} headers together: "
                f"{DELAYED_HEADERS_PER_CALL_MAX} is the limit, send fewer at once."
            )
        messages = decode_batch(plain.header, plain.batch, len(plain.batch))
        # Two bytes of a batch make so many of them.
        size_bytes = len(admitted) + len(plain.batch) + header_count * _HEADER_BYTES
        return Opened(known, admitted, opening, size_bytes, messages)

    return Unopened(header, batch, make, opening.bytes_max)
