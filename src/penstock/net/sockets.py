"""Listening and connected sockets, ready to use: non-blocking, tuned, with errors that help.

Not here: bytes read or written (`net.connection`). Invariant: a socket handed out is non-blocking
and belongs to the caller; on any error no socket is left open.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
from typing import Any, Final

from penstock.model.errors import ConnectionLost, InvalidConfig, TimedOut
from penstock.net.address import Address, TcpAddress, UnixAddress

# Connections that the kernel completes while the loop is busy; it lowers this to its own limit.
LISTEN_BACKLOG: Final = 4096
# A dead peer is noticed after 60 + 3 * 10 seconds even where nobody sends anything.
KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 10
KEEPALIVE_COUNT: Final = 3


def listen(address: Address) -> list[socket.socket]:
    """Listening sockets for an address: one for each of the addresses that its host name has."""
    if isinstance(address, UnixAddress):
        return [_listen_unix(address)]
    listening: list[socket.socket] = []
    try:
        for family, sockaddr in _addresses_to_listen_on(address):
            if listening and address.port == 0:  # every address of the host gets the same port
                sockaddr = (sockaddr[0], listening[0].getsockname()[1], *sockaddr[2:])
            listening.append(_listen_tcp(family, sockaddr))
    except OSError as error:
        for opened in listening:
            opened.close()
        raise _cannot_listen(address, error) from error
    return listening


def address_of(listening: socket.socket) -> Address:
    """The address that a socket is bound to, with the port that the kernel chose for port 0."""
    name = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        return UnixAddress(name)
    return TcpAddress(name[0], name[1])


def peer_name(connected: socket.socket) -> str:
    """Who is on the other side, for log lines."""
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return "a local peer"
    try:
        name = connected.getpeername()
    except OSError:  # it is gone already
        return "a peer that left"
    return str(TcpAddress(name[0], name[1]))


def reason_of(error: OSError) -> str:
    """What the system says, in lower case for the middle of a sentence."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return str(error.strerror or error).lower()
    return os.strerror(error.errno).lower()  # asyncio replaces the text of the error itself


def tune(connected: socket.socket) -> None:
    """Make a connected socket non-blocking, prompt and watchful."""
    connected.setblocking(False)
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT),
    ):
        if hasattr(socket, option):  # macOS lacks some
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def connect(address: Address, timeout_s: float) -> socket.socket:
    """A connected socket, from the first address of the host that answers."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _connect(address)
    except TimeoutError:
        raise TimedOut(
            f"No connection to {address} within {timeout_s:g} s: check the address and the network."
        ) from None
    except OSError as error:
        raise ConnectionLost(
            f"Cannot connect to {address}: {reason_of(error)}. Is the broker running there?"
        ) from error


async def _connect(address: Address) -> socket.socket:
    loop = asyncio.get_running_loop()
    candidates: list[tuple[int, Any]]
    if isinstance(address, UnixAddress):
        candidates = [(socket.AF_UNIX, address.path)]
    else:
        found = await loop.getaddrinfo(
            address.host or "localhost", address.port, type=socket.SOCK_STREAM
        )
        candidates = [(family, sockaddr) for family, _, _, _, sockaddr in found]
    failure: OSError = OSError(errno.EADDRNOTAVAIL, "the name has no address")
    for family, sockaddr in candidates:
        connecting = socket.socket(family, socket.SOCK_STREAM)
        try:
            tune(connecting)
            await loop.sock_connect(connecting, sockaddr)
        except OSError as error:
            connecting.close()
            failure = error
        except BaseException:
            connecting.close()
            raise
        else:
            return connecting
    raise failure


def _addresses_to_listen_on(address: TcpAddress) -> list[tuple[int, Any]]:
    if not address.host:
        if socket.has_dualstack_ipv6():
            return [(socket.AF_INET6, ("::", address.port))]
        return [(socket.AF_INET, ("", address.port))]
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return list(dict.fromkeys((family, sockaddr) for family, _, _, _, sockaddr in found))


def _listen_tcp(family: int, sockaddr: Any) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A broker that restarts takes its port back from connections in TIME_WAIT.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            every_interface = sockaddr[0] == "::"
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not every_interface)
        listening.bind(sockaddr)
        listening.listen(LISTEN_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def _listen_unix(address: UnixAddress) -> socket.socket:
    try:
        _remove_stale_socket_file(address)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(address.path)
            listening.listen(LISTEN_BACKLOG)
            listening.setblocking(False)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise _cannot_listen(address, error) from error
    return listening


def _remove_stale_socket_file(address: UnixAddress) -> None:
    """Remove the file that a killed broker left behind, but never one that somebody listens on."""
    try:
        mode = os.stat(address.path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise InvalidConfig(
            f"Cannot listen on {address}: the file exists and is not a socket, choose another path."
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full backlog answers EAGAIN: somebody listens there
        if probe.connect_ex(address.path) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(address.path)


def _cannot_listen(address: Address, error: OSError) -> InvalidConfig:
    if error.errno == errno.EADDRINUSE:
        advice = "another process listens there, stop it or choose another address"
    else:
        advice = f"{reason_of(error)}, choose another address"
    return InvalidConfig(f"Cannot listen on {address}: {advice}.")
