"""Where received bytes are put: nothing is believed about a frame's length but what arrives."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from penstock.model.limits import KIB, MIB, RECEIVE_BUFFER_BYTES
from penstock.net.inbox import OWN_BUFFER_BYTES_MIN, READ_AHEAD_BYTES, Inbox
from penstock.net.receive_pool import ReceivePool
from penstock.protocol.frame import encode_head, measure
from tests.kit.net.sockets import frame, socket_pair


class Holder:
    """A connection's part towards the pool."""

    def on_room(self) -> None:
        """Nobody waits in these tests."""


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket_pair()
    with ours, theirs:
        yield ours, theirs


def read_frames(inbox: Inbox, source: socket.socket) -> list[bytes]:
    """One turn of a connection: receive, take the whole frames, keep the rest."""
    inbox.receive(source)
    if inbox.is_frame_partial:
        assert inbox.grow()
        return []
    view, end, _ = inbox.contents()
    frames = []
    start = frame_bytes = 0
    while start < end:
        frame_bytes = measure(view, start, end)
        if frame_bytes == 0 or start + frame_bytes > end:
            break
        frames.append(bytes(view[start : start + frame_bytes]))
        start += frame_bytes
        frame_bytes = 0
    assert inbox.keep(start, frame_bytes)
    return frames


def test_a_claimed_length_allocates_little(pair: tuple[socket.socket, socket.socket]) -> None:
    """R-NET-4: 60 MB claimed, 12 bytes sent: the smallest buffer, not 60 MB."""
    pool = ReceivePool()
    inbox = Inbox(pool, Holder(), keep_frames=False)
    pair[1].send(encode_head(4, 1, b"", 60 * MIB)[:12])
    assert read_frames(inbox, pair[0]) == []
    assert pool.reserved_bytes == OWN_BUFFER_BYTES_MIN
    assert inbox.pending_bytes == 12


def test_the_buffer_grows_with_what_arrives(pair: tuple[socket.socket, socket.socket]) -> None:
    pool = ReceivePool()
    inbox = Inbox(pool, Holder(), keep_frames=False)
    data = frame(bytes(range(256)) * 8 * KIB)
    received: list[bytes] = []
    for start in range(0, len(data), 50 * KIB):
        pair[1].send(data[start : start + 50 * KIB])
        received += read_frames(inbox, pair[0])
        arrived = min(start + 50 * KIB, len(data))
        assert pool.reserved_bytes <= max(OWN_BUFFER_BYTES_MIN, 2 * arrived)
    while not received:  # what did not fit the buffer as it was then
        received += read_frames(inbox, pair[0])
    assert received == [data]
    assert inbox.pending_bytes == 0


def test_the_buffer_serves_again_and_is_freed_when_idle(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    pool = ReceivePool()
    inbox = Inbox(pool, Holder(), keep_frames=False)
    data = frame(b"x" * 100 * KIB)
    buffers = set()
    for _ in range(3):
        pair[1].send(data[:50_000])
        assert read_frames(inbox, pair[0]) == []
        buffers.add(id(inbox.contents()[0].obj))
        pair[1].send(data[50_000:])
        assert read_frames(inbox, pair[0]) == [data]
    assert len(buffers) == 1
    reserved_bytes = pool.reserved_bytes
    inbox.drop_idle()
    assert pool.reserved_bytes == reserved_bytes, "it was used since the last time"
    inbox.drop_idle()
    assert pool.reserved_bytes == 0


def test_where_room_is_scarce_no_buffer_is_kept_for_later(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    pool = ReceivePool(bytes_max=OWN_BUFFER_BYTES_MIN)
    inbox = Inbox(pool, Holder(), keep_frames=False)
    data = frame(b"x" * 100 * KIB)
    pair[1].send(data[:50_000])
    assert read_frames(inbox, pair[0]) == []
    assert pool.reserved_bytes > 0
    pair[1].send(data[50_000:])
    assert read_frames(inbox, pair[0]) == [data]
    assert pool.reserved_bytes == 0


def test_the_beginning_of_the_next_large_frame_is_read_into_place(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """At most READ_AHEAD_BYTES of a large frame that follows another are ever copied."""
    pool = ReceivePool()
    inbox = Inbox(pool, Holder(), keep_frames=False)
    largest = frame(b"0" * 120 * KIB)  # makes a buffer with room to spare for the others
    pair[1].send(largest[: 10 * KIB])
    assert read_frames(inbox, pair[0]) == []
    pair[1].send(largest[10 * KIB :])
    assert read_frames(inbox, pair[0]) == [largest]
    first, second = frame(b"1" * 80 * KIB), frame(b"2" * 80 * KIB)
    pair[1].send(first[: 10 * KIB])
    assert read_frames(inbox, pair[0]) == []
    pair[1].send(first[10 * KIB :] + second[: 70 * KIB])
    assert read_frames(inbox, pair[0]) == [first]
    assert inbox.pending_bytes == READ_AHEAD_BYTES
    assert read_frames(inbox, pair[0]) == []
    pair[1].send(second[70 * KIB :])
    assert read_frames(inbox, pair[0]) == [second]


def test_a_frame_that_fills_the_buffer_of_one_before_makes_it_grow(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """A read into a full buffer would look like the end of the stream."""
    pool = ReceivePool()
    inbox = Inbox(pool, Holder(), keep_frames=False)
    first, second = frame(b"1" * 70 * KIB), frame(b"2" * 140 * KIB)
    pair[1].send(first[: 10 * KIB])
    assert read_frames(inbox, pair[0]) == []
    pair[1].send(first[10 * KIB :])
    assert read_frames(inbox, pair[0]) == [first]
    reserved_bytes = pool.reserved_bytes
    pair[1].send(second)
    assert read_frames(inbox, pair[0]) == []
    assert inbox.pending_bytes == reserved_bytes < pool.reserved_bytes
    assert read_frames(inbox, pair[0]) == [second]


def test_a_frame_that_fits_the_shared_buffer_needs_no_other(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    pool = ReceivePool()
    inbox = Inbox(pool, Holder(), keep_frames=False)
    data = frame(b"x" * (RECEIVE_BUFFER_BYTES - 100 * KIB))
    pair[1].send(data)
    assert read_frames(inbox, pair[0]) == [data]
    assert pool.reserved_bytes == 0


def test_small_partial_frames_hold_only_their_bytes(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """R-NET-4: what ten thousand slow peers hold is what they sent."""
    pool = ReceivePool()
    inbox = Inbox(pool, Holder(), keep_frames=False)
    data = frame(b"x" * 1000)
    for start in range(len(data) - 1):
        pair[1].send(data[start : start + 1])
        assert read_frames(inbox, pair[0]) == []
        assert inbox.pending_bytes == start + 1
    pair[1].send(data[-1:])
    assert read_frames(inbox, pair[0]) == [data]
    assert pool.reserved_bytes == 0


def test_a_cleared_inbox_gives_everything_back(pair: tuple[socket.socket, socket.socket]) -> None:
    pool = ReceivePool()
    inbox = Inbox(pool, Holder(), keep_frames=False)
    pair[1].send(frame(b"x" * MIB)[:100_000])
    read_frames(inbox, pair[0])
    assert pool.reserved_bytes > 0
    inbox.clear()
    assert (pool.reserved_bytes, inbox.pending_bytes) == (0, 0)
