"""What a broker has to say to its peers: one parcel a turn to each, or a few if it is much.

Not who says what (`peers.replicas`), and not the sockets (`Transport`). The invariant: letters to a
peer leave in the order they were given in, a heartbeat with the first of them, and no parcel is
larger than a peer takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from penstock.model.limits import PARCEL_BYTES_MAX, PARCEL_LETTERS_MAX
from penstock.raft.membership import Node
from penstock.replication.disk.driver import Driver
from penstock.replication.parcels.parcel import Heartbeat, Letter, Parcel


class Transport(Protocol):
    """Whoever carries parcels; it may lose them."""

    def send(self, parcel: Parcel) -> None: ...


class Post:
    """One per broker. Implements `replication.disk.driver.Writer`."""

    __slots__ = ("_driver", "_heartbeats", "_is_dirty", "_letters", "_me", "_transport")

    def __init__(self, me: Node, transport: Transport, driver: Driver) -> None:
        self._me = me
        self._transport = transport
        self._driver = driver
        self._letters: dict[Node, list[Letter]] = {}
        self._heartbeats: dict[Node, Heartbeat] = {}
        self._is_dirty = False

    def send(self, node: Node, letter: Letter) -> None:
        self._letters.setdefault(node, []).append(letter)
        self._leave_later()

    def beat(self, node: Node, heartbeat: Heartbeat) -> None:
        self._heartbeats[node] = heartbeat
        self._leave_later()

    def drop(self, node: Node) -> None:
        """It cannot be reached."""
        self._letters.pop(node, None)
        self._heartbeats.pop(node, None)

    def _leave_later(self) -> None:
        if not self._is_dirty:
            self._is_dirty = True
            self._driver.mark_dirty(self)

    def write_proposed(self) -> None:
        """At the end of a turn."""
        self._is_dirty = False
        letters, self._letters = self._letters, {}
        heartbeats, self._heartbeats = self._heartbeats, {}
        for node in sorted(letters.keys() | heartbeats.keys()):
            heartbeat = heartbeats.get(node)
            for part in _parts(letters.get(node, ())):
                parcel = Parcel(
                    sender=self._me, receiver=node, letters=tuple(part), heartbeat=heartbeat
                )
                self._transport.send(parcel)
                heartbeat = None


def _parts(letters: Iterable[Letter]) -> list[list[Letter]]:
    """The letters of one parcel each, at least one."""
    parts: list[list[Letter]] = [[]]
    size_bytes = 0
    for letter in letters:
        size_bytes += len(letter.payload)
        is_full = size_bytes > PARCEL_BYTES_MAX or len(parts[-1]) == PARCEL_LETTERS_MAX
        if parts[-1] and is_full:
            parts.append([])
            size_bytes = len(letter.payload)
        parts[-1].append(letter)
    return parts
