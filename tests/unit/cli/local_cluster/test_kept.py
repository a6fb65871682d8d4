"""What a local cluster keeps for its next start."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from penstock.broker.config import BrokerConfig
from penstock.cli.local_cluster.kept import Kept, check_single, command_of, read_kept, write_kept
from penstock.model.errors import CorruptLog, InvalidConfig
from penstock.storage.files.journal import write_journal
from penstock.storage.files.os_files import OsDirectory

KEPT = Kept(registry="meta", voters=(1, 2), ports={1: (9092,), 2: (9093,)})


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    data = str(tmp_path / "new" / "folder")
    assert read_kept(data) is None
    write_kept(data, KEPT)
    assert read_kept(data) == KEPT
    other = Kept(registry="zookeeper", ports={7: (1, 2)}, zookeeper_port=2181)
    write_kept(data, other)
    assert read_kept(data) == other


def test_a_folder_of_somebody_else_gets_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    with pytest.raises(InvalidConfig, match="is not empty and not Penstock's"):
        write_kept(str(tmp_path), KEPT)
    assert [each.name for each in tmp_path.iterdir()] == ["bin"]
    grown = tmp_path / "grown"
    grown.mkdir()
    write_journal(OsDirectory(str(grown)), "meta", b"{}")
    write_kept(str(grown), KEPT)


def test_the_names_of_folders_that_are_made_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-STO-6: or a power loss could take the folder with all that was acknowledged."""
    flushed: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    data = tmp_path / "new" / "folder"
    write_kept(str(data), KEPT)
    for parent in (tmp_path, tmp_path / "new", data):
        assert parent.stat().st_ino in flushed, parent


@pytest.mark.parametrize(
    "changed",
    [
        {"registry": "etcd"},
        {"registry": ["meta"]},
        {"voters": [1, 3]},
        {"voters": ["1"]},
        {"voters": 1},
        {"ports": {}},
        {"ports": {"x": [1]}},
        {"ports": {"1": [65536], "2": [1]}},
        {"ports": {"1": [True], "2": [1]}},
        {"ports": [1]},
        {"zookeeper_port": -1},
        {"zookeeper_port": None},
    ],
)
def test_what_it_cannot_be_is_refused(tmp_path: Path, changed: dict[str, object]) -> None:
    fields = {"registry": "meta", "voters": [1], "ports": {"1": [1], "2": [2]}, "zookeeper_port": 0}
    write_journal(OsDirectory(str(tmp_path)), "cluster.journal", json.dumps(fields).encode())
    assert read_kept(str(tmp_path)) is not None
    damaged = json.dumps(fields | changed).encode()
    write_journal(OsDirectory(str(tmp_path)), "cluster.journal", damaged)
    with pytest.raises(CorruptLog, match="cannot be understood"):
        read_kept(str(tmp_path))


def test_it_says_how_it_is_started() -> None:
    assert command_of(KEPT) == "--brokers 2"
    assert command_of(Kept(registry="zookeeper", ports={4: ()})) == (
        "--brokers 1 --broker-id 4 --with-zookeeper"
    )
    assert command_of(Kept(registry="given", ports={1: ()})) == "--brokers 1 and its --registry"


def test_a_broker_by_itself_does_not_split_a_cluster(tmp_path: Path) -> None:
    data = str(tmp_path)
    alone = BrokerConfig(data=data)
    member = BrokerConfig(data=data, registry="meta://1@127.0.0.1:9092")
    check_single(alone)
    check_single(member)
    write_kept(data, KEPT)
    for config in (alone, member):
        with pytest.raises(InvalidConfig, match="start all of it with --brokers 2, or"):
            check_single(config)
    # The folder of the broker that grew: it is the cluster's first.
    (tmp_path / "meta").touch()
    check_single(member)
    with pytest.raises(InvalidConfig, match="holds a cluster"):
        check_single(alone)
