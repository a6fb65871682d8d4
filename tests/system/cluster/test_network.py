"""What tests of cuts rely on: that bytes do not pass a cut, and do when it is healed."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kit.processes.proxy import OUTSIDE, Network

SERVER = "server"
SHORT_S = 0.2


@contextmanager
def echo() -> Iterator[str]:
    """A server that says back what it is told, and ends a connection that is ended."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=[connection], daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            while content := connection.recv(1024):
                connection.sendall(content)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        # An accept that waits is not ended by a close.
        listening.shutdown(socket.SHUT_RDWR)


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), 5)
    connection.settimeout(5)
    return connection


def hears_nothing(connection: socket.socket) -> bool:
    connection.settimeout(SHORT_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(5)
    return False


def test_what_is_cut_arrives_when_it_is_healed() -> None:
    with echo() as address, Network() as network:
        front = network.front(SERVER, address)
        with connect(front) as connection:
            connection.sendall(b"one")
            assert connection.recv(10) == b"one"
            network.cut([OUTSIDE], [SERVER])
            connection.sendall(b"two")
            assert hears_nothing(connection)
            with connect(front) as another:
                another.sendall(b"three")
                assert hears_nothing(another)
                network.heal()
                assert connection.recv(10) == b"two"
                assert another.recv(10) == b"three"


def test_a_cut_has_a_direction() -> None:
    with (
        echo() as address,
        Network() as network,
        connect(network.front(SERVER, address)) as connection,
    ):
        connection.sendall(b"one")
        assert connection.recv(10) == b"one"
        network.cut([SERVER], [OUTSIDE])
        connection.sendall(b"two")
        assert hears_nothing(connection)
        network.heal()
        assert connection.recv(10) == b"two"


def test_the_end_of_a_connection_does_not_pass_a_cut_either() -> None:
    with Network() as network, socket.create_server(("127.0.0.1", 0)) as listening:
        front = network.front(SERVER, f"127.0.0.1:{listening.getsockname()[1]}")
        near = connect(front)
        far, _ = listening.accept()
        with far:
            network.cut([OUTSIDE], [SERVER])
            near.close()
            assert hears_nothing(far)
            network.heal()
            far.settimeout(5)
            assert far.recv(1) == b""


def test_whoever_connects_is_known_by_its_process() -> None:
    with echo() as address, Network() as network:
        network.processes = lambda: {7: os.getpid()}
        network.cut([OUTSIDE, 8], [SERVER])
        with connect(network.front(SERVER, address)) as connection:
            connection.sendall(b"one")
            assert connection.recv(10) == b"one"
            network.cut_off(7, [SERVER])
            connection.sendall(b"two")
            assert hears_nothing(connection)


def test_a_server_that_is_not_there_ends_the_connection() -> None:
    with Network() as network, socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        listening.close()
        with connect(network.front(SERVER, address)) as connection:
            assert connection.recv(1) == b""


def test_whoever_connects_while_it_ends_is_let_go() -> None:
    """The end of the connection says so; and nothing is left open, which would be an error here."""
    for _ in range(20):
        with echo() as address:
            with Network() as network:
                front = network.front(SERVER, address)
                late = [connect(front) for _ in range(5)]
            for connection in late:
                with connection, contextlib.suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
