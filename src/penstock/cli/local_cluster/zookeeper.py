"""A real ZooKeeper server from the jars that PySpark brings: its files, its command, its pulse.

For one machine: a cluster that has to survive that machine names a ZooKeeper of its own with
`--registry`. Starts no process. The invariant: it listens on this machine alone, since its port
knows no password.
"""

from __future__ import annotations

import asyncio
import os
from glob import escape, glob
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from penstock.model.errors import InvalidConfig
from penstock.storage.files.files import typed

_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# What the server loads, by how the files' names begin; PySpark has hundreds more.
_JARS: Final = (
    "zookeeper-3",
    "zookeeper-jute-3",
    "netty-buffer",
    "netty-codec-base",
    "netty-codec-4",
    "netty-common",
    "netty-handler-4",
    "netty-resolver-4",
    "netty-transport-4",
    "netty-transport-classes-epoll",
    "netty-transport-native-unix-common",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "log4j-core",
    "metrics-core",
    "snappy-java",
)
# A quick start and little memory: it keeps some kilobytes of facts.
_JAVA_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m")
# Sessions are timed in these; the shortest is two of them.
_TICK_MS: Final = 200
_ANSWER_SECONDS_MAX: Final = 1.0
_ANSWER_BYTES_MAX: Final = 64 * 1024


def zookeeper_command(folder: Path, port: int, *, extra: str = "") -> list[str]:
    """Write the server's configuration into the folder, and tell the command that starts it; one
    sentence if Java or PySpark is missing. `extra` is more of its configuration."""
    from penstock.spark.sessions.java import find_java

    jars = _jars()
    java = os.path.join(find_java("ZooKeeper").home, "bin", "java")
    try:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "zoo.cfg").write_text(
            f"tickTime={_TICK_MS}\ndataDir={folder.absolute()}/data\nclientPort={port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n"
            # It would keep every snapshot and log there ever was.
            "autopurge.snapRetainCount=3\nautopurge.purgeInterval=1\n" + extra
        )
    except OSError as error:
        raise typed(error, f"writing ZooKeeper's configuration into {folder}") from error
    return [java, *_JAVA_OPTIONS, "-cp", os.pathsep.join(jars), _MAIN, str(folder / "zoo.cfg")]


async def is_serving(port: int) -> bool:
    """Whether the server on this port answers clients."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS_MAX):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"srvr")
                return b"Mode: " in await reader.read(_ANSWER_BYTES_MAX)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


def _jars() -> list[str]:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise InvalidConfig(
            "ZooKeeper's server comes with PySpark, which is missing: "
            "pip install 'penstock[spark,zookeeper]', or name another server with --registry."
        )
    folder = os.path.join(os.path.dirname(found.origin), "jars")
    jars = []
    for name in _JARS:
        of_name = glob(f"{escape(folder)}/{name}*.jar")
        if not of_name:
            raise InvalidConfig(
                f"PySpark's folder {folder} has no {name} jar, which ZooKeeper's server needs: "
                "install PySpark 4.3 or later, or name another server with --registry."
            )
        jars += of_name
    return jars
