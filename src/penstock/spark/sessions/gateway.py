"""Starts the JVM that Spark's driver runs in, quietly, and keeps its last words.

Not the session (sessions.py), nor which Java (java.py). What the JVM and the Python workers of a
local run write to the standard error comes through a pipe of ours: lines that greet nobody in
particular are dropped, the others are passed on. The invariant: the pipe is read for as long as
the JVM lives, so it never waits for us; a JVM that does not start, or that ends before its time, is
one sentence.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from penstock.model.errors import UnavailableError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

# From when a JVM's connections are closed until its process is gone: it may have memory to free.
_END_SECONDS_MAX: Final = 5.0
# Kept of what is said before the start succeeds or fails.
_FIRST_LINES: Final = 200
# What a JVM and Spark say whenever they start, whatever their log level.
_GREETINGS: Final = (
    "WARNING: Using incubator modules",
    "WARNING: package ",
    "WARNING: A terminally deprecated method",
    "WARNING: sun.misc.Unsafe::",
    "WARNING: Please consider reporting this",
    "Using Spark's default log4j profile",
    "Setting default log level to",
    "Setting Spark log level to",
    "To adjust logging level use",
)
# Errors only. Those that Spark logs and then raises as well reach the caller once, as an exception.
_LOG_SETTINGS: Final = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %m%n%ex{{1}}
{raised}"""
_RAISED_AS_WELL: Final = (
    "org.apache.spark.SparkContext",
    "org.apache.spark.api.python",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler",
    "org.apache.spark.sql.execution",
    "org.apache.spark.util.Utils",
)
_CAUSE: Final = re.compile(r"(?:Exception|Error): (?P<reason>.+)")


def launch(conf: SparkConf) -> JavaGateway:
    """Start the driver's JVM with this configuration; UnavailableError with its last words."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    reading, writing = os.pipe()
    pump = _Pump(reading)
    pump.start()
    try:
        gateway: JavaGateway = launch_gateway(conf, {"stderr": writing})  # type: ignore[no-untyped-call]
        pump.has_started.set()
        return gateway
    except PySparkRuntimeError:
        os.close(writing)
        writing = -1
        pump.join()
        raise UnavailableError(f"Spark did not start: {pump.reason()}") from None
    finally:
        if writing >= 0:
            os.close(writing)


def end_sentence(error: BaseException) -> str | None:
    """One sentence if the JVM has ended, and this error is how it showed; its process knows."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import SparkContext

    if not isinstance(error, ConnectionError | Py4JError) or isinstance(error, Py4JJavaError):
        return None
    # Spark tells in no public way which process its JVM is. Under spark-submit it is not ours.
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    if process is None:
        return None
    try:
        return _told_end(process.wait(_END_SECONDS_MAX))
    except subprocess.TimeoutExpired:
        return None


def _told_end(code: int) -> str:
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return (
        f"Spark's JVM {how}, as happens when memory runs out: run it again; streams, and replays "
        "with a checkpoint, go on where they stopped."
    )


@cache
def quiet_log_option() -> str:
    """A JVM option that makes Spark's log tell errors only; its file goes with the process."""
    folder = tempfile.mkdtemp(prefix="penstock-spark-log-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    raised = "".join(
        f"logger.{number}.name = {name}\nlogger.{number}.level = off\n"
        for number, name in enumerate(_RAISED_AS_WELL)
    )
    path = os.path.join(folder, "log4j2.properties")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_LOG_SETTINGS.format(raised=raised))
    return f"-Dlog4j2.configurationFile=file:{path}"


class _Pump(threading.Thread):
    """Carries lines from the JVM's standard error to ours."""

    def __init__(self, reading: int) -> None:
        super().__init__(name="penstock-spark-stderr", daemon=True)
        self._reading = reading
        self._first: deque[str] = deque(maxlen=_FIRST_LINES)
        self.has_started = threading.Event()

    def run(self) -> None:
        with open(self._reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(_GREETINGS):
                    continue
                if not self.has_started.is_set():
                    # If the start fails, one sentence is made of them.
                    self._first.append(line)
                    continue
                # To whatever it is now: a live table puts itself in its place. And whatever
                # becomes of it, the JVM must be able to write.
                with suppress(OSError, ValueError):
                    sys.stderr.write(line)

    def reason(self) -> str:
        """The first exception that is told of, or the last line."""
        for line in self._first:
            if found := _CAUSE.search(line):
                return found["reason"]
        told = [line.strip() for line in self._first if line.strip()]
        return told[-1] if told else "it said nothing."
