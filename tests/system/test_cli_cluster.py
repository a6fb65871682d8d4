"""`penstock cluster` by the real command, against real brokers (R-REP-7)."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.local_cluster.acquainted import until_acquainted
from tests.kit.processes.cluster import Cluster
from tests.kit.processes.up import address_of, up
from tests.system.test_cli import PENSTOCK, SECONDS_MAX, Commands


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), 4) as running:
        asyncio.run(until_acquainted(running.addresses))
        yield running


@pytest.fixture(scope="module")
def commands(cluster: Cluster) -> Commands:
    commands = Commands(",".join(cluster.addresses[broker] for broker in (1, 2, 3)))
    commands.run("topics", "create", "orders", "--partitions", "4")
    return commands


def status(commands: Commands) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(commands.run("cluster", "status", "--json")[0])
    return found


def spread(commands: Commands) -> None:
    """As it was in the beginning: tests come in any order."""
    commands.run("cluster", "move", "orders", "--replicas", "3")
    commands.run("cluster", "rebalance")


def test_a_broker_is_drained_and_added_again(commands: Commands) -> None:
    table, summary = commands.run("cluster", "status", "--all")
    assert table.splitlines()[0].split() == [
        *(b"broker", b"address", b"state", b"leaders", b"replicas", b"bytes")
    ]
    assert "4 partitions: 0 without a leader" in summary
    plan, said = commands.run("cluster", "drain", "4", "--dry-run")
    assert "Nothing was moved" in said
    assert status(commands)["brokers"][3]["drained"] is False

    moved, said = commands.run("cluster", "drain", "4")
    assert (moved, "moved." in said) == (plan, True)
    drained = status(commands)["brokers"][3]
    assert (drained["drained"], drained["replicas"]) == (True, 0)
    assert "Nothing is on broker 4" in commands.run("cluster", "drain", "4")[1]

    moves = json.loads(commands.run("cluster", "add", "4", "--json")[0])
    assert all(set(move) == {"topic", "partition", "from", "to"} for move in moves)
    assert status(commands)["brokers"][3]["replicas"] == 3
    assert "as even as it can be" in commands.run("cluster", "rebalance")[1]


def test_moves_and_copies(commands: Commands) -> None:
    commands.run("cluster", "move", "orders", "--partition", "0", "--to", "4,2,1")
    (first, *_) = status(commands)["partitions"]
    assert (first["target"], sorted(first["replicas"])) == ([4, 2, 1], [1, 2, 4])
    commands.run("cluster", "rebalance", "--leaders")
    assert status(commands)["partitions"][0]["leader"] == 4
    assert "already" in commands.run("cluster", "rebalance", "--leaders")[1]
    commands.run("cluster", "move", "orders", "--replicas", "2")
    assert {len(each["replicas"]) for each in status(commands)["partitions"]} == {2}
    spread(commands)


def test_mistakes_are_one_sentence(commands: Commands) -> None:
    for words, expected in (
        (("move", "orders", "--to", "9"), "There is no live broker 9"),
        (("move", "nothing", "--to", "1"), "There is no topic 'nothing'"),
        (("move", "orders", "--replicas", "7"), "ask for 1 to 4"),
        (("drain", "9"), "There is no broker 9"),
        (("add", "9"), "Broker 9 is not in the cluster now"),
    ):
        _, said = commands.run("cluster", *words, code=1)
        assert said.startswith(f"error: {expected}") or expected in said, said
        assert said.count("\n") == 1


def test_an_interrupted_wait_leaves_it_going(commands: Commands, cluster: Cluster) -> None:
    commands.run("cluster", "move", "orders", "--to", "1,2")
    cluster.stop(4)
    try:
        command = subprocess.Popen(
            [PENSTOCK, "cluster", "move", "orders", "--to", "1,4"],
            env=commands.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert command.stdout is not None
        assert command.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(1.5)
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=SECONDS_MAX)
        assert command.returncode == 130
        assert "goes on without this command" in said
        assert [each["reached"] for each in status(commands)["partitions"]] == [False] * 4
    finally:
        cluster.resume(4)
    commands.run("cluster", "move", "orders", "--to", "1,3")
    assert {tuple(each["replicas"]) for each in status(commands)["partitions"]} == {(1, 3)}
    spread(commands)


def test_a_broker_on_its_own_says_so(tmp_path: Path) -> None:
    with up("--data", str(tmp_path), "--listen", "127.0.0.1:0") as (_, line):
        commands = Commands(address_of(line))
        _, said = commands.run("cluster", "status")
        assert "This broker is on its own" in said
        _, said = commands.run("cluster", "rebalance", code=1)
        assert said.startswith("error: This broker is on its own")
        assert said.count("\n") == 1
