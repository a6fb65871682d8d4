"""Ports for brokers that are told to take free ones, and a look whether ports are free.

The invariant: a port that is handed out is none that the kernel gives to outgoing connections. A
broker that is killed has to get its port back when it is started again, and meanwhile anybody's
connection could have taken it.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Collection, Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from penstock.model.errors import InvalidConfig
from penstock.net.address import Address, TcpAddress
from penstock.net.sockets import listen

_PORT_LOW: Final = 10_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Where the range of outgoing connections usually begins on Linux; on others it is higher.
_OUTGOING_LOW: Final = 32_768
_TRIES_MAX: Final = 1_000


def free_port(host: str, taken: Collection[int] = ()) -> int:
    """A port of the host on which nobody listens, and none of those taken."""
    high = max(_outgoing_low(), _PORT_LOW + 1_000)
    for _ in range(_TRIES_MAX):
        port = random.randrange(_PORT_LOW, high)  # noqa: S311 - no secret
        if port in taken:
            continue
        try:
            check_free([TcpAddress(host, port)])
        except InvalidConfig as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE:
                continue
            raise
        return port
    raise InvalidConfig(f"No port of {host} is free: stop what listens there, or name ports.")


def check_free(addresses: Iterable[Address]) -> None:
    """InvalidConfig, one sentence, if somebody listens on one of them or nobody can."""
    with ExitStack() as held:
        # All at the same time: two of them may be one and the same.
        for address in addresses:
            for listening in listen(address):
                held.enter_context(closing(listening))


def _outgoing_low() -> int:
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _OUTGOING_LOW
