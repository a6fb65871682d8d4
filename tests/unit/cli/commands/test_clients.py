"""`penstock clients`: what a person sees of them."""

from __future__ import annotations

from penstock.cli.commands.clients import _client_row, _stream_rows, _streams
from penstock.client.admin.clients import ClientStatus, StreamStatus

STREAM = StreamStatus(
    group="billing",
    member_id="me",
    topic="orders",
    partition=3,
    shared=False,
    state="parked",
    in_flight=7,
    credit=5,
    delivered=100,
    timeouts=1,
    reason="The client left a delivery unanswered twice.",
    parked_at_ms=9_000,
)
CLIENT = ClientStatus(
    broker=1,
    id=42,
    name="billing-7",
    software="penstock-python",
    address="127.0.0.1:9",
    protocol="penstock",
    state="lost",
    connected_at_ms=1_000,
    heard_at_ms=8_500,
    lost_at_ms=9_500,
    reason="It answered no ping.",
    streams=(STREAM, STREAM),
)


def test_a_client_is_shown_with_why_it_was_lost() -> None:
    row = _client_row(CLIENT, 10_000)
    assert row["state"] == "lost: It answered no ping."
    assert row["heard"] == "1.5 s ago"
    assert _client_row(CLIENT, 0)["heard"] == "0.0 s ago"


def test_a_stream_is_shown_with_its_partition_and_its_reason() -> None:
    first, second = _stream_rows([CLIENT])
    assert first == second
    assert (first["client"], first["partition"]) == ("billing-7", "orders-3")
    assert first["reason"] == STREAM.reason


def test_streams_are_counted() -> None:
    assert [_streams(count) for count in (0, 1, 2)] == ["0 streams", "1 stream", "2 streams"]
