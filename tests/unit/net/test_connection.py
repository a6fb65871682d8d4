"""One socket on the loop: frames in whole and in order, back-pressure, and every kind of end."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import tracemalloc
from pathlib import Path

import pytest

from penstock.model.errors import (
    ConnectionLost,
    InternalError,
    MalformedFrame,
    StorageFailed,
)
from penstock.model.limits import KIB, MIB, WRITE_QUEUE_BYTES_HIGH, WRITE_QUEUE_BYTES_LOW
from penstock.net.connection import Connection, Pause
from penstock.net.receive_pool import ReceivePool
from tests.kit.net.sockets import (
    Recorder,
    Slice,
    frame,
    read_exactly,
    read_to_end,
    socket_pair,
    tcp_pair,
    turns,
    until,
)


def connect(
    recorder: Recorder,
    *,
    buffer_bytes: int = 0,
    pool: ReceivePool | None = None,
    keep_frames: bool = False,
    reads_while_full: bool = False,
) -> tuple[Connection, socket.socket]:
    ours, theirs = socket_pair(buffer_bytes)
    connection = Connection(
        ours,
        pool=pool or ReceivePool(),
        keep_frames=keep_frames,
        reads_while_full=reads_while_full,
    )
    connection.start(recorder)
    return connection, theirs


async def end(connection: Connection, theirs: socket.socket) -> None:
    connection.abort()
    theirs.close()
    await turns(3)


# --- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_frames", [False, True])
async def test_frames_arrive_whole_and_in_order_however_they_are_cut(keep_frames: bool) -> None:
    """R-NET-4: sizes around every threshold, cut at random places."""
    chance = random.Random(20)
    sizes = [0, 1, 100, 65_500, 65_520, 65_530, 131_072, 262_100, 262_144, 300_000, 1_500_000, 7]
    expected = [frame(chance.randbytes(size), number) for number, size in enumerate(sizes * 2)]
    recorder = Recorder()
    connection, theirs = connect(recorder, keep_frames=keep_frames)
    stream = b"".join(expected)
    loop = asyncio.get_running_loop()
    start = 0
    while start < len(stream):
        size = chance.choice([1, 13, 4_000, 70_000, 400_000])
        await loop.sock_sendall(theirs, stream[start : start + size])
        start += size
    await until(lambda: len(recorder.frames) == len(expected))
    assert recorder.frames == expected
    if keep_frames:
        assert [bytes(view) for view in recorder.views] == expected, "kept frames have not changed"
    assert connection.frames_received == len(expected)
    assert connection.bytes_received == len(stream)
    await end(connection, theirs)


async def test_frames_arrive_byte_by_byte() -> None:
    expected = [frame(b"x" * size, size) for size in (0, 1, 50)]
    recorder = Recorder()
    connection, theirs = connect(recorder)
    for byte in b"".join(expected):
        theirs.send(bytes([byte]))
        await turns(2)
    await until(lambda: len(recorder.frames) == len(expected))
    assert recorder.frames == expected
    await end(connection, theirs)


async def test_a_frame_can_be_written_to() -> None:
    """The broker patches offsets into batches where they lie."""

    def patch(view: memoryview) -> None:
        view[-1:] = b"!"

    recorder = Recorder(then=patch)
    connection, theirs = connect(recorder)
    theirs.send(frame(b"abc"))
    await until(lambda: recorder.read_ends == 1)
    assert bytes(recorder.views[0]).endswith(b"ab!")
    theirs.send(frame(b"one") + frame(b"two"))
    await until(lambda: len(recorder.frames) == 3)
    assert recorder.read_ends == 2, "the end of a read is told once, after its frames"
    await end(connection, theirs)


async def test_a_pause_stops_within_a_read_and_loses_nothing() -> None:
    """What was read before the pause is delivered after it, and first."""
    recorder = Recorder()
    connection, theirs = connect(recorder)
    recorder.then = lambda _: connection.pause_reading(Pause.CALLS_IN_FLIGHT)
    theirs.send(frame(b"1") + frame(b"2"))
    await until(lambda: len(recorder.frames) == 1)
    theirs.send(frame(b"3"))
    await turns()
    assert len(recorder.frames) == 1
    connection.pause_reading(Pause.DRAINING)
    connection.resume_reading(Pause.CALLS_IN_FLIGHT)
    await turns()
    assert len(recorder.frames) == 1, "one reason is left"
    recorder.then = None
    connection.resume_reading(Pause.DRAINING)
    await until(lambda: len(recorder.frames) == 3)
    assert recorder.frames == [frame(b"1"), frame(b"2"), frame(b"3")]
    await end(connection, theirs)


async def test_a_pause_between_large_frames_loses_nothing() -> None:
    recorder = Recorder()
    connection, theirs = connect(recorder)
    expected = [frame(bytes([number]) * 200_000) for number in range(6)]
    recorder.then = lambda _: connection.pause_reading(Pause.CALLS_IN_FLIGHT)
    sending = asyncio.create_task(
        asyncio.get_running_loop().sock_sendall(theirs, b"".join(expected))
    )
    for count in range(1, len(expected) + 1):
        await until(lambda count=count: len(recorder.frames) == count)  # type: ignore[misc]
        await turns(3)
        assert len(recorder.frames) == count
        connection.resume_reading(Pause.CALLS_IN_FLIGHT)
    await sending
    assert recorder.frames == expected
    await end(connection, theirs)


async def test_a_pause_between_a_large_frame_and_a_small_one_loses_nothing() -> None:
    """What is kept must not be taken for a part of a frame as long as the one before."""
    recorder = Recorder()
    connection, theirs = connect(recorder)
    recorder.then = lambda _: connection.pause_reading(Pause.CALLS_IN_FLIGHT)
    large, small = frame(b"x" * 100_000), frame(b"small")
    theirs.send(large + small)
    await until(lambda: len(recorder.frames) == 1)
    connection.resume_reading(Pause.CALLS_IN_FLIGHT)
    await until(lambda: len(recorder.frames) == 2)
    assert recorder.frames == [large, small]
    await end(connection, theirs)


async def test_large_frames_wait_for_the_receive_budget() -> None:
    """R-NET-4: many large frames at once hold no more than the budget and one frame."""
    pool = ReceivePool(bytes_max=MIB)
    recorders = [Recorder() for _ in range(8)]
    connections = [connect(recorder, pool=pool) for recorder in recorders]
    data = frame(b"x" * 700_000)
    loop = asyncio.get_running_loop()
    senders = [asyncio.create_task(loop.sock_sendall(theirs, data)) for _, theirs in connections]
    peak_bytes = 0
    paused = 0

    def all_arrived() -> bool:
        nonlocal peak_bytes, paused
        peak_bytes = max(peak_bytes, pool.reserved_bytes)
        paused = max(
            paused, sum(each.is_paused_for(Pause.RECEIVE_BUDGET) for each, _ in connections)
        )
        return all(recorder.frames for recorder in recorders)

    await until(all_arrived)
    await asyncio.gather(*senders)
    assert all(recorder.frames == [data] for recorder in recorders)
    assert paused > 0
    assert peak_bytes <= MIB + len(data) + 4 * KIB
    for connection, theirs in connections:
        await end(connection, theirs)
    assert pool.reserved_bytes == 0


async def test_bytes_that_are_no_frame_end_the_connection_after_a_last_answer() -> None:
    """R-NET-1: frames before the wrong one are served, a last answer reaches the peer."""
    recorder = Recorder()
    connection, theirs = connect(recorder)

    def answer(_: memoryview) -> None:
        connection.send(b"answer")

    recorder.then = answer
    theirs.send(frame(b"good") + b"garbage" + bytes(100_000))
    theirs.shutdown(socket.SHUT_WR)
    assert await read_to_end(theirs) == b"answer"
    await until(lambda: bool(recorder.closed))
    assert [type(error) for error in recorder.errors] == [MalformedFrame]
    assert isinstance(recorder.closed[0], MalformedFrame)
    theirs.close()


async def test_a_bug_in_a_receiver_ends_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder(then=lambda _: 1 // 0)  # type: ignore[arg-type]
    _, theirs = connect(recorder)
    theirs.send(frame(b""))
    await until(lambda: bool(recorder.closed))
    assert isinstance(recorder.closed[0], InternalError)
    assert recorder.read_ends == 1, "views of its frames must not outlive their bytes"
    assert "ZeroDivisionError" in caplog.text
    theirs.close()


async def test_a_bug_at_the_end_of_a_read_ends_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder()
    recorder.on_read_end = lambda: 1 // 0  # type: ignore[assignment,method-assign]
    _, theirs = connect(recorder)
    theirs.send(frame(b""))
    await until(lambda: bool(recorder.closed))
    assert isinstance(recorder.closed[0], InternalError)
    theirs.close()


# --- writing ---------------------------------------------------------------------------------


async def test_answers_of_one_read_leave_in_one_system_call() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    connection = Connection(ours, pool=ReceivePool())
    recorder = Recorder(then=lambda _: connection.send(b"answer,"))
    connection.start(recorder)
    theirs.send(frame(b"") * 5)
    assert await asyncio.get_running_loop().sock_recv(theirs, 1000) == b"answer," * 5
    connection.send(b"not ")
    connection.send(b"asked for")
    assert await asyncio.get_running_loop().sock_recv(theirs, 1000) == b"not asked for"
    await end(connection, theirs)


async def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    """R-NET-4: memory stays bounded, and everything arrives once the peer reads."""
    answer = b"a" * 10_000
    recorder = Recorder()
    connection, theirs = connect(recorder)
    recorder.then = lambda _: connection.send(answer)
    request = frame(b"")
    calls = 4 * WRITE_QUEUE_BYTES_HIGH // len(answer)
    sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(theirs, request * calls))
    await until(lambda: connection.is_paused_for(Pause.WRITE_QUEUE))
    served = len(recorder.frames)
    await turns(50)
    assert len(recorder.frames) == served < calls
    assert not connection.is_writable
    assert connection.outbox.queued_bytes <= WRITE_QUEUE_BYTES_HIGH + len(answer)
    assert await read_exactly(theirs, calls * len(answer)) == answer * calls
    await sending
    assert (connection.is_paused_for(Pause.WRITE_QUEUE), connection.is_writable) == (False, True)
    await end(connection, theirs)


async def test_the_side_that_connected_reads_on_while_its_peer_is_slow() -> None:
    """Or both sides could wait for the other to read first."""
    recorder = Recorder()
    connection, theirs = connect(recorder, reads_while_full=True)
    connection.send(bytes(2 * WRITE_QUEUE_BYTES_HIGH))
    assert not connection.is_writable
    theirs.send(frame(b"still read"))
    await until(lambda: bool(recorder.frames))
    await end(connection, theirs)


async def test_drain_waits_for_room() -> None:
    recorder = Recorder()
    connection, theirs = connect(recorder, reads_while_full=True)
    await connection.drain()
    connection.send(bytes(2 * WRITE_QUEUE_BYTES_HIGH))
    draining = asyncio.create_task(connection.drain())
    cancelled = asyncio.create_task(connection.drain())
    await turns()
    assert not draining.done()
    cancelled.cancel()
    await read_exactly(theirs, 2 * WRITE_QUEUE_BYTES_HIGH)
    await draining
    assert connection.outbox.queued_bytes <= WRITE_QUEUE_BYTES_LOW
    assert cancelled.cancelled()
    await end(connection, theirs)


async def test_drain_ends_with_the_connection() -> None:
    connection, theirs = connect(Recorder())
    connection.send(bytes(2 * WRITE_QUEUE_BYTES_HIGH))
    draining = asyncio.create_task(connection.drain())
    await turns()
    connection.abort()
    with pytest.raises(ConnectionLost):
        await draining
    with pytest.raises(ConnectionLost):
        await connection.drain()
    connection.send(b"to nobody: dropped")
    theirs.close()


@pytest.mark.parametrize("size", [100, 3 * MIB])
async def test_a_buffer_given_out_may_change_after_send(size: int) -> None:
    """Outside of a read callback, as a leader's batch goes to its followers."""
    connection, theirs = connect(Recorder())
    reused = bytearray(b"a" * size)
    connection.send(memoryview(reused))
    reused[:] = b"b" * size
    assert await read_exactly(theirs, size) == b"a" * size
    await end(connection, theirs)


async def test_a_large_frame_is_echoed_from_its_own_buffer() -> None:
    """Within a read callback what is sent from the frame itself is copied only if it must wait."""
    recorder = Recorder()
    connection, theirs = connect(recorder, buffer_bytes=50_000)
    recorder.then = connection.send
    sent = b"".join(frame(os.urandom(500_000)) for _ in range(4))
    sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(theirs, sent))
    await until(lambda: len(recorder.frames) == 4)  # its buffer was used again, and again
    assert await read_exactly(theirs, len(sent)) == sent
    await sending
    await end(connection, theirs)


async def test_files_and_answers_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(os.urandom(2 * MIB))
    with path.open("rb") as file:
        recorder = Recorder()
        connection, theirs = connect(recorder, buffer_bytes=100_000)
        slices = [Slice(file.fileno(), number * 1000, number * 37_000) for number in range(20)]

        def answer(view: memoryview) -> None:
            number = view[7]
            connection.send(b"answer %d" % number)
            connection.send_slice(b"head %d" % number, slices[number])

        recorder.then = answer
        theirs.send(b"".join(frame(b"", number) for number in range(len(slices))))
        expected = b"".join(
            b"answer %dhead %d" % (number, number) + part.read()
            for number, part in enumerate(slices)
        )
        assert await read_exactly(theirs, len(expected)) == expected
        await end(connection, theirs)


async def test_a_file_cut_short_under_a_large_slice_ends_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The head has left and promised the bytes: there is nothing else to do."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100_000)
    with path.open("rb") as file:
        recorder = Recorder()
        connection, theirs = connect(recorder)
        connection.send_slice(b"head", Slice(file.fileno(), 0, 200_000))
        assert len(await read_to_end(theirs)) < 200_000
        await turns(2)
        assert [type(error) for error in recorder.closed] == [StorageFailed]
        theirs.close()
    assert "was cut short under a reader" in caplog.text


# --- ends ------------------------------------------------------------------------------------


async def test_close_sends_what_is_queued_first() -> None:
    recorder = Recorder()
    connection, theirs = connect(recorder)
    connection.send(b"x" * 3 * MIB)
    connection.close()
    connection.close()
    connection.send(b"too late")
    assert await read_to_end(theirs) == b"x" * 3 * MIB
    await until(lambda: bool(recorder.closed))
    assert recorder.closed == [None]
    theirs.close()


@pytest.mark.parametrize(("queued_bytes", "linger"), [(3 * MIB, False), (0, True)])
async def test_close_does_not_wait_for_ever(
    queued_bytes: int, linger: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.net.connection.CLOSE_TIMEOUT_S", 0.0)
    monkeypatch.setattr("penstock.net.connection.LINGER_S", 0.0)
    recorder = Recorder()
    connection, theirs = connect(recorder)
    connection.send(bytes(queued_bytes))
    connection.close(linger=linger)
    await until(lambda: bool(recorder.closed))
    theirs.close()


async def test_unread_requests_do_not_cost_the_peer_its_last_answer() -> None:
    """TCP resets a connection that is closed with unread bytes; a lingering close reads them."""
    ours, theirs = tcp_pair()
    connection = Connection(ours, pool=ReceivePool())
    recorder = Recorder()
    connection.start(recorder)
    theirs.send(b"PS\x01")
    await until(lambda: connection.bytes_received == 3)
    connection.pause_reading(Pause.DRAINING)
    theirs.send(bytes(50_000))
    connection.send(b"last answer")
    connection.close(linger=True)
    await turns()
    assert recorder.closed == [], "it waits for the peer to close first"
    assert await read_to_end(theirs) == b"last answer"
    theirs.close()
    await until(lambda: bool(recorder.closed))


async def test_a_peer_that_closes_between_frames_is_no_error() -> None:
    """A half-closed peer still gets the answers that are queued."""
    recorder = Recorder()
    connection, theirs = connect(recorder)
    recorder.then = lambda _: connection.send(b"y" * 2 * MIB)
    connection.heard_at_s = -1.0
    theirs.send(frame(b""))
    theirs.shutdown(socket.SHUT_WR)
    assert await read_to_end(theirs) == b"y" * 2 * MIB
    await until(lambda: bool(recorder.closed))
    assert recorder.closed == [None]
    assert connection.error is None
    assert connection.heard_at_s > 0
    theirs.close()


async def test_a_peer_that_leaves_within_a_frame_is_an_error() -> None:
    recorder = Recorder()
    _, theirs = connect(recorder)
    theirs.send(frame(b"")[:5])
    theirs.close()
    await until(lambda: bool(recorder.closed))
    assert isinstance(recorder.closed[0], ConnectionLost)
    assert "middle of a frame" in str(recorder.closed[0])


@pytest.mark.parametrize("is_writing", [False, True])
async def test_a_reset_is_an_error(is_writing: bool) -> None:
    ours, theirs = tcp_pair()
    connection = Connection(ours, pool=ReceivePool())
    recorder = Recorder()
    connection.start(recorder)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if is_writing:
        connection.pause_reading(Pause.DRAINING)
        connection.send(bytes(20 * MIB))
        await turns()
    theirs.close()
    await until(lambda: bool(recorder.closed))
    assert isinstance(recorder.closed[0], ConnectionLost)
    assert len(recorder.closed) == 1


async def test_an_idle_connection_costs_little() -> None:
    """R-NET-4: tens of thousands of connections; at most 4 kB of ours for each."""
    pool = ReceivePool()
    pairs = [socket_pair() for _ in range(200)]
    tracemalloc.start()
    try:
        connections = []
        for ours, _ in pairs:
            connections.append(Connection(ours, pool=pool))
            connections[-1].start(Recorder())
        used_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used_bytes / len(pairs) < 4 * KIB
    for connection, (_, theirs) in zip(connections, pairs, strict=True):
        connection.abort()
        theirs.close()
    await turns(3)
