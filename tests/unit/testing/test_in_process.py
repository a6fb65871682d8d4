"""The broker for users' tests: real, quick, gone afterwards, and honest when it cannot start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import penstock
from penstock.broker.config import BrokerConfig
from penstock.model.errors import InvalidConfig, PenstockError
from penstock.testing import broker
from penstock.testing.in_process import BrokerSettings
from tests.kit.client.threads import own_threads

pytest_plugins = ["pytester"]


def test_it_serves_a_blocking_client_in_the_same_thread() -> None:
    with broker(partitions_default=3) as address, penstock.connect_blocking(address) as mq:
        receipt = mq.publish("orders", b"one", key=b"alice")
        assert receipt.offset == 0
        assert len(mq.admin.describe_topic("orders").partitions) == 3


async def test_it_serves_a_client_on_the_test_s_own_loop() -> None:
    with broker() as address:
        async with penstock.connect(address) as mq:
            assert (await mq.publish("orders", b"one")).offset == 0


def test_port_thread_and_folder_are_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    threads = own_threads()
    with broker() as address:
        host, port = address.rsplit(":", 1)
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == []
    assert own_threads() <= threads
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_a_folder_of_the_caller_keeps_the_messages(tmp_path: Path) -> None:
    for expected in range(2):
        with broker(data=str(tmp_path)) as address, penstock.connect_blocking(address) as mq:
            assert mq.publish("orders", b"one").offset == expected


def test_two_brokers_at_once_have_a_port_and_a_folder_each() -> None:
    with broker() as one, broker() as other:
        assert one != other
        for address in (one, other):
            with penstock.connect_blocking(address) as mq:
                assert mq.publish("orders", b"one").offset == 0


def test_every_setting_of_a_broker_is_a_keyword() -> None:
    """R-OPS-7: of the type that it has, so that editors know it."""
    assert get_type_hints(BrokerSettings) == get_type_hints(BrokerConfig)


def test_an_error_in_the_test_ends_the_broker_too() -> None:
    threads = own_threads()
    with pytest.raises(ZeroDivisionError), broker():
        raise ZeroDivisionError
    assert own_threads() <= threads


def test_a_broker_that_cannot_start_raises_in_the_caller() -> None:
    with pytest.raises(InvalidConfig, match="partitions_default"), broker(partitions_default=0):
        pass
    with broker() as address, pytest.raises(PenstockError), broker(listen=(address,)):
        pass
    with pytest.raises(TypeError, match="partition_default"), broker(partition_default=1):  # type: ignore[call-arg]
        pass


def test_the_fixtures_give_one_broker_and_a_topic_for_each_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import penstock

        seen = []

        def test_one(penstock_broker, penstock_topic):
            with penstock.connect_blocking(penstock_broker) as mq:
                assert mq.publish(penstock_topic, b"one").offset == 0
            seen.append((penstock_broker, penstock_topic))

        def test_other(penstock_broker, penstock_topic):
            assert seen[0][0] == penstock_broker
            assert seen[0][1] != penstock_topic
        """
    )
    pytester.runpytest_inprocess("-p", "no:asyncio").assert_outcomes(passed=2)


def test_the_plugin_loads_nothing_before_a_fixture_is_used() -> None:
    """It is imported in every pytest run of every project that has Penstock installed."""
    script = (
        "import pytest, sys; before = set(sys.modules); import penstock_pytest; "
        # A name that stands for nothing hides a module (PENSTOCK_PURE), it loads none.
        "print(*sorted(name for name in set(sys.modules) - before if sys.modules[name]))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    loaded = set(run.stdout.split())
    ours = {"penstock_pytest"}
    assert {name for name in loaded if name.startswith("penstock")} == ours
    assert not loaded & {"asyncio", "google.protobuf", "rich", "typer", "uvloop"}
