"""Does publishing take longer when many read? The round trip of one small produce while nobody
reads the topic and while ten readers of a kind do, and how long until they have the message.
One message each 20 ms, so that whoever reads is done before the next: then what a reader costs the
producer is only whether it is served before the producer is answered. The readers share a process,
which gives way to the producer's; their times are for each message and each reader.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, Final

import uvloop

import penstock
from benchmarks import budgets, cores, servers
from benchmarks.load import Link, percentile
from benchmarks.report import Row
from benchmarks.servers import Server
from benchmarks.wire import KafkaWire, NativeWire, record_batch

_PUBLISH: Final = "produce round trip beside readers"
_DELIVER: Final = "produce to reader"
_PACE_S: Final = 0.02
_WAIT_S_MAX: Final = 60.0
_READERS: Final = 10
NOBODY: Final = "nobody reads"
ONE_POLL: Final = "1 long poll"

Note = Callable[[], None]
"""A reader has the next message."""


class _Readers:
    """Of one topic, in a process of their own: when each of them had which message."""

    def __init__(self, count: int, messages: int, pipe: Connection) -> None:
        self._times: list[list[int]] = [[] for _ in range(count)]
        self._messages = messages
        self._pipe = pipe
        self._lock = threading.Lock()
        self._said = 0

    def notes(self) -> list[Note]:
        return [lambda times=times: self._note(times) for times in self._times]  # type: ignore[misc]

    def _note(self, times: list[int]) -> None:
        times.append(time.monotonic_ns())
        with self._lock:
            # All have seen the first, which does not count; all have seen the last.
            if all(len(found) > self._said * self._messages for found in self._times):
                self._pipe.send([found[1:] for found in self._times])
                self._said += 1


def _share(bootstrap: str, topic: str, note: Note, number: int) -> Coroutine[Any, Any, None]:
    async def run() -> None:
        async with (
            penstock.connect(bootstrap) as queue,
            queue.share(topic, group=f"{topic}-{number}") as consumer,
        ):
            async for message in consumer:
                note()
                await message.ack()

    return run()


def _push(bootstrap: str, topic: str, note: Note, number: int) -> Coroutine[Any, Any, None]:
    del number
    return _subscribe(bootstrap, topic, note, push=True)


def _poll(bootstrap: str, topic: str, note: Note, number: int) -> Coroutine[Any, Any, None]:
    del number
    return _subscribe(bootstrap, topic, note, push=False)


async def _subscribe(bootstrap: str, topic: str, note: Note, *, push: bool) -> None:
    async with (
        penstock.connect(bootstrap) as queue,
        queue.consumer(topic, start="earliest", push=push) as consumer,
    ):
        async for _ in consumer:
            note()


def _kafka_polls(bootstrap: str, topic: str, notes: list[Note]) -> None:
    """Without a client: one batch comes for each request that allows a byte (KIP-74)."""
    host, _, port = bootstrap.rpartition(":")

    def read(note: Note) -> None:
        wire = KafkaWire(topic)
        with Link((host, int(port)), wire) as link:
            offset = 0
            while True:
                link.call(wire.fetch(topic, 0, offset, 1, offset))
                note()
                offset += 1

    for note in notes:
        threading.Thread(target=read, args=(note,), daemon=True).start()
    threading.Event().wait()


def _with_ours(reads: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    def run(bootstrap: str, topic: str, notes: list[Note]) -> None:
        async def all_of_them() -> None:
            async with asyncio.TaskGroup() as tasks:
                for number, note in enumerate(notes):
                    tasks.create_task(reads(bootstrap, topic, note, number))

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(all_of_them())

    return run


# By name, so that another process finds it.
_WAYS: Final[dict[str, tuple[int, Callable[..., None]]]] = {
    ONE_POLL: (1, _with_ours(_poll)),
    f"{_READERS} long polls": (_READERS, _with_ours(_poll)),
    f"{_READERS} long polls by Kafka's protocol": (_READERS, _kafka_polls),
    f"{_READERS} pushed to": (_READERS, _with_ours(_push)),
    f"{_READERS} shared groups": (_READERS, _with_ours(_share)),
}
SUBJECTS: Final = (NOBODY, *_WAYS)


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    del peers
    rounds, count = (1, 50) if quick else (5, 100)
    published_us: dict[str, list[float]] = defaultdict(list)
    delivered_us: dict[str, list[float]] = defaultdict(list)
    with servers.scratch_folder() as folder, servers.start_penstock(folder / "penstock") as server:
        cores.leave_to_load(server.pid)
        for number in range(rounds):
            for subject in SUBJECTS:
                topic = f"readers-{SUBJECTS.index(subject)}-{number}"
                published, delivered = measure(server, subject, topic, count)
                published_us[subject] += published
                delivered_us[subject] += delivered
    rows: list[Row] = []
    for name, share in (("median", 0.5), ("p99", 0.99)):
        question = f"{_PUBLISH}, {name}"
        values = {subject: percentile(times, share) for subject, times in published_us.items()}
        rows += [Row(question, subject, value, "µs") for subject, value in values.items()]
        limit = ("≤", 1.1) if share == 0.5 else None
        rows += budgets.ratios(question, values, {(way, NOBODY): limit for way in _WAYS})
        question = f"{_DELIVER}, {name}"
        for way in _WAYS:
            rows.append(Row(question, way, percentile(delivered_us[way], share), "µs"))
    return rows


def measure(
    server: Server, subject: str, topic: str, count: int
) -> tuple[list[float], list[float]]:
    """How long each produce took, and each message to each reader from when it was produced."""
    servers.create_topic(server, topic, 1, "os")
    wire = NativeWire()
    request = wire.produce(topic, 0, record_batch(100, 1), 1)
    with Link(server.address, wire) as link:
        link.call(request)
        with _reading(server.bootstrap, subject, topic, count) as wait, cores.load():
            wait()
            sent_ns, published_us = [], []
            next_s = time.monotonic()
            for _ in range(count):
                next_s += _PACE_S
                time.sleep(max(0.0, next_s - time.monotonic()))
                sent_ns.append(time.monotonic_ns())
                link.call(request)
                published_us.append((time.monotonic_ns() - sent_ns[-1]) / 1000)
            delivered_us = [
                (had_ns - began_ns) / 1000
                for times in wait()
                for began_ns, had_ns in zip(sent_ns, times, strict=True)
            ]
    assert median(published_us) > 0
    return published_us, delivered_us


@contextmanager
def _reading(
    bootstrap: str, subject: str, topic: str, count: int
) -> Iterator[Callable[[], list[list[int]]]]:
    """Waits until the readers have the first message, and then until they have all of them."""
    if subject == NOBODY:
        yield list
        return
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_read, args=(subject, bootstrap, topic, count, theirs))
    process.start()
    theirs.close()  # so that the end of broken readers is the end of the pipe

    def wait() -> list[list[int]]:
        assert ours.poll(_WAIT_S_MAX), f"{subject}: a message has not come"
        times: list[list[int]] = ours.recv()
        return times

    try:
        yield wait
    finally:
        process.terminate()
        process.join()
        ours.close()


def _read(subject: str, bootstrap: str, topic: str, count: int, pipe: Connection) -> None:
    os.nice(5)
    readers, way = _WAYS[subject]
    with cores.load():
        way(bootstrap, topic, _Readers(readers, count, pipe).notes())
