"""kcat as a member of a consumer group: what `member_main.py` is for Python's clients.

The process that `members.py` started becomes kcat itself, so that what happens to it (SIGKILL,
SIGSTOP) happens to kcat; a child of it turns what kcat prints into events, and ends after it.
Invariant: an event has the time at which kcat did it, not the one at which it was heard here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, NoReturn

from tests.system.kafka.provide import kcat

_LOG_MARK = "%7|"
_REBALANCED = re.compile(r"rebalanced \(memberid \S+\): (assigned|revoked): (.*)")
_PARTITION = re.compile(r"(\S+) \[(\d+)\]")


def main() -> None:
    request = json.loads(sys.stdin.readline())
    kcat_id = os.getpid()
    values, values_end = os.pipe()
    messages, messages_end = os.pipe()
    if os.fork():
        os.dup2(values_end, sys.stdout.fileno())
        os.dup2(messages_end, sys.stderr.fileno())
        become_kcat(request)
    os.close(values_end)
    os.close(messages_end)
    threading.Thread(target=_interrupt_after_the_next_line, args=(kcat_id,), daemon=True).start()
    reading = threading.Thread(target=tell_values, args=(os.fdopen(values),))
    reading.start()
    tell_rebalances(os.fdopen(messages))
    reading.join()


def become_kcat(request: dict[str, Any]) -> NoReturn:
    settings = {
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 200,
        "partition.assignment.strategy": request["protocol"],
        "session.timeout.ms": request["session_timeout_ms"],
        "heartbeat.interval.ms": 500,
    }
    program = kcat()
    # The log is for its times: what kcat prints has none.
    command = program.with_arguments("-b", request["bootstrap"], "-d", "cgrp", "-u", "-f", "%s\\n")
    for name, value in settings.items():
        command += ["-X", f"{name}={value}"]
    command += ["-G", request["group"], *request["topics"]]
    os.execvpe(command[0], command, program.whole_environment)


def tell_values(printed: IO[str]) -> None:
    for line in printed:
        _tell("read", time.monotonic_ns(), value=line.strip())


def tell_rebalances(printed: IO[str]) -> None:
    for at_ns, line in timed_lines(printed):
        if rebalanced := _REBALANCED.search(line):
            event, listed = rebalanced.groups()
            partitions = [(topic, int(number)) for topic, number in _PARTITION.findall(listed)]
            _tell(event, at_ns, partitions=partitions)


def timed_lines(printed: IO[str]) -> Iterator[tuple[int, str]]:
    """kcat's own lines, each with the time of the log line before it. kcat writes a line in
    pieces, and whole lines of librdkafka's log come between them."""
    # The largest of many: no moment passed between its two readings.
    wall_clock_ns = max(time.time_ns() - time.monotonic_ns() for _ in range(100))
    at_ns = 0
    line = ""
    for more in printed:
        piece, mark, logged = more.partition(_LOG_MARK)
        line += piece
        if mark:
            seconds, milliseconds = logged.partition("|")[0].split(".")
            at_ns = (int(seconds) * 1_000 + int(milliseconds)) * 1_000_000 - wall_clock_ns
        else:
            yield at_ns, line
            line = ""


def _tell(event: str, at_ns: int, **more: object) -> None:
    # One write: two threads tell.
    told = json.dumps({"event": event, "at_ns": str(at_ns), **more})
    os.write(sys.stdout.fileno(), f"{told}\n".encode())


def _interrupt_after_the_next_line(kcat_id: int) -> None:
    sys.stdin.readline()
    if os.getppid() == kcat_id:  # if not, it was killed, and its number may be another's
        os.kill(kcat_id, signal.SIGINT)


if __name__ == "__main__":
    main()
