"""The load generator: one blocking socket that sends request bytes built beforehand and counts
the answers. It is the same for every server, and much cheaper than any of them, so that the
server's core is the one that is full.

Not a client of the product. Invariant: an answer counts only when its last byte has arrived and
it is no error.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from benchmarks.wire import Wire

_BUFFER_BYTES: Final = 1024 * 1024
# A server that is silent this long is broken, not slow.
_SILENCE_S_MAX: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one pipelined run did."""

    answers: int
    elapsed_s: float

    @property
    def per_s(self) -> float:
        return self.answers / self.elapsed_s


class Link:
    """One connection to a server under test."""

    def __init__(self, address: tuple[str, int], wire: Wire) -> None:
        self.received_bytes = 0
        self._wire = wire
        self._socket = socket.create_connection(address, timeout=_SILENCE_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._kept_bytes = 0  # the head of an answer, too short to be read yet
        self._owed_bytes = 0  # the rest of an answer whose head has been read

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def call(self, request: bytes) -> None:
        """One request and its answer."""
        self._socket.sendall(request)
        while not self._receive():
            pass

    def round_trips_ns(self, request: bytes, count: int) -> list[int]:
        """The time of each of `count` calls, one in flight."""
        clock = time.perf_counter_ns
        times = []
        for _ in range(count):
            start = clock()
            self.call(request)
            times.append(clock() - start)
        return times

    def pipeline(
        self,
        blocks: Sequence[bytes],
        *,
        requests_per_block: int,
        blocks_in_flight: int,
        seconds_max: float = float("inf"),
        blocks_max: int = 10**9,
    ) -> Run:
        """Send the blocks one after the other, from the first again after the last, as long as
        no more than `blocks_in_flight` are unanswered, until the time is up or `blocks_max` have
        been sent; then wait for the rest of the answers."""
        assert seconds_max < float("inf") or blocks_max < 10**9, "a run has an end"
        start = time.perf_counter()
        deadline = start + seconds_max
        room = blocks_in_flight * requests_per_block
        answers = sent = 0
        while sent < blocks_max and time.perf_counter() < deadline:
            while room < requests_per_block:
                count = self._receive()
                room += count
                answers += count
            self._socket.sendall(blocks[sent % len(blocks)])
            sent += 1
            room -= requests_per_block
        while answers < sent * requests_per_block:
            answers += self._receive()
        return Run(answers=answers, elapsed_s=time.perf_counter() - start)

    def _receive(self) -> int:
        """Read once; how many answers ended in it."""
        read = self._socket.recv_into(self._view[self._kept_bytes :])
        if not read:
            raise ConnectionError("The server closed the connection during the measurement.")
        self.received_bytes += read
        end = self._kept_bytes + read
        if self._owed_bytes > end:
            self._owed_bytes -= end
            return 0
        answers = 1 if self._owed_bytes else 0
        position = self._owed_bytes
        self._owed_bytes = 0
        buffer, wire = self._buffer, self._wire
        while end - position >= wire.answer_head_bytes:
            following = position + wire.answer_bytes(buffer, position)
            if following > end:
                self._owed_bytes = following - end
                position = end
                break
            position = following
            answers += 1
        self._kept_bytes = end - position
        if self._kept_bytes:
            buffer[: self._kept_bytes] = buffer[position:end]
        return answers


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
