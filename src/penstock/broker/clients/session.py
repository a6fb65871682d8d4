"""One client's connection as the broker sees it: what it means, and what waits on it.

Calls arrive through `serve` and are dispatched; their answers leave by the channel. The invariant:
when the connection is gone, nothing of the broker refers to it any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.broker.clients.waiters import Waiters
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import PenstockError
from penstock.net.channel import Channel
from penstock.net.connection import Connection


class Dispatch(Protocol):
    """What is done with a session's calls."""

    def __call__(
        self,
        session: Session,
        call: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
        /,
    ) -> None: ...


class Session(Waiters):
    """Made by the broker for each accepted connection."""

    __slots__ = (
        "_dispatch",
        "channel",
        "client_id",
        "memberships",
        "principal",
        "produce_targets",
        "push_stream_count",
    )

    def __init__(
        self,
        connection: Connection,
        dispatch: Dispatch,
        *,
        on_read_end: Callable[[], None],
        frame_bytes_max: int,
    ) -> None:
        super().__init__()
        self._dispatch = dispatch
        self.channel = Channel(
            connection,
            self._serve,
            on_read_end=on_read_end,
            on_closed=self._closed,
            frame_bytes_max=frame_bytes_max,
        )
        # In `broker.clients.clients`; 0 before it has said hello.
        self.client_id = 0
        # Who has proved to be there; None: nobody has to, yet.
        self.principal: str | None = None
        # Groups, and the members of them that speak on this connection.
        self.memberships: set[tuple[str, str]] = set()
        # Open ones, in `broker.delivery.push.streams`.
        self.push_stream_count = 0
        # Produce envelopes seen here, and the partition, acks and claim they name.
        self.produce_targets: dict[bytes, tuple[Partition, int, int]] = {}

    @property
    def is_open(self) -> bool:
        """Whether what is tied to the connection's end will see it."""
        return not self.channel.connection.is_closed

    def _serve(
        self,
        channel: Channel,
        call: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        del channel
        self._dispatch(self, call, message_id, envelope, payload)

    def _closed(self, channel: Channel, error: PenstockError | None) -> None:
        del channel, error
        self.produce_targets.clear()
        self.end_waiting()
