"""A client whose process stands still, as far as a broker can see."""

from __future__ import annotations

from collections.abc import Callable

from penstock import Client
from penstock.net.connection import Pause


def stall(mq: Client) -> Callable[[], None]:
    """Let it stand still; returns how it goes on."""
    assert mq._connected is not None
    connections = [channel.connection for channel in mq._connected.links._open_channels]
    for connection in connections:
        connection.pause_reading(Pause.DRAINING)

    def go_on() -> None:
        for connection in connections:
            connection.resume_reading(Pause.DRAINING)

    return go_on
