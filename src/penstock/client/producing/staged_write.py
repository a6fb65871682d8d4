"""Writes that appear all at once and exactly once: staged by many tasks, committed by one driver.

A task sends finished record batches, which the broker keeps out of every reader's sight; the driver
commits the attempts that count. Which those are is the caller's to know. The invariants: the
batches of an attempt are kept in the order in which they were given, each once, however often they
had to be sent; and `flush` returns only when the broker has all of them durably.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

from penstock.client.concurrency.tasks import TaskScope
from penstock.client.config import ClientConfig
from penstock.client.connection.routes import STAGED_WRITES, Routes
from penstock.model.errors import (
    ClientClosed,
    InvalidRequest,
    MalformedFrame,
    PenstockError,
    StagedBatchesMissing,
    TimedOut,
    UnknownTopic,
)
from penstock.model.limits import MIB
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import (
    ABORT_STAGED,
    COMMIT_STAGED,
    COMMITTED_EPOCH,
    STAGE,
    parse,
)
from penstock.records.header import read_header

logger = logging.getLogger(__name__)

# Sent and not yet durable: enough that the broker's disk never waits for the network.
_FLYING_BYTES_MAX: Final = 16 * MIB
_FLYING_BATCHES_MAX: Final = 1_000
# A producer's delivery timeout: how long nothing at all may get through before it is an error.
_SILENCE_S_MAX: Final = 120.0


@dataclass(frozen=True, slots=True)
class StagedAttempt:
    """What one attempt has staged: small, and made to travel from a task to its driver."""

    attempt: str
    batches: int
    records: int


@dataclass(frozen=True, slots=True)
class CommittedWrite:
    """What became of a commit. `already`: this epoch or a later one had been committed before,
    perhaps by this very call, if the broker's answer to its first try was lost."""

    already: bool
    records: int


class StagedWrite:
    """Made by `Client.staged_write`; use it in an `async with`, which drops what was staged when it
    is left by an error."""

    def __init__(
        self,
        routes: Routes,
        config: ClientConfig,
        *,
        write: str,
        epoch: int,
        attempt: str | None,
        on_end: Callable[[StagedWrite], None],
    ) -> None:
        self.write = write
        self.epoch = epoch
        self.attempt = attempt or uuid.uuid4().hex
        self._routes = routes
        self._request_timeout_s = config.request_timeout_s
        self._backoff = config.backoff
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._scope = TaskScope()
        self._channel: Channel | None = None
        self._batches = 0
        self._records = 0
        # Given and not acknowledged, in order; the first `_sent` of them are on their way, and
        # `_flying` calls have no answer yet.
        self._waiting: deque[_Batch] = deque()
        self._waiting_bytes = 0
        self._sent = 0
        self._flying = 0
        self._is_recovering = False
        self._failures = 0
        self._progress_at_s = self._loop.time()
        self._progress = asyncio.Event()
        self._failure: PenstockError | None = None
        # The epoch is committed: whatever is staged from now on does not count.
        self._is_decided = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._end()
        if error is not None and self._batches and not self._is_decided:
            try:
                await abort_staged(self._routes, self.write, self.epoch, [self.attempt])
            except PenstockError as problem:
                # It is dropped in any case, when a later epoch is committed or after a day.
                logger.warning("Attempt %s could not be dropped now: %s", self.attempt, problem)

    async def stage(self, topic: str, partition: int, batch: bytes | bytearray) -> None:
        """Have the broker keep one record batch for the partition. Returns when it is on its way;
        waits while much is. The bytes must not be changed any more. Raises what went wrong with
        an earlier one."""
        self._raise_failure()
        if self._is_decided:
            return
        route = await self._routes.topic(topic, create=True)
        if not 0 <= partition < route.partition_count:
            route = await self._routes.topic(topic, refresh=True)
        if not 0 <= partition < route.partition_count:
            raise UnknownTopic(
                f"Topic {topic!r} has no partition {partition}: it has {route.partition_count}, "
                f"numbered from 0."
            )
        records = read_header(batch).record_count
        while self._waiting_bytes >= _FLYING_BYTES_MAX or len(self._waiting) >= _FLYING_BATCHES_MAX:
            await self._next_progress()
        request = pb.StageRequest(
            write=self.write,
            epoch=self.epoch,
            attempt=self.attempt,
            sequence=self._batches,
            topic=topic,
            partition=partition,
        )
        if not self._waiting:
            self._progress_at_s = self._loop.time()
        self._waiting.append(_Batch(request.SerializeToString(), batch))
        self._waiting_bytes += len(batch)
        self._batches += 1
        self._records += records
        self._pump()

    async def flush(self) -> StagedAttempt:
        """Wait until everything staged is durable on the broker; what the commit has to name."""
        while self._waiting and not self._is_decided:
            await self._next_progress()
        self._raise_failure()
        return StagedAttempt(self.attempt, self._batches, self._records)

    async def _next_progress(self) -> None:
        self._raise_failure()
        self._progress.clear()
        await self._progress.wait()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _pump(self) -> None:
        """Send what was not sent yet, in order, unless something has to be mended first."""
        if self._is_recovering or self._failure is not None:
            return
        channel = self._channel
        if channel is None or channel.connection.is_closed:
            if self._flying == 0:
                self._recover()
            return
        while self._sent < len(self._waiting):
            batch = self._waiting[self._sent]
            try:
                channel.start_call(
                    STAGE.number,
                    batch.envelope,
                    (batch.payload,),
                    partial(self._answered, batch),
                    self._request_timeout_s,
                )
            except PenstockError as error:
                self._fail(error)
                return
            self._sent += 1
            self._flying += 1

    def _answered(
        self,
        batch: _Batch,
        error: PenstockError | None,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        del payload
        self._flying -= 1
        if error is None:
            try:
                answer = parse(pb.StageResponse, envelope)
                self._is_decided = self._is_decided or answer.already
            except MalformedFrame as malformed:
                error = malformed
        if error is None:
            self._waiting.remove(batch)  # the first: the broker answers in order
            self._waiting_bytes -= len(batch.payload)
            self._sent -= 1
            self._failures = 0
            self._progress_at_s = self._loop.time()
            self._progress.set()
        elif error.retriable or self._follows_another(batch, error):
            self._is_recovering = True
            logger.info("Attempt %s stages again: %s", self.attempt, error)
            if self._loop.time() - self._progress_at_s > _SILENCE_S_MAX:
                self._fail(TimedOut(f"Nothing could be staged for {_SILENCE_S_MAX:g} s: {error}"))
        else:
            self._fail(error)
        if self._is_recovering and self._flying == 0:
            self._recover()

    def _follows_another(self, batch: _Batch, error: PenstockError) -> bool:
        """Whether the broker misses one that is to be sent again anyway."""
        return isinstance(error, StagedBatchesMissing) and self._waiting[0] is not batch

    def _fail(self, error: PenstockError) -> None:
        if self._failure is None:
            self._failure = error
        self._progress.set()

    def _recover(self) -> None:
        self._is_recovering = True
        if self._failure is None:
            self._scope.start(self._recovery(), name=f"staging of {self.attempt}")

    async def _recovery(self) -> None:
        """With no answer outstanding: find a channel, and send again all that is not durable."""
        while True:
            await asyncio.sleep(self._backoff.wait_s(self._failures))
            try:
                async with asyncio.timeout(self._request_timeout_s):
                    self._channel = await self._routes.coordinator(
                        STAGED_WRITES, refresh=self._failures > 0
                    )
                break
            except (TimeoutError, PenstockError) as error:
                problem = error if isinstance(error, PenstockError) else TimedOut()
                silence_s = self._loop.time() - self._progress_at_s
                if silence_s > _SILENCE_S_MAX or not problem.retriable:
                    self._fail(problem)
                    return
            self._failures += 1
        self._failures += 1
        self._sent = 0
        self._is_recovering = False
        self._pump()

    async def _end(self) -> None:
        self._fail(ClientClosed("The staged write has ended: begin another one."))
        await self._scope.close()
        self._on_end(self)


class _Batch:
    """Compared by identity, since two may have the same bytes."""

    __slots__ = ("envelope", "payload")

    def __init__(self, envelope: bytes, payload: bytes | bytearray) -> None:
        self.envelope = envelope
        self.payload = payload


async def commit_staged(
    routes: Routes,
    config: ClientConfig,
    request: pb.CommitStagedRequest,
) -> CommittedWrite:
    """Let what the attempts staged appear; returns when all of it is readable, however long the
    broker takes for it."""
    # So that an answer comes within a request's time, whatever there is to copy.
    request.max_wait_ms = config.request_timeout_ms // 2
    answer = await routes.call_coordinator(STAGED_WRITES, COMMIT_STAGED, request)
    already = answer.already
    while not answer.readable:
        answer = await routes.call_coordinator(STAGED_WRITES, COMMIT_STAGED, request)
    return CommittedWrite(already, answer.records)


def commit_request(
    write: str, epoch: int, attempts: Iterable[StagedAttempt], *, last: bool
) -> pb.CommitStagedRequest:
    request = pb.CommitStagedRequest(write=write, epoch=epoch, last=last)
    for attempt in attempts:
        if not isinstance(attempt, StagedAttempt):
            raise InvalidRequest(
                f"{attempt!r} is no StagedAttempt: commit what `StagedWrite.flush` returned."
            )
        request.attempts.add(attempt=attempt.attempt, batches=attempt.batches)
    return request


async def abort_staged(routes: Routes, write: str, epoch: int, attempts: Sequence[str]) -> None:
    request = pb.AbortStagedRequest(write=write, epoch=epoch, attempts=attempts)
    await routes.call_coordinator(STAGED_WRITES, ABORT_STAGED, request)


async def committed_epoch(routes: Routes, write: str) -> int | None:
    answer = await routes.call_coordinator(
        STAGED_WRITES, COMMITTED_EPOCH, pb.CommittedEpochRequest(write=write)
    )
    return answer.epoch if answer.HasField("epoch") else None
