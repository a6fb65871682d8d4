"""`penstock up` as a person and a service manager use it: the real command, by its own process."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.kit.processes.up import PENSTOCK, SECONDS_MAX, address_of, refused, up

pytestmark = pytest.mark.executed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_when_it_is_ready_and_ends_cleanly_on_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    with up("--data", str(data), "--listen", "127.0.0.1:0") as (process, line):
        host, port = address_of(line).rsplit(":", 1)
        assert (host, f"data {data}" in line) == ("127.0.0.1", True)
        socket.create_connection((host, int(port))).close()
        process.send_signal(number)
        rest, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
    assert rest == "", "one line in all"


def test_what_was_published_is_there_after_sigkill(tmp_path: Path) -> None:
    """R-STO-6 through the command line."""
    data = str(tmp_path / "data")
    with up("--data", data, "--listen", "127.0.0.1:0") as (process, line):
        address = address_of(line)
        produce = subprocess.run(
            [PENSTOCK, "produce", "orders", "--bootstrap", address],
            input=b"".join(b"%d\n" % number for number in range(1000)),
            capture_output=True,
            timeout=SECONDS_MAX,
            check=True,
        )
        assert b"1000 messages acknowledged" in produce.stderr
        process.kill()
        process.wait(SECONDS_MAX)
    with up("--data", data, "--listen", address):
        consume = subprocess.run(
            [PENSTOCK, "consume", "orders", "--until-end", "--bootstrap", address],
            capture_output=True,
            timeout=SECONDS_MAX,
            check=True,
        )
    assert [int(value) for value in consume.stdout.split()] == list(range(1000))


def test_settings_come_from_flags_environment_and_file(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        f'data = "{tmp_path / "from-file"}"\npartitions_default = 2\n'
        '[topic_defaults]\nretention_ms = "1h"\nsegment_bytes = "1MiB"\n'
    )
    variables = {"PENSTOCK_TOPIC_DEFAULTS__RETENTION_MS": "2h", "PENSTOCK_LISTEN": "127.0.0.1:0"}
    flags = ("--config", str(file), "--data", str(tmp_path / "from-flag"))
    with up(*flags, **variables) as (_, line):
        bootstrap = ("--bootstrap", address_of(line))
        subprocess.run([PENSTOCK, "topics", "create", "t", *bootstrap], check=True)
        described = subprocess.run(
            [PENSTOCK, "topics", "describe", "t", "--json", *bootstrap],
            capture_output=True,
            check=True,
        )
    topic = json.loads(described.stdout)
    assert len(topic["partitions"]) == 2
    assert topic["config"]["retention_ms"] == "7200000"
    assert topic["config"]["segment_bytes"] == "1048576"
    assert not (tmp_path / "from-file").exists()


def test_it_may_open_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with up("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0") as (process, _):
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


def test_a_unix_socket_serves_as_well(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    with up("--data", str(tmp_path / "data"), "--listen", address) as (_, line):
        assert address_of(line) == address
        run = subprocess.run(
            [PENSTOCK, "topics", "list", "--json", "--bootstrap", address],
            capture_output=True,
            check=True,
        )
    assert json.loads(run.stdout) == []


def test_an_address_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        message = refused("--data", str(tmp_path / "data"), "--listen", address)
    assert address in message


def test_a_folder_in_use_is_one_sentence(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with up("--data", data, "--listen", "127.0.0.1:0"):
        assert data in refused("--data", data, "--listen", "127.0.0.1:0")


def test_a_folder_of_somebody_else_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for flags in ((), ("--brokers", "3")):
        message = refused("--data", str(tmp_path), "--listen", "127.0.0.1:0", *flags)
        assert "is not empty and not Penstock's (it has bin)" in message
    assert [each.name for each in tmp_path.iterdir()] == ["bin"]


def test_bad_settings_are_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("partition_default = 2\n")
    assert "did you mean partitions_default" in refused("--config", str(file))
    assert "cannot be read" in refused("--config", str(tmp_path / "missing.toml"))
    assert "name=value" in refused("--set", "nothing")
    assert "PENSTOCK_DATE is no setting" in refused(PENSTOCK_DATE="x")
    assert "nowhere" in refused("--data", str(tmp_path / "data"), "--listen", "nowhere:x")


def test_a_wrong_flag_is_a_usage_error() -> None:
    run = subprocess.run(
        [PENSTOCK, "up", "--date", "x"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "--data" in run.stderr
