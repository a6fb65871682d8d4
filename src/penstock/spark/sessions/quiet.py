"""Silences what Spark's Python side tells although it raises it as well.

Not the JVM's log (gateway.py). PySpark logs a query's mistake as JSON with a Java stack trace, and
when the JVM ends, py4j and the server of accumulators show tracebacks of their own. The invariant:
nothing is silenced that is not raised too, so whoever catches errors is told each once.
"""

from __future__ import annotations

import logging
import os
import sys
from socketserver import BaseServer
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext

_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_PY4J_FILE: Final = os.path.join("py4j", "java_gateway.py")


def tell_once(context: SparkContext) -> None:
    """Let the errors of this context, and of its JVM, be raised and nothing else."""
    silence_loggers()
    silence_end(context._accumulatorServer)  # noqa: SLF001


def silence_loggers() -> None:
    """For this process. Doing it again changes nothing."""
    from pyspark.logger import PySparkLogger

    for name in _QUERY_LOGGERS:
        # By Spark's own class: one that `logging` makes does not take what Spark gives it.
        PySparkLogger.getLogger(name).disabled = True
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # Some of it py4j tells the root logger.
    logging.getLogger().addFilter(_is_not_of_py4j)


def silence_end(server: BaseServer) -> None:
    """That the JVM does not answer any more is no error of the server of accumulators."""
    tell = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            tell(request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return not record.pathname.endswith(_PY4J_FILE)
