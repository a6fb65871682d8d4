"""What tests of failures rely on: a scene in which something fails leaves nothing behind, so that
the failure is what is reported."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.histories.messages import History, check_no_duplicates, check_reading_order
from tests.kit.processes.cluster import Cluster
from tests.kit.processes.proxy import Network
from tests.system.cluster.scene import under_load

MESSAGES = 20_000


class Failure(Exception):
    """Of a test's body."""


def test_a_body_that_fails_leaves_no_worker_behind(tmp_path: Path) -> None:
    """Also where nobody can reach a broker any more. What clients had open is closed, or the
    warning of it would be an error here."""
    before = set(threading.enumerate())
    with (  # noqa: PT012
        pytest.raises(Failure),
        Network() as network,
        Cluster(tmp_path, network=network) as cluster,
        under_load(cluster) as scene,
    ):
        hired = set(threading.enumerate()) - before
        assert {worker.name for worker in (*scene.producers, *scene.followers)} <= {
            thread.name for thread in hired
        }
        for broker in cluster.ids:
            cluster.stop(broker)
        raise Failure
    assert not [thread.name for thread in hired if thread.is_alive()]


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns much more often, so that what can meet does."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("restless")
def test_a_history_is_looked_at_while_it_is_written() -> None:
    """By threads that add messages and readers all the time."""
    history = History(1)
    history.send("first", 0)

    def write(name: str) -> None:
        for number in range(MESSAGES):
            sent = history.send(name, 0)
            history.read(f"{name} {number}", 0, number, sent.value)
            history.acknowledge(sent, number)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        history.report()
        for reader in history.readers()[:2]:
            check_no_duplicates(history, reader)
            check_reading_order(history, reader)
    assert history.acknowledged(0) == 2 * MESSAGES
