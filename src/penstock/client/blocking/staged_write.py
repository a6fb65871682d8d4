"""A staged write for code without an event loop: each call waits for its result.

A facade of `client.producing.staged_write`, on the loop of the blocking client.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from penstock.client.concurrency.loop_thread import LoopThread
from penstock.client.producing.staged_write import StagedAttempt, StagedWrite


class BlockingStagedWrite:
    """See `StagedWrite`. Made by `BlockingClient.staged_write`; use it in a `with`."""

    def __init__(self, thread: LoopThread, staged: StagedWrite) -> None:
        self._thread = thread
        self._staged = staged

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.run(self._staged.__aexit__(kind, error, traceback))

    @property
    def attempt(self) -> str:
        return self._staged.attempt

    def stage(self, topic: str, partition: int, batch: bytes | bytearray) -> None:
        """Have the broker keep one record batch; waits only while much is on its way."""
        self._thread.run(self._staged.stage(topic, partition, batch))

    def flush(self) -> StagedAttempt:
        """Wait until everything staged is durable on the broker; what the commit has to name."""
        return self._thread.run(self._staged.flush())
