"""A broker on its own whose disk has no room for a while: everybody who looks is told why.

A full disk is a limit to the size of files, as in `cluster.test_disks`.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import penstock
from tests.kit.processes.up import PENSTOCK, SECONDS_MAX, address_of, up


def shown(address: str, *command: str) -> Any:
    run = subprocess.run(
        [PENSTOCK, *command, "--json", "--bootstrap", address],
        capture_output=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    return json.loads(run.stdout)


def altering(address: str) -> str:
    """What is said of a topic that cannot be altered."""
    command = (PENSTOCK, "topics", "alter", "orders", "--set", "retention_bytes=1")
    run = subprocess.run(
        [*command, "--bootstrap", address],
        capture_output=True,
        timeout=SECONDS_MAX,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    return run.stderr


def consuming(address: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PENSTOCK, "consume", "orders", "--group", "cli", "--max", "1", "--bootstrap", address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_full_disk_is_told_to_all_who_look(tmp_path: Path) -> None:
    """R-STO-1: producers and consumers on the command line say what they wait for, the broker's
    log once what to do, and the commands that show the cluster and the topic show it; then it
    goes on."""
    folder = f"{tmp_path / 'data'}/topics/orders/0"
    refused = f"The disk is full, writing to {folder}: free some room or shorten the retention."
    with up("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0") as (process, line):
        address = address_of(line)
        with penstock.connect_blocking(address) as mq:
            mq.publish("orders", b"before")
        before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
        with subprocess.Popen(
            [PENSTOCK, "produce", "orders", "--bootstrap", address],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as producer:
            assert producer.stdin is not None
            assert producer.stderr is not None
            producer.stdin.write("waits\n")
            producer.stdin.close()
            waits = producer.stderr.readline()
            assert waits.startswith("orders-0 cannot be written, and is tried again for 11")
            assert f"Broker 1 has no room for orders-0: {refused}" in waits
            status = shown(address, "cluster", "status")
            assert status["brokers"][0]["disk"] == refused
            assert f"Broker 1 cannot write: {refused}" in status["advice"]
            (partition,) = shown(address, "topics", "describe", "orders")["partitions"]
            assert partition["problem"] == refused
            registry = f"The disk is full, writing {tmp_path / 'data'}/registry.journal: "
            assert altering(address).startswith(f"error: {registry}")
            with consuming(address) as consumer:
                assert consumer.stderr is not None
                waits = consumer.stderr.readline()
                assert waits.startswith("Group cli cannot be joined, and is tried again for 2")
                assert registry in waits
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
                read, over = consumer.communicate(timeout=SECONDS_MAX)
                assert (read, over) == ("before\n", "Group cli can be joined again\n")
            assert "orders-0 can be written again" in producer.stderr.read()
            assert producer.wait(SECONDS_MAX) == 0
        # What was taken might have been small: nothing refused for three seconds is well.
        until_s = time.monotonic() + SECONDS_MAX
        while shown(address, "cluster", "status")["brokers"][0]["disk"] is not None:
            assert time.monotonic() < until_s
            time.sleep(0.2)
        with penstock.connect_blocking(address) as mq:
            mq.publish("orders", b"after")
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=SECONDS_MAX)
    about = [each.partition(": ")[2] for each in log.splitlines() if "be written" in each]
    assert about[0] == (
        f"The disk of {tmp_path / 'data'} cannot be written, and is tried again: {refused}"
    )
    assert len(about) == 2
    assert about[1].startswith(f"The disk of {tmp_path / 'data'} can be written again, after ")
