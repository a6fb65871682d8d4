"""The flusher: jobs run on threads, their end is heard on the loop."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from penstock.replication.disk.flusher import ThreadFlusher


class RecordingJob:
    def __init__(self, error: Exception | None = None) -> None:
        self.thread: threading.Thread | None = None
        self.error = error

    def run(self) -> None:
        self.thread = threading.current_thread()
        if self.error is not None:
            raise self.error


async def run_job(job: RecordingJob) -> threading.Thread:
    loop = asyncio.get_running_loop()
    flusher = ThreadFlusher(loop, threads=2)
    flusher.start()
    finished: asyncio.Future[threading.Thread] = loop.create_future()
    flusher.submit(job, lambda: finished.set_result(threading.current_thread()))
    try:
        return await finished
    finally:
        flusher.stop()


async def test_a_job_runs_beside_the_loop_and_ends_on_it() -> None:
    job = RecordingJob()
    assert await run_job(job) is threading.current_thread()
    assert job.thread is not threading.current_thread()


async def test_a_job_that_raises_is_reported_and_its_end_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        await run_job(RecordingJob(ValueError("a bug")))
    assert "a bug" in caplog.text
