"""What a local cluster keeps for its next start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.broker.config import BrokerConfig
from penstock.cli.local_cluster.kept import Kept, check_single, command_of, read_kept, write_kept
from penstock.model.errors import CorruptLog, InvalidConfig
from penstock.storage.journal import write_journal
from penstock.storage.os_files import OsDirectory

KEPT = Kept(registry="meta", voters=(1, 2), ports={1: (9092,), 2: (9093,)})


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    data = str(tmp_path / "new" / "folder")
    assert read_kept(data) is None
    write_kept(data, KEPT)
    assert read_kept(data) == KEPT
    other = Kept(registry="zookeeper", ports={7: (1, 2)}, zookeeper_port=2181)
    write_kept(data, other)
    assert read_kept(data) == other


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
