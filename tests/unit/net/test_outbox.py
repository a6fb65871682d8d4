"""The write queue: order, joining, files, and what may change under it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import StorageFailed
from penstock.model.limits import KIB, MIB
from penstock.net.outbox import SLICE_COST_BYTES, TURN_BYTES_MAX, Outbox
from tests.kit.net.sockets import Slice, socket_pair


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket_pair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "log"
    path.write_bytes(os.urandom(3 * MIB))
    descriptor = os.open(path, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def receive_all(outbox: Outbox, ours: socket.socket, theirs: socket.socket) -> bytes:
    """What the peer gets if the socket is flushed whenever it was emptied."""
    received = bytearray()
    while True:
        outbox.flush(ours)
        try:
            received += theirs.recv(MIB)
        except BlockingIOError:
            assert not outbox
            return bytes(received)


def test_small_buffers_leave_joined() -> None:
    """A datagram pair shows the system calls: one for a hundred answers."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        outbox = Outbox()
        for number in range(100):
            outbox.add(b"%d," % number)
        outbox.flush(ours)
        assert theirs.recv(MIB) == b"".join(b"%d," % number for number in range(100))
    assert not outbox
    assert outbox.queued_bytes == 0


def test_everything_leaves_in_order(pair: tuple[socket.socket, socket.socket], file: int) -> None:
    """Small and large buffers, small and large slices, through a socket that takes little."""
    outbox = Outbox()
    expected = bytearray()
    for number in range(40):
        small = b"answer %d" % number
        large = os.urandom(100 * KIB + number)
        outbox.add(small)
        outbox.borrow(large)
        expected += small + large
        for length in (0, 10, 64 * KIB, 64 * KIB + 1, 300 * KIB):
            part = Slice(file, 1000 + number, length)
            outbox.add_slice(b"head", part)
            expected += b"head" + part.read()
    assert receive_all(outbox, *pair) == expected
    assert outbox.queued_bytes == 0
    assert outbox.sent_bytes == len(expected)


def test_a_slice_counts_for_what_it_holds_not_for_its_length(file: int) -> None:
    outbox = Outbox()
    outbox.add_slice(b"head", Slice(file, 0, 2 * MIB))
    assert outbox.queued_bytes == 4 + SLICE_COST_BYTES
    outbox.add_slice(b"head", Slice(file, 0, 1000))
    assert outbox.queued_bytes == 4 + SLICE_COST_BYTES + 4 + 1000


def test_what_is_unsent_of_a_slice_is_all_that_has_not_left(
    pair: tuple[socket.socket, socket.socket], file: int
) -> None:
    ours, theirs = pair
    outbox = Outbox()
    outbox.add_slice(b"head", Slice(file, 0, 3 * MIB))
    assert outbox.unsent_bytes == 4 + SLICE_COST_BYTES + 3 * MIB
    outbox.flush(ours)
    assert outbox.unsent_bytes == 4 + SLICE_COST_BYTES + 3 * MIB - outbox.sent_bytes
    receive_all(outbox, ours, theirs)
    assert outbox.unsent_bytes == 0
    outbox.add_slice(b"head", Slice(file, 0, 3 * MIB))
    outbox.clear()
    assert outbox.unsent_bytes == 0


def test_who_waits_for_room_is_called_once_when_little_is_unsent(
    pair: tuple[socket.socket, socket.socket], file: int
) -> None:
    ours, theirs = pair
    outbox = Outbox()
    outbox.add_slice(b"head", Slice(file, 0, 3 * MIB))
    called: list[tuple[int, int]] = []
    for most in (MIB, 2 * MIB):
        outbox.when_room(most, lambda most=most: called.append((most, outbox.unsent_bytes)))  # type: ignore[misc]
    outbox.flush(ours)
    assert not called
    receive_all(outbox, ours, theirs)
    assert [most for most, _ in called] == [2 * MIB, MIB]
    assert all(unsent <= most for most, unsent in called)


def test_a_peer_that_does_not_read_is_not_read_ahead_for(file: int) -> None:
    """Thousands of small slices for one slow peer stay slices."""
    outbox = Outbox()
    for _ in range(10_000):
        outbox.add_slice(b"head", Slice(file, 0, 60 * KIB))
    assert outbox.queued_bytes < 64 * MIB


def test_a_slice_without_a_descriptor_is_read(
    pair: tuple[socket.socket, socket.socket], file: int
) -> None:
    outbox = Outbox()
    part = Slice(file, 5, 200 * KIB, has_descriptor=False)
    outbox.add_slice(b"head", part)
    assert receive_all(outbox, *pair) == b"head" + part.read()


def test_where_sendfile_refuses_the_file_is_read(
    pair: tuple[socket.socket, socket.socket], file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems refuse; none of them is at hand everywhere, so the refusal is played."""

    def refuse(*_: int) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "sendfile", refuse)
    outbox = Outbox()
    part = Slice(file, 7, 500 * KIB)
    outbox.add_slice(b"head", part)
    assert receive_all(outbox, *pair) == b"head" + part.read()


@pytest.mark.parametrize("length", [1000, 500 * KIB])
def test_a_file_cut_short_is_an_error_and_no_endless_loop(
    pair: tuple[socket.socket, socket.socket], file: int, length: int
) -> None:
    ours, _ = pair
    outbox = Outbox()
    os.ftruncate(file, 100)

    def send() -> None:
        outbox.add_slice(b"head", Slice(file, 50, length))
        outbox.flush(ours)
        outbox.flush(ours)  # what was there has left: the next turn finds the end

    with pytest.raises(StorageFailed, match=f"50 bytes after position 50, where {length} bytes"):
        send()


def test_a_small_slice_that_cannot_be_read_leaves_nothing_queued(file: int) -> None:
    """So that the caller can send an error instead."""
    outbox = Outbox()
    os.ftruncate(file, 100)
    with pytest.raises(StorageFailed):
        outbox.add_slice(b"head", Slice(file, 50, 1000))
    assert not outbox
    assert outbox.queued_bytes == 0


def test_a_buffer_that_changes_is_copied_where_it_must_wait(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    outbox = Outbox()
    reused = bytearray(b"a" * 2 * MIB)
    kept = memoryview(bytearray(b"b" * 2 * MIB)).toreadonly()
    outbox.borrow(memoryview(reused))
    outbox.borrow(kept)
    outbox.flush(pair[0])
    assert outbox.queued_bytes > 2 * MIB, "the socket cannot take all of it"
    outbox.keep_borrowed()
    reused[:] = b"x" * len(reused)
    assert receive_all(outbox, *pair) == b"a" * 2 * MIB + bytes(kept)


def test_one_turn_is_bounded() -> None:
    """A peer that reads as fast as we send does not keep the loop from the others."""

    class Swallowing(socket.socket):
        """A socket into which everything fits."""

        def send(self, data: bytes | memoryview, flags: int = 0) -> int:  # type: ignore[override]
            return len(data)

        def sendmsg(self, *arguments: list[bytes]) -> int:  # type: ignore[override]
            return sum(map(len, arguments[0]))

    outbox = Outbox()
    for _ in range(20):
        outbox.add(bytes(MIB))
    with Swallowing() as swallowing:
        outbox.flush(swallowing)
        assert TURN_BYTES_MAX <= outbox.sent_bytes <= TURN_BYTES_MAX + 2 * MIB
        assert outbox


def test_what_is_cleared_is_not_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    outbox = Outbox()
    outbox.add(b"lost")
    outbox.clear()
    assert receive_all(outbox, *pair) == b""
    assert outbox.queued_bytes == 0


def test_a_peer_that_is_gone_is_an_os_error(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.close()
    outbox = Outbox()
    outbox.add(b"to nobody")
    with pytest.raises(BrokenPipeError):
        outbox.flush(ours)
