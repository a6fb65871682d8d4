"""Batches that the broker has to open before it appends them: the topic is compacted, or has a
compression of its own.

Little ones are opened where they come. What is large, or may become large (two kilobytes can open
to 64 MiB), a thread opens, in turns with everybody else's (`delivery.fair_turns`), while the loop
serves others. Whether a batch may be appended is the partition's. The invariants: of one connection
batches are appended in the order in which they came; each is told of once; and no more than
OPENING_BYTES_MAX of them wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.broker.admission import Admission
from penstock.broker.delivery.fair_turns import FairTurns, Pieces, Unanswered
from penstock.broker.partition import Append, Partition
from penstock.model.errors import Busy, InvalidBatch, NotLeader, PenstockError
from penstock.model.limits import KIB, OPENING_BYTES_MAX
from penstock.net.connection import Connection
from penstock.records.header import BatchHeader, check_produced
from penstock.replication.driver import Driver

# What may be decompressed, or compressed, in one go: some milliseconds of gzip; of batches that
# take more than the second, it is likely that they do not stay within the first.
_AT_ONCE_BYTES_MAX: Final = 256 * KIB
_AT_ONCE_COMPRESSED_BYTES_MAX: Final = 64 * KIB


class _Line(Unanswered):
    """What waits of one connection. What has come of a client that is gone is appended all the
    same, so it is not the connection that has its turn."""

    def __init__(self) -> None:
        self.count = 0


class Openings:
    """One per broker. All calls come from the event loop."""

    def __init__(self, turns: FairTurns, driver: Driver) -> None:
        self._turns = turns
        self._driver = driver
        self._lines: dict[Connection, _Line] = {}
        self._waiting_bytes = 0

    def append(
        self,
        connection: Connection,
        partition: Partition,
        batch: memoryview,
        append: Append,
        acks: int,
    ) -> None:
        """As `Partition.append`, for a partition whose topic has batches opened."""
        header, line = check_produced(batch), self._lines.get(connection)
        if line is None and (little := _opened_at_once(partition.admission, batch, header)):
            partition.append_known(little, append, acks, is_opened=True)
            return
        if header.length > partition.admission.batch_bytes_max:
            partition.append(batch, append, acks)  # which says why not
            return
        if self._waiting_bytes + len(batch) > OPENING_BYTES_MAX:
            raise Busy("Too much waits to be opened: try again, or send smaller batches.")
        if line is None:
            line = self._lines[connection] = _Line()
        line.count += 1
        self._waiting_bytes += len(batch)
        # Where it was received is overwritten when this turn ends.
        kept = memoryview(bytearray(batch))
        left = partial(self._left, connection, len(kept))
        self._turns.begin(
            line,
            _opened(partition.admission, kept, header),
            partial(self._append_opened, partition, append, acks, left),
            partial(_refuse, append, left),
        )

    def _append_opened(
        self,
        partition: Partition,
        append: Append,
        acks: int,
        left: Callable[[], None],
        batch: memoryview,
    ) -> None:
        left()
        try:
            if not partition.is_open:
                raise NotLeader(f"{partition.name} is no longer led here.")
            if partition.lacks_replicas:
                partition.check_acks(acks)
            partition.append_known(batch, append, acks, is_opened=True)
        except PenstockError as error:
            append.finished(error)
        self._driver.end_turn()

    def _left(self, connection: Connection, size_bytes: int) -> None:
        """It waits no longer."""
        self._waiting_bytes -= size_bytes
        line = self._lines[connection]
        line.count -= 1
        if not line.count:
            del self._lines[connection]


def _opened_at_once(
    admission: Admission, batch: memoryview, header: BatchHeader
) -> memoryview | None:
    """The opened batch, if there is little in it."""
    most = _AT_ONCE_COMPRESSED_BYTES_MAX if header.codec else _AT_ONCE_BYTES_MAX
    if header.length > most:
        return None
    try:
        return admission.opened(batch, header, _AT_ONCE_BYTES_MAX)
    except InvalidBatch:
        return None  # it is larger, or there is something wrong with it, which is found once more


def _opened(admission: Admission, batch: memoryview, header: BatchHeader) -> Pieces[memoryview]:
    opened: memoryview = yield partial(admission.opened, batch, header)
    return opened


def _refuse(append: Append, left: Callable[[], None], error: PenstockError) -> None:
    left()
    append.finished(error)
