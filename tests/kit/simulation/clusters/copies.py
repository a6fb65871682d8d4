"""What one copy of a partition holds, as it was written: for whoever compares copies.

It reads the log's own files as they grow, so it sees what production wrote and not what production
thinks of it. What compaction takes out later stays here until the copy is opened again. The
invariant: a batch is in here if and only if it is in the log, or was compacted away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.model.errors import BatchError, StorageError
from penstock.raft.membership import Node
from penstock.records.view import batches
from penstock.storage.log.log import Log
from tests.kit.simulation.checkers import Fact

_READ_BYTES: Final = 1 << 20


class HeldBatch(NamedTuple):
    """A batch of a copy."""

    base_offset: int
    end_offset: int
    term: int
    crc: int
    facts: tuple[tuple[int, Fact], ...]


class Copy:
    """One node's, of one partition, for one life of its broker."""

    def __init__(self, node: Node, log: Log, *, is_compacted: bool, is_rotten: bool) -> None:
        """is_rotten: bits of it have decayed, so it may be unreadable; else that is an error."""
        self.node = node
        self.is_compacted = is_compacted
        self.is_rotten = is_rotten
        # From the first batch on that cannot be read, nothing is known.
        self.is_blind = False
        self.start_offset = log.first_offset
        self.held: list[HeldBatch] = []
        self._log = log

    @property
    def end_offset(self) -> int:
        return self.held[-1].end_offset if self.held else self.start_offset

    def cut_at(self, offset: int) -> None:
        """The log was cut there, or begins anew."""
        while self.held and self.held[-1].end_offset > offset:
            self.held.pop()
        if not self.held:
            self.start_offset = self._log.first_offset

    def refresh(self) -> None:
        """Take in what the log has got since."""
        log = self._log
        if log.first_offset > self.start_offset:
            self.start_offset = log.first_offset
            self.held = [batch for batch in self.held if batch.base_offset >= log.first_offset]
        if log.written_offset < self.end_offset:
            # After a failure it takes back what nobody was told of.
            self.cut_at(log.written_offset)
        if log.written_offset > self.end_offset and not self.is_blind:
            try:
                self.held += self._read(self.end_offset, log.written_offset)
            except (BatchError, StorageError):
                if not self.is_rotten:
                    raise
                self.is_blind = True

    def _read(self, offset: int, end_offset: int) -> Iterator[HeldBatch]:
        while offset < end_offset:
            part, offset = self._log.read_stored(offset, _READ_BYTES, end_offset)
            yield from held_batches(part.read())

    def fact_at(self, offset: int) -> Fact | None:
        """What stands there, if anything does: mostly near the end."""
        for batch in reversed(self.held):
            if batch.base_offset <= offset < batch.end_offset:
                return dict(batch.facts).get(offset)
            if batch.end_offset <= offset:
                return None
        return None

    def facts(self) -> dict[int, Fact]:
        return {offset: fact for batch in self.held for offset, fact in batch.facts}

    def stored_bytes(self, end_offset: int) -> bytes:
        """All there is of the log up to the offset, as its files have it."""
        pieces = []
        offset = self._log.first_offset
        while offset < end_offset:
            part, offset = self._log.read_stored(offset, _READ_BYTES, end_offset)
            pieces.append(part.read())
        return b"".join(pieces)


def held_batches(data: bytes) -> Iterator[HeldBatch]:
    """The batches of what was read, checked; BatchError."""
    for batch in batches(data):
        header = batch.header
        facts = tuple(
            (record.offset, Fact(header.term, record.key, record.value))
            for record in batch.records()
        )
        yield HeldBatch(header.base_offset, header.next_offset, header.term, header.crc, facts)
