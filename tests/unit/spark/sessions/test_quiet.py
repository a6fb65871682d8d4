"""What Spark's Python side would tell beside raising it: nothing."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator

import pytest
from py4j.java_gateway import GatewayClient, GatewayParameters
from py4j.protocol import ERROR
from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler
from pyspark.logger import PySparkLogger

from penstock.spark.sessions.quiet import (
    _QUERY_LOGGERS,
    _is_not_of_py4j,
    silence_end,
    silence_loggers,
)


@pytest.fixture
def silenced() -> Iterator[None]:
    """For this test only: other tests may have silenced the process before."""
    py4j = logging.getLogger("py4j")
    level = py4j.level
    is_silent = _is_not_of_py4j in logging.getLogger().filters
    silence_loggers()
    silence_loggers()
    yield
    if not is_silent:
        logging.getLogger().removeFilter(_is_not_of_py4j)
        py4j.setLevel(level)
        for name in _QUERY_LOGGERS:
            logging.getLogger(name).disabled = False


@pytest.mark.usefixtures("silenced")
def test_a_mistake_in_a_query_is_not_logged_as_well(capfd: pytest.CaptureFixture[str]) -> None:
    for name in _QUERY_LOGGERS:
        # As pyspark.errors.exceptions.base does it.
        PySparkLogger.getLogger(name).exception("A column cannot be resolved.", errorClass="X")
    assert capfd.readouterr().err == ""
    assert logging.getLogger().filters.count(_is_not_of_py4j) == 1


@pytest.mark.usefixtures("silenced")
def test_a_jvm_that_does_not_answer_is_not_logged_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        hang_up = threading.Thread(target=lambda: server.accept()[0].close())
        hang_up.start()
        address = GatewayParameters(address="127.0.0.1", port=server.getsockname()[1])
        client = GatewayClient(gateway_parameters=address)
        assert client.send_command("a\n", retry=False) == ERROR
        hang_up.join()
    assert caplog.records == []
    logging.error("of somebody else")
    assert len(caplog.records) == 1


def test_accumulators_end_with_the_jvm(capfd: pytest.CaptureFixture[str]) -> None:
    with AccumulatorTCPServer(("127.0.0.1", 0), UpdateRequestHandler, "token") as server:
        silence_end(server)
        port = int(server.server_address[1])
        for sent in (b"token", b"wrong"):
            with socket.create_connection(("127.0.0.1", port)) as jvm:
                jvm.sendall(sent)
                jvm.shutdown(socket.SHUT_WR)
                server.handle_request()
    told = capfd.readouterr().err
    assert "token to the AccumulatorServer is not correct" in told
    assert "EOFError" not in told
