"""Batches that open to much, and what opens them where a test has no whole broker."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

import pytest

from penstock.broker.partitions import unopened
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.unopened import TurnBudget
from penstock.broker.topics.openings import Openings
from penstock.broker.topics.remote_admission import StagedAdmission
from penstock.broker.topics.topics import Topics
from penstock.broker.turns import fair_turns
from penstock.broker.turns.fair_turns import FairTurns
from penstock.model.errors import InvalidBatch
from penstock.model.limits import (
    MIB,
    OPENED_AT_ONCE_BYTES_MAX,
    OPENED_PER_TURN_BYTES_MAX,
    RECORD_HEADERS_MAX,
)
from penstock.net.clock import Clock
from penstock.records import BatchBuilder, Codec
from penstock.records.header import BatchHeader
from penstock.records.plain import PlainBatch, plain_batch
from penstock.replication.disk.driver import Driver

ANYBODY: Final[Any] = object()
"""The connection, which is not looked at."""


def openings_of(topics: Topics, leaders: Leaders, driver: Driver, clock: Clock) -> Openings:
    admission = StagedAdmission(topics, leaders, clock)
    budget = TurnBudget(asyncio.get_running_loop().call_soon)
    return Openings(FairTurns(), budget, driver, admission)


class Watch:
    """What is opened, and where: it is told by how much the loop opens in a turn, not by time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on_loop: list[int] = []
        """Bytes that were opened in each turn that opened some."""
        self.by_threads: list[int] = []
        self.gate = threading.Event()
        """Clear it to have threads wait before they open anything."""
        self.gate.set()
        self.waiting_count = 0
        self._loop = asyncio.get_running_loop()
        self._is_same_turn = False
        self._main = threading.current_thread()
        monkeypatch.setattr(unopened, "plain_batch", self._opened)
        # One piece of work in each turn.
        monkeypatch.setattr(fair_turns, "_TURN_S", 0)

    def _opened(self, header: BatchHeader, batch: memoryview, bytes_max: int) -> PlainBatch:
        if threading.current_thread() is not self._main:
            self.waiting_count += 1
            self.gate.wait()
            plain = plain_batch(header, batch, bytes_max)
            self.by_threads.append(len(plain.batch))
            return plain
        if not self._is_same_turn:
            self._is_same_turn = True
            self.on_loop.append(0)
            self._loop.call_soon(self._turn_over)
        try:
            plain = plain_batch(header, batch, bytes_max)
        except InvalidBatch:
            self.on_loop[-1] += bytes_max
            raise
        self.on_loop[-1] += len(plain.batch)
        return plain

    def _turn_over(self) -> None:
        self._is_same_turn = False

    def check(self) -> None:
        """In no turn too much: what comes in, and one piece of work."""
        most = OPENED_PER_TURN_BYTES_MAX + 2 * OPENED_AT_ONCE_BYTES_MAX
        assert max(self.on_loop, default=0) <= most, self.on_loop


def zeros(size_bytes: int = 8 * MIB, sequence: int = -1, key: bytes | None = b"key") -> bytearray:
    """A kilobyte or so that opens to one large message."""
    return _built([(key, bytes(size_bytes), 0)], sequence)


def tiny_headers(
    per_record: int = RECORD_HEADERS_MAX, records: int = 1_000, sequence: int = -1
) -> bytearray:
    """Some kilobytes that open to headers of two bytes each."""
    return _built([(b"%d" % number, b"", per_record) for number in range(records)], sequence)


def _built(records: list[tuple[bytes | None, bytes, int]], sequence: int) -> bytearray:
    size_bytes = sum(100 + len(value) + 2 * count for _, value, count in records)
    builder = BatchBuilder(2 * size_bytes, Codec.ZSTD)
    for key, value, count in records:
        assert builder.append(1_000, key, value, [("", b"")] * count) >= 0
    producer_id, epoch = (-1, -1) if sequence < 0 else (7, 0)
    made = builder.build(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return bytearray(made)
