"""Starts Spark so that topics are tables in it: Java found, addresses and Python set, registered.

Not the data source itself, nor the JVM's start (gateway.py). The invariant: what the user has set,
in the environment or in `config`, stays as it is; and what is known to fail after a minute of
waiting (a master that nobody is at) fails at once, in one sentence.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

import penstock
from penstock.model.errors import InvalidConfig, UnavailableError
from penstock.spark.errors import NOT_INSTALLED
from penstock.spark.sessions.gateway import launch, quiet_log_option
from penstock.spark.sessions.java import java_home
from penstock.spark.sessions.quiet import tell_once

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PROBE_SECONDS_MAX: Final = 5.0
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOG_OPTION: Final = "log4j2.configurationFile"
_MASTERS: Final = re.compile(
    r"local(\[(?P<threads>\*|[1-9]\d*)(,\s*[1-9]\d*)?\])?"
    r"|local-cluster\[\s*(?P<workers>\d+)\s*,\s*(?P<cores>\d+)\s*,\s*\d+\s*\]"
    r"|spark://(?P<hosts>[^,/\s]+:\d+(,[^,/\s]+:\d+)*)"
    r"|yarn|k8s://\S+"
)
# What people want of a command and a script, unless they say otherwise.
_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Larger Arrow batches than Spark's 10,000 rows: fewer crossings between Python and the JVM.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.python.filterPushdown.enabled": "true",
}


def session(
    master: str = "local[*]",
    app_name: str = "penstock",
    config: Mapping[str, str] | None = None,
    *,
    quiet: bool = True,
) -> SparkSession:
    """A Spark session with the data source `penstock` registered.

    If this process has one already, that one is given, with `config` set in it where Spark allows.
    `quiet`: the log tells errors only, each once; without it, Spark's own log settings are kept.
    On a local master queries shuffle to as many partitions as it has cores, unless `config` has
    `spark.sql.shuffle.partitions`."""
    try:
        from py4j.protocol import Py4JError
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
        from pyspark.version import __version__ as version
    except ImportError:
        raise InvalidConfig(NOT_INSTALLED) from None
    from penstock.spark.source.data_source import register

    # Spark tells in no public way whether this process has a context.
    if SparkContext._active_spark_context is None:  # noqa: SLF001
        check_master(master)
        os.environ["JAVA_HOME"] = java_home()
        if os.environ.setdefault("PYSPARK_PYTHON", sys.executable) != sys.executable:
            # Another Python, as executors have it, also plans reads and writes beside the driver.
            paths = [_package_folder(), os.environ.get("PYTHONPATH", "")]
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        if is_local(master):
            # Otherwise Spark asks the resolver for this machine's name, which may answer anything.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        context = _start(_settings(master, app_name, config or {}, quiet=quiet))
        if quiet:
            tell_once(context)
    builder = SparkSession.builder
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except Py4JError:
        # The context has stopped itself: a master did not let the application in, for a minute.
        raise UnavailableError(
            f"{master} was reached and did not accept the application: is it a Spark master, of "
            f"Spark {version}?"
        ) from None
    register(spark)
    return spark


def is_local(master: str) -> bool:
    """Whether driver and executors are all on this machine."""
    return master.startswith("local")


def check_master(master: str) -> None:
    """InvalidConfig for what is no master, UnavailableError for one that nobody is at."""
    found = _MASTERS.fullmatch(master)
    if found is None:
        raise InvalidConfig(
            f"{master!r} is no Spark master: write local[*], local[4], spark://HOST:PORT, yarn or "
            "k8s://HOST:PORT."
        )
    if found["hosts"] is None:
        return
    # Spark itself would try for a minute.
    for address in found["hosts"].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECONDS_MAX).close()
        except (OSError, OverflowError):
            continue
        return
    raise UnavailableError(
        f"No Spark master answers at {master}: start it, or use --master 'local[*]'."
    )


def _settings(
    master: str, app_name: str, config: Mapping[str, str], *, quiet: bool
) -> dict[str, str]:
    """All of Spark's settings for a start."""
    settings = {**_DEFAULTS, "spark.master": master, "spark.app.name": app_name}
    if is_local(master):
        settings["spark.driver.host"] = "127.0.0.1"
        # Of Spark's 200 most are without rows where there is one machine; a stream has them all.
        settings["spark.sql.shuffle.partitions"] = str(_local_cores(master))
    settings.update(config)
    options = settings.get(_DRIVER_OPTIONS, "")
    if quiet and _LOG_OPTION not in options:
        settings[_DRIVER_OPTIONS] = f"{options} {quiet_log_option()}".lstrip()
    return settings


def _local_cores(master: str) -> int:
    """How many tasks run at once on a master of this machine."""
    found = _MASTERS.fullmatch(master)
    assert found is not None, master
    if found["workers"] is not None:
        return max(1, int(found["workers"]) * int(found["cores"]))
    if found["threads"] == "*":
        return os.cpu_count() or 1
    return int(found["threads"] or 1)


@cache
def _package_folder() -> str:
    """A folder in which a Python finds our package and nothing else of our Python's."""
    folder = tempfile.mkdtemp(prefix="penstock-package-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = os.path.dirname(os.path.abspath(penstock.__file__))
    os.symlink(package, os.path.join(folder, "penstock"))
    return folder


def _start(settings: Mapping[str, str]) -> SparkContext:
    """A Spark context, made the one that sessions of this process use."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext

    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    # A context that was stopped leaves its JVM for the next one.
    gateway = launch(conf) if SparkContext._gateway is None else None  # noqa: SLF001
    try:
        return SparkContext(conf=conf, gateway=gateway)
    except (Py4JError, ValueError) as error:
        raise UnavailableError(f"Spark did not start: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The line of a Java error that says what is wrong."""
    lines = str(error).splitlines()
    for line in lines:
        if found := re.search(r"(?:Exception|Error): (.+)", line):
            return found[1]
    return lines[-1] if lines else type(error).__name__
