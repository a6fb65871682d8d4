"""A call in the hands of who serves it: read once, and answered in each of the ways there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import Busy, MalformedFrame
from penstock.net.call import Call
from penstock.net.channel import Channel
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.net.sockets import Slice, channel_pair, turns, until

Answer = Callable[[Call[pb.FetchRequest]], None]
RESPONSE = pb.FetchResponse(high_watermark=9)


async def asked(answer: Answer) -> tuple[pb.FetchResponse, memoryview]:
    """What comes of a Fetch that is answered so."""

    def serve(
        channel: Channel, number: int, message_id: int, envelope: memoryview, payload: memoryview
    ) -> None:
        call: Call[Any] = Call(channel, calls.CALLS[number], message_id, envelope, payload)
        assert (call.name, call.request.offset, bytes(call.payload)) == ("Fetch", 7, b"more")
        answer(call)

    near, far = channel_pair(serve_far=serve)
    try:
        return await near.call(calls.FETCH, pb.FetchRequest(offset=7), [b"more"])
    finally:
        near.close()
        far.close()
        await turns(10)


async def test_it_is_answered_with_or_without_a_payload() -> None:
    response, payload = await asked(lambda call: call.answer(RESPONSE))
    assert (response, bytes(payload)) == (RESPONSE, b"")
    response, payload = await asked(lambda call: call.answer(RESPONSE, b"bytes"))
    assert (response, bytes(payload)) == (RESPONSE, b"bytes")


async def test_it_is_answered_with_a_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        part = Slice(file.fileno(), 2, 3)
        response, payload = await asked(lambda call: call.answer_slice(RESPONSE, part))
    assert (response, bytes(payload)) == (RESPONSE, b"234")


async def test_it_is_refused() -> None:
    with pytest.raises(Busy, match="later"):
        await asked(lambda call: call.refuse(Busy("Try later.")))


async def test_what_is_no_request_of_its_kind_is_no_call() -> None:
    near, far = channel_pair()
    with pytest.raises(MalformedFrame, match="FetchRequest"):
        Call(near, calls.FETCH, 1, memoryview(b"\xff"), memoryview(b""))
    near.close()
    far.close()
    await turns(10)


async def test_one_that_asks_for_no_answer_is_over_without() -> None:
    near, far = channel_pair(
        serve_far=lambda channel, number, at, envelope, payload: Call(
            channel, calls.CALLS[number], at, envelope, payload
        ).leave_unanswered()
    )
    near.tell(calls.GIVE_CREDIT.number, pb.GiveCreditRequest().SerializeToString())
    await until(lambda: far.connection.frames_received == 1)
    assert far.calls_in_flight == 0
    near.close()
    far.close()
    await turns(10)
