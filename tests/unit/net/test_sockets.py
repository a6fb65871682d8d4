"""Sockets that listen and connect, and what they say when they cannot."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from penstock.model.errors import ConnectionLost, InvalidConfig, TimedOut
from penstock.net.address import TcpAddress, UnixAddress
from penstock.net.sockets import address_of, connect, listen, peer_name, tune

LOCAL = TcpAddress("127.0.0.1", 0)


@pytest.mark.parametrize(
    "address", [LOCAL, TcpAddress("::1", 0), TcpAddress("", 0), TcpAddress("localhost", 0)], ids=str
)
async def test_a_connection_over_tcp(address: TcpAddress) -> None:
    """R-NET-4: v4, v6, every interface, a name; and the socket is prompt and watchful."""
    listening = listen(address)
    port = listening[0].getsockname()[1]
    assert port != 0
    assert all(each.getsockname()[1] == port for each in listening)
    connected = await connect(TcpAddress(address.host, port), timeout_s=5)
    assert not connected.getblocking()
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert peer_name(connected).endswith(f":{port}")
    for each in (connected, *listening):
        each.close()


async def test_a_connection_over_a_unix_socket(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "s"))
    (listening,) = listen(address)
    assert address_of(listening) == address
    connected = await connect(address, timeout_s=5)
    assert peer_name(connected) == "a local peer"
    connected.close()
    listening.close()


def test_a_port_in_use_is_explained() -> None:
    (listening,) = listen(LOCAL)
    taken = address_of(listening)
    with pytest.raises(InvalidConfig, match=f"{taken}: another process listens there"):
        listen(taken)
    listening.close()


def test_a_host_that_is_not_ours_is_explained() -> None:
    with pytest.raises(InvalidConfig, match="cannot assign requested address, choose another"):
        listen(TcpAddress("192.0.2.1", 0))


def test_a_stale_socket_file_is_removed_but_not_one_in_use(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "s"))
    (first,) = listen(address)
    with pytest.raises(InvalidConfig, match="another process listens there"):
        listen(address)
    first.close()  # as a killed broker: the file stays
    assert Path(address.path).exists()
    (second,) = listen(address)
    second.close()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data")
    with pytest.raises(InvalidConfig, match="is not a socket"):
        listen(UnixAddress(str(precious)))
    assert precious.read_text() == "data"


def test_a_folder_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="no such file or directory"):
        listen(UnixAddress(str(tmp_path / "absent" / "s")))


async def test_nobody_listening_is_explained(tmp_path: Path) -> None:
    (listening,) = listen(LOCAL)
    gone = address_of(listening)
    listening.close()
    with pytest.raises(ConnectionLost, match=r"connection refused\. Is the broker running there\?"):
        await connect(gone, timeout_s=5)
    with pytest.raises(ConnectionLost, match="no such file"):
        await connect(UnixAddress(str(tmp_path / "absent")), timeout_s=5)


async def test_a_name_that_does_not_resolve_is_explained() -> None:
    with pytest.raises(ConnectionLost, match=r"Cannot connect to no-such-host\.invalid:1"):
        await connect(TcpAddress("no-such-host.invalid", 1), timeout_s=5)


async def test_a_connection_that_is_not_answered_in_time() -> None:
    """A listener with a full queue leaves the third connection waiting."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = TcpAddress(*listening.getsockname())
        async with contextlib.AsyncExitStack() as stack:

            async def fill_the_queue() -> None:
                while True:
                    stack.enter_context(await connect(address, timeout_s=0.05))

            with pytest.raises(TimedOut, match=f"No connection to {address} within 0.05 s"):
                await fill_the_queue()


async def test_a_cancelled_connect_leaves_no_socket_open() -> None:
    """An open socket would be reported as a ResourceWarning, which is an error in tests."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = TcpAddress(*listening.getsockname())
        tasks = [asyncio.create_task(connect(address, timeout_s=60)) for _ in range(5)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, socket.socket):
                result.close()
            else:
                assert isinstance(result, asyncio.CancelledError)


def test_a_peer_that_left_still_has_a_name() -> None:
    with socket.socket() as unconnected:
        tune(unconnected)
        assert peer_name(unconnected) == "a peer that left"
