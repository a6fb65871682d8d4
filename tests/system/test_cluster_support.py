"""What tests of failures rely on: that a cluster's brokers die, stop and come back as asked."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.kit.processes.cluster import Cluster


def answers(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def state_of(process_id: int) -> str:
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]


def test_brokers_die_stop_and_come_back(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        addresses = cluster.addresses
        assert list(map(answers, addresses.values())) == [True] * 3
        assert cluster.bootstrap.split(",") == list(addresses.values())

        cluster.stop(1)
        assert state_of(cluster.process_id(1)) == "T"
        cluster.resume(1)
        assert state_of(cluster.process_id(1)) != "T"

        cluster.kill(2)
        assert (cluster.is_running(2), answers(addresses[2])) == (False, False)
        stamp = (cluster.data(2) / "meta").read_bytes()
        cluster.start(2)
        assert answers(addresses[2])
        assert (cluster.data(2) / "meta").read_bytes() == stamp

        assert cluster.terminate(2) == 0
        cluster.wipe(2)
        assert not cluster.data(2).exists()
        cluster.start(2)
        assert (cluster.data(2) / "meta").read_bytes() != stamp
        assert cluster.log(2).count("listening on") == 3

        cluster.stop(3)
        processes = [cluster.process_id(broker_id) for broker_id in cluster.ids]
    assert not any(Path(f"/proc/{process_id}").exists() for process_id in processes)


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with Cluster(tmp_path, 1, is_started=False) as cluster:
        cluster.data(1).parent.mkdir(exist_ok=True)
        cluster.data(1).write_text("no folder")
        with pytest.raises(AssertionError, match="it ended: error: "):
            cluster.start(1)
