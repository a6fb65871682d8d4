"""The table of calls, envelopes and errors on the wire."""

from __future__ import annotations

import pytest

from penstock.model.error_codes import BY_CODE
from penstock.model.errors import Busy, MalformedFrame, PenstockError, UnknownTopic
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import (
    CALLS,
    FETCH,
    error_envelope,
    error_from,
    parse,
    type_name,
)
from penstock.protocol.frame import ANSWER_BIT, ERROR_TYPE


def test_every_published_call_has_a_row() -> None:
    """R-NET-3: the .proto is the contract."""
    published = {value.number for value in pb.Call.DESCRIPTOR.values} - {pb.CALL_UNSPECIFIED}
    assert set(CALLS) == published


def test_a_row_names_the_messages_of_its_call() -> None:
    for call in CALLS.values():
        enum_name = pb.Call.Name(call.number).removeprefix("CALL_").replace("_", "").lower()
        assert call.name.lower() == enum_name
        assert call.request.DESCRIPTOR.name == f"{call.name}Request"
        assert call.response.DESCRIPTOR.name == f"{call.name}Response"
        assert call.number < ANSWER_BIT


def test_an_envelope_is_parsed_from_any_buffer() -> None:
    envelope = pb.FetchRequest(topic="orders", offset=7).SerializeToString()
    assert parse(FETCH.request, memoryview(envelope)).topic == "orders"
    assert parse(FETCH.request, memoryview(bytearray(envelope))).offset == 7


def test_unknown_fields_are_not_fatal() -> None:
    """R-NET-3: a field of a newer peer (number 2000, a string) is ignored."""
    envelope = pb.FetchRequest(topic="orders").SerializeToString() + b"\x82\x7d\x03new"
    assert parse(FETCH.request, envelope).topic == "orders"


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xff\xfe"])
def test_garbage_is_a_malformed_frame(garbage: bytes) -> None:
    with pytest.raises(MalformedFrame, match="FetchRequest"):
        parse(FETCH.request, garbage)


@pytest.mark.parametrize("error_class", BY_CODE.values(), ids=lambda cls: cls.__name__)
def test_every_error_travels(error_class: type[PenstockError]) -> None:
    error = error_from(error_envelope(error_class("what is wrong and what to do")))
    assert type(error) is error_class
    assert error.message == "what is wrong and what to do"


def test_an_error_says_whether_to_try_again() -> None:
    assert pb.Error.FromString(error_envelope(Busy())).retriable
    assert not pb.Error.FromString(error_envelope(UnknownTopic())).retriable


def test_an_error_of_a_newer_peer_is_still_an_error() -> None:
    error = error_from(pb.Error(code=9999, message="new").SerializeToString())
    assert type(error) is PenstockError
    assert error.message == "new"


def test_an_error_about_foreign_bytes_can_be_sent() -> None:
    """Text that is not valid UTF-8, as from a name with a lone surrogate, is replaced."""
    assert error_from(error_envelope(UnknownTopic("no topic \udcff"))).message == "no topic ?"


def test_names_for_log_lines() -> None:
    assert type_name(pb.CALL_PRODUCE) == "Produce"
    assert type_name(pb.CALL_PRODUCE | ANSWER_BIT) == "answer to Produce"
    assert type_name(ERROR_TYPE) == "error answer"
    assert type_name(99) == "type 99"
