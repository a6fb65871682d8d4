"""Producers and staged writes for code without an event loop.

See `Producer` and `StagedWrite`. The invariant: a message costs the caller no change of thread: it
is appended to the open batch under a lock, and threads are changed once per batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import time_ns

from penstock.client.blocking.facade import ScopeFacade, waits
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.client.producing.accumulator import Headers, Outgoing
from penstock.client.producing.options import with_queue_headers
from penstock.client.producing.producer import Producer, explained
from penstock.client.producing.staged_write import StagedWrite
from penstock.model.errors import PenstockError


class BlockingProducer(ScopeFacade[Producer]):
    """See `Producer`; use it in a `with`. Several threads may use one."""

    def __init__(self, thread: LoopThread, producer: Producer) -> None:
        super().__init__(thread, producer)
        self._lock = producer.accumulator.lock
        self._try_append = producer.accumulator.try_append

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        tag: str | None = None,
        ttl_s: float | None = None,
        priority: int | None = None,
    ) -> None:
        """Queue a message; waits only while the buffer is full. `flush` tells of its delivery."""
        # Spelt out as in `Producer.send`.
        if tag is not None or ttl_s is not None or priority is not None:
            headers = with_queue_headers(headers, tag, ttl_s, priority)
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        try:
            with self._lock:
                is_queued = self._try_append(topic, key, value, headers, partition, timestamp_ms)
        except (TypeError, ValueError) as error:
            raise explained(error, key, value, headers) from None
        if not is_queued:
            message = Outgoing(topic, key, value, headers, partition, timestamp_ms)
            self._thread.run(self._asked.enqueue(message))

    publish = waits(Producer.publish)
    send_batches = waits(Producer.send_batches)
    claim = waits(Producer.claim)
    flush = waits(Producer.flush)
    close = waits(Producer.close)
    abort = waits(Producer.abort)

    @property
    def errors(self) -> Sequence[PenstockError]:
        """With acks=0: the latest errors that came back although no answer was asked for."""
        return self._thread.call(lambda: self._asked.errors)


class BlockingStagedWrite(ScopeFacade[StagedWrite]):
    """See `StagedWrite`. Made by `BlockingClient.staged_write`; use it in a `with`."""

    stage = waits(StagedWrite.stage)
    flush = waits(StagedWrite.flush)

    @property
    def attempt(self) -> str:
        """The name under which this was staged."""
        return self._asked.attempt
