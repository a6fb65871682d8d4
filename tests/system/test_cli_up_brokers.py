"""`penstock up --brokers N` as a person and a service manager use it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.processes.up import PENSTOCK, SECONDS_MAX, address_of, refused, up

FREE = ("--listen", "127.0.0.1:0", "--log-level", "error")


def children_of(process: subprocess.Popen[str]) -> dict[str, int]:
    """Process ids by name, as the command lines tell them."""
    children = {}
    for name in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        line = Path(f"/proc/{name}/cmdline").read_text().replace("\0", " ")
        broker = re.search(r"--broker-id (\d+) ", line)
        if "leash" not in line:
            children[f"broker {broker[1]}" if broker else "zookeeper"] = int(name)
    return children


def is_alive(process_id: int) -> bool:
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


def answers(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def wait_for_answers(address: str) -> None:
    eventually(lambda: answers(address))


def serves(address: str) -> bool:
    """Whether the broker is ready for clients: it listens before it is."""
    command = [PENSTOCK, "topics", "list", "--bootstrap", address]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def produce(address: str, count: int) -> None:
    subprocess.run(
        [PENSTOCK, "produce", "orders", "--bootstrap", address],
        input=b"".join(b"%d\n" % number for number in range(count)),
        capture_output=True,
        timeout=SECONDS_MAX,
        check=True,
    )


def consume(address: str) -> list[int]:
    run = subprocess.run(
        [PENSTOCK, "consume", "orders", "--until-end", "--bootstrap", address],
        capture_output=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    return [int(value) for value in run.stdout.split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_command_starts_three_brokers_and_ends_them(
    tmp_path: Path, number: signal.Signals
) -> None:
    """R-CORE-1: brokers add up to a cluster."""
    data = tmp_path / "data"
    with up("--brokers", "3", "--data", str(data), *FREE) as (process, line):
        addresses = address_of(line).split(",")
        assert f"3 brokers · listening on {','.join(addresses)} · data {data}" in line
        assert process.stdout is not None
        shown = [process.stdout.readline().strip() for _ in range(3)]
        assert shown == [
            f"broker {place} · {address} · data {data}/broker-{place}"
            for place, address in enumerate(addresses, 1)
        ]
        assert len(set(addresses)) == 3
        assert all(map(answers, addresses))
        children = children_of(process)
        assert set(children) == {"broker 1", "broker 2", "broker 3"}
        process.send_signal(number)
        rest, _ = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, rest) == (0, "")
    assert not any(map(is_alive, children.values()))
    assert all((data / f"broker-{place}" / "clean.journal").exists() for place in (1, 2, 3))


def test_when_it_is_ready_every_broker_places_on_all(tmp_path: Path) -> None:
    """R-REP-7: whichever is asked first has seen the others."""
    with up("--brokers", "3", "--data", str(tmp_path / "data"), *FREE) as (process, line):
        for number, address in enumerate(address_of(line).split(",")):
            command = ("topics", "create", f"t{number}", "--replicas", "3", "--bootstrap", address)
            run = subprocess.run([PENSTOCK, *command], capture_output=True, check=False, text=True)
            assert run.returncode == 0, run.stderr
        process.terminate()
        process.wait(SECONDS_MAX)


def test_a_copy_of_a_brokers_folder_is_refused(tmp_path: Path) -> None:
    """R-REP-5: two processes do not go by one broker's name."""
    data = tmp_path / "data"
    with up("--brokers", "2", "--data", str(data), *FREE) as (process, line):
        first, second = address_of(line).split(",")
        shutil.copytree(data / "broker-2", tmp_path / "copy")
        flags = ("--broker-id", "2", "--data", str(tmp_path / "copy"), *FREE)
        registry = ("--registry", f"meta://1@{first}")
        # It waits for a session's time first, since the other may have died.
        told = refused(*flags, *registry, seconds_max=60)
        assert f"broker 2 is in use by the broker at {second}, and this one has a copy" in told
        assert serves(second)
        process.terminate()
        process.wait(SECONDS_MAX)


def test_the_next_start_has_the_same_addresses(tmp_path: Path) -> None:
    flags = ("--brokers", "2", "--data", str(tmp_path / "data"), *FREE)
    lines = []
    for _ in range(2):
        with up(*flags) as (process, line):
            lines.append(line)
            process.terminate()
            process.wait(SECONDS_MAX)
    assert lines[0] == lines[1]


def test_a_broker_that_dies_is_started_again(tmp_path: Path) -> None:
    with up("--brokers", "2", "--data", str(tmp_path / "data"), *FREE) as (process, line):
        second = address_of(line).split(",")[1]
        killed = children_of(process)["broker 2"]
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: children_of(process).get("broker 2", killed) != killed)
        eventually(lambda: serves(second))
        process.terminate()
        _, told = process.communicate(timeout=SECONDS_MAX)
    assert [line for line in told.splitlines() if line.startswith("penstock |")] == [
        "penstock | broker 2 was ended by SIGKILL and is started again in 1 s.",
        "penstock | broker 2 runs again.",
    ]


def test_what_a_broker_logs_is_shown_with_its_name(tmp_path: Path) -> None:
    flags = ("--brokers", "2", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    with up(*flags) as (process, line):
        host, port = address_of(line).split(",")[1].split(":")
        with socket.create_connection((host, int(port)), SECONDS_MAX) as stranger:
            stranger.sendall(b"PS and something that is no frame")
            assert stranger.recv(1000)
        process.terminate()
        _, told = process.communicate(timeout=SECONDS_MAX)
    shown = [line for line in told.splitlines() if "is disconnected: The frame" in line]
    assert len(shown) == 1
    assert shown[0].startswith("broker 2 | ")
    assert " WARNING " in shown[0]


def test_without_restart_the_dead_stay_dead(tmp_path: Path) -> None:
    flags = ("--brokers", "2", "--no-restart", "--data", str(tmp_path / "data"), *FREE)
    with up(*flags) as (process, _):
        for process_id in children_of(process).values():
            os.kill(process_id, signal.SIGKILL)
        _, told = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 1
    ends = [line for line in told.splitlines() if line.startswith(("penstock |", "error:"))]
    assert sorted(ends) == [
        "error: Every broker has ended: start the cluster again.",
        "penstock | broker 1 was ended by SIGKILL and is not started again.",
        "penstock | broker 2 was ended by SIGKILL and is not started again.",
    ]


def test_no_broker_outlives_a_parent_that_was_killed(tmp_path: Path) -> None:
    with up("--brokers", "2", "--data", str(tmp_path / "data"), *FREE) as (process, _):
        children = children_of(process)
        process.kill()
        process.wait(SECONDS_MAX)
        eventually(lambda: not any(map(is_alive, children.values())))


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with up("--brokers", "2", "--data", str(tmp_path / "data"), *FREE) as (process, _):
        children = children_of(process)
        # It cannot end in order.
        os.kill(children["broker 1"], signal.SIGSTOP)
        process.terminate()
        eventually(lambda: not is_alive(children["broker 2"]))
        assert process.poll() is None
        process.terminate()
        assert process.wait(SECONDS_MAX) == 1
        eventually(lambda: not is_alive(children["broker 1"]))


def test_a_broker_alone_grows_to_a_cluster_with_its_data(tmp_path: Path) -> None:
    """R-REP-6."""
    data = str(tmp_path / "data")
    with up("--data", data, *FREE) as (process, line):
        produce(address_of(line), 100)
        process.terminate()
        process.wait(SECONDS_MAX)
    for _ in range(2):
        with up("--brokers", "3", "--data", data, *FREE) as (process, line):
            first = address_of(line).split(",")[0]
            assert consume(first) == list(range(100))
            process.terminate()
            process.wait(SECONDS_MAX)
    message = refused("--data", data, *FREE)
    assert "holds a cluster: start all of it with --brokers 3" in message


def test_a_port_in_use_is_one_sentence_and_nothing_is_made(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listen = ("--listen", f"127.0.0.1:{port - 1}")
        message = refused("--brokers", "2", "--data", str(data), *listen)
    assert re.search(rf"Cannot listen on 127\.0\.0\.1:({port}|{port - 1}): ", message)
    assert not data.exists()


def test_a_broker_that_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    data = tmp_path / "data"
    flags = ("--brokers", "2", "--data", str(data), *FREE)
    with up("--data", str(data / "broker-2"), "--broker-id", "2", *FREE):
        message = refused(*flags)
    assert "broker 2 did not start: The data folder" in message


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    assert "--brokers is 0" in refused("--brokers", "0", *data)
    assert "meta://1@host:port" in refused("--registry", "etcd://h", *data)
    both = ("--with-zookeeper", "--registry", "zookeeper://h")
    assert "leave one of them out" in refused(*both, *data)
    assert "listen on host:port" in refused("--brokers", "2", "--listen", "unix:x", *data)


def test_a_zookeeper_comes_along(tmp_path: Path) -> None:
    """R-REP-4: for a cluster on ZooKeeper nothing else has to be started."""
    data = str(tmp_path / "data")
    with up("--brokers", "2", "--with-zookeeper", "--data", data, *FREE) as (process, _):
        assert process.stdout is not None
        shown = process.stdout.readline()
        assert f"data {data}/zookeeper" in shown
        address = shown.split(" · ")[1]
        children = children_of(process)
        assert set(children) == {"zookeeper", "broker 1", "broker 2"}
        os.kill(children["zookeeper"], signal.SIGKILL)
        eventually(lambda: children_of(process).get("zookeeper", 0) not in (0, *children.values()))
        wait_for_answers(address)
        children = children_of(process)
        process.terminate()
        assert process.wait(SECONDS_MAX) == 0
        assert not any(map(is_alive, children.values()))
