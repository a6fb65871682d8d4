"""How many megabytes a second does one connection append and fetch in large batches, and what CPU
time does a gigabyte cost the server; beside what the page cache and loopback give by themselves.

Memory that the kernel has just got back is several times faster to write than memory that a virtual
machine has never used. So before each append as many pages are used and freed again: every subject
and the yardstick meet memory of the same kind.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import report, rounds, subjects
from benchmarks.freed_pages import free_pages
from benchmarks.report import Row
from benchmarks.servers import scratch_folder
from benchmarks.subjects import FLOOR, KAFKA, KAFKA_FLUSHED, PENSTOCK_OS, Subject
from benchmarks.wire import record_batch

PAGE_CACHE: Final = "page cache alone"
LOOPBACK: Final = "loopback alone"
_RECORD_BYTES: Final = 1000
# A record of 1,000 bytes takes about ten more for its lengths and deltas.
_BATCHES: Final = {"100 kB": 99, "960 kB": 950}
_IN_FLIGHT: Final = 8
_CHUNK_BYTES: Final = 960_000
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What moving some bytes took."""

    moved_bytes: int
    elapsed_s: float
    cpu_s: float

    @property
    def megabytes_per_s(self) -> float:
        return self.moved_bytes / self.elapsed_s / 1e6

    @property
    def cpu_s_per_gigabyte(self) -> float:
        return self.cpu_s / self.moved_bytes * 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What one round found, by question."""

    flows: dict[str, Flow]

    @property
    def server_us(self) -> float:
        """For a kilobyte, which is a message here: seconds for a gigabyte are as many."""
        return sum(flow.cpu_s_per_gigabyte for flow in self.flows.values())


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    total_bytes = 20_000_000 if quick else 300_000_000
    flows: dict[tuple[str, str], list[Flow]] = defaultdict(list)
    with subjects.running(peers=peers) as measured, scratch_folder() as folder:
        for size, record_count in _BATCHES.items():
            measures: dict[str, Callable[[], Moved]] = {
                PAGE_CACHE: partial(_page_cache, folder, total_bytes),
                LOOPBACK: partial(_loopback, total_bytes),
            }
            for subject in measured:
                if subject.name != KAFKA_FLUSHED:  # of interest where batches are small
                    measures[subject.name] = partial(
                        _move,
                        subject,
                        folder,
                        size,
                        record_count,
                        total_bytes,
                    )
            found = rounds.in_turns(measures, 1 if quick else _ROUNDS, quick=quick)
            for name, of in found.items():
                for moved in of:
                    for question, flow in moved.flows.items():
                        flows[question, name].append(flow)
    return _rows(flows)


def _move(
    subject: Subject,
    folder: Path,
    size: str,
    record_count: int,
    total_bytes: int,
) -> Moved:
    """Append to a topic that is empty, fetch what was appended, and empty it: the disk holds what
    one round writes, however many it takes until everybody is warm."""
    batch = record_batch(_RECORD_BYTES, record_count)
    free_pages(folder, total_bytes)
    flows = {f"append, batches of {size}": _append(subject, batch, total_bytes)}
    if subject.name != FLOOR:  # which cannot fetch
        fetched = _fetch(subject, batch, record_count, total_bytes)
        flows[f"fetch, batches of {size}"] = fetched
    subject.empty()
    return Moved(flows=flows)


def _rows(flows: dict[tuple[str, str], list[Flow]]) -> list[Row]:
    rows = []
    for (question, name), of in flows.items():
        speeds = [flow.megabytes_per_s for flow in of]
        rows.append(report.of_rounds(question, name, speeds, "MB/s"))
        if name == LOOPBACK:
            continue  # both ends are this process: its CPU time is no server's
        costs = [flow.cpu_s_per_gigabyte for flow in of]
        rows.append(report.of_rounds(f"{question}, CPU", name, costs, "CPU-s/GB"))
    rows += _shares({key: median(flow.megabytes_per_s for flow in of) for key, of in flows.items()})
    return sorted(rows, key=lambda row: row.question)


def _shares(speeds: dict[tuple[str, str], float]) -> list[Row]:
    """How close a server comes to the machine. What is appended has been received before, by the
    same core, so the two take their times one after the other."""
    loopback, page_cache = speeds["loopback", LOOPBACK], speeds["page cache", PAGE_CACHE]
    append_most = 1 / (1 / loopback + 1 / page_cache)
    rows = []
    for (question, name), speed in speeds.items():
        if name in (FLOOR, PENSTOCK_OS, KAFKA):
            if question.startswith("append"):
                share = Row(
                    question, f"{name} / loopback, then page cache", speed / append_most, "x"
                )
            else:
                share = Row(question, f"{name} / loopback alone", speed / loopback, "x")
            rows.append(share)
    return rows


def _append(subject: Subject, batch: bytes, total_bytes: int) -> Flow:
    batches = total_bytes // len(batch)
    requests = [
        subject.wire.produce(subject.topic, 0, batch, number) for number in range(_IN_FLIGHT)
    ]
    with subject.link() as link:
        cpu_before_s = subject.server.cpu_s
        done = link.pipeline(
            requests, requests_per_block=1, blocks_in_flight=_IN_FLIGHT, blocks_max=batches
        )
        cpu_s = subject.server.cpu_s - cpu_before_s
    return Flow(moved_bytes=batches * len(batch), elapsed_s=done.elapsed_s, cpu_s=cpu_s)


def _fetch(subject: Subject, batch: bytes, record_count: int, total_bytes: int) -> Flow:
    """Fetch what was appended, a batch at a time."""
    batches = total_bytes // len(batch)
    requests = [
        subject.wire.fetch(subject.topic, 0, number * record_count, len(batch), number)
        for number in range(batches)
    ]
    with subject.link() as link:
        cpu_before_s = subject.server.cpu_s
        done = link.pipeline(
            requests, requests_per_block=1, blocks_in_flight=_IN_FLIGHT, blocks_max=batches
        )
        cpu_s = subject.server.cpu_s - cpu_before_s
        assert link.received_bytes >= batches * len(batch), "every batch was sent"
    return Flow(moved_bytes=batches * len(batch), elapsed_s=done.elapsed_s, cpu_s=cpu_s)


def _page_cache(folder: Path, total_bytes: int) -> Moved:
    """Append to a new file."""
    free_pages(folder, total_bytes)
    chunk = bytes(_CHUNK_BYTES)
    chunks = total_bytes // len(chunk)
    path = folder / "appended"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    start, cpu_before_s = time.perf_counter(), time.process_time()
    for _ in range(chunks):
        os.write(file, chunk)
    elapsed_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_before_s
    os.close(file)
    path.unlink()
    flow = Flow(moved_bytes=chunks * len(chunk), elapsed_s=elapsed_s, cpu_s=cpu_s)
    return Moved(flows={"page cache": flow})


def _loopback(total_bytes: int) -> Moved:
    """Send through a socket to another thread; the interpreter's lock is free during the calls."""
    chunk = bytes(_CHUNK_BYTES)
    chunks = total_bytes // len(chunk)
    with socket.create_server(("127.0.0.1", 0)) as server:
        sending = threading.Thread(target=_send, args=(server.getsockname(), chunk, chunks))
        start, cpu_before_s = time.perf_counter(), time.process_time()
        sending.start()
        received = 0
        buffer = bytearray(1024 * 1024)
        with server.accept()[0] as connection:
            while read := connection.recv_into(buffer):
                received += read
        elapsed_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_before_s
        sending.join()
    flow = Flow(moved_bytes=received, elapsed_s=elapsed_s, cpu_s=cpu_s)
    return Moved(flows={"loopback": flow})


def _send(address: tuple[str, int], chunk: bytes, chunks: int) -> None:
    with socket.create_connection(address) as connection:
        for _ in range(chunks):
            connection.sendall(chunk)
