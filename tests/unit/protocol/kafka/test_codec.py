"""Messages in bytes: by hand, cut anywhere, with lengths that lie, and from newer peers."""

# A field is declared by a call that makes its dataclass field.
# ruff: noqa: RUF009

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from penstock.model.errors import MalformedFrame
from penstock.protocol.kafka import apis, codec
from penstock.protocol.kafka.codec import (
    STRING_BYTES_MAX,
    TAGS_MAX,
    Outgoing,
    read_message,
    read_tag_section,
    write_message,
)
from penstock.protocol.kafka.messages.fetch import LeaderIdAndEpoch
from penstock.protocol.kafka.messages.heartbeat import HeartbeatRequest
from penstock.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.protocol.kafka.messages.sync_group import SyncGroupRequest
from penstock.protocol.kafka.schema import Kind, array, binary, int16, int32, string, struct
from penstock.storage.segments.slice import FileSlice
from tests.kit.records.kafka_messages import FORMS, Form, Samples

# Both ends of every API's versions, which have every form a field can have.
ENDS = [form for form in FORMS if form.version in (form.api.version_min, form.api.version_max)]


@dataclass(slots=True)
class Inner:
    number: int = int16()
    names: Sequence[str] = array(Kind.STRING)


@dataclass(slots=True)
class Older:
    """What we know."""

    text: str | None = string(nullable_since=0)
    inners: Sequence[Inner] | None = array(Inner, nullable_since=0)
    inner: Inner | None = struct(Inner, nullable_since=0)
    data: bytes = binary()
    tagged: int = int32(tag=3, default=-1)
    tagged_names: Sequence[str] = array(Kind.STRING, tag=1)
    tagged_inner: Inner | None = struct(Inner, tag=2)


@dataclass(slots=True)
class NewerInner:
    number: int = int16()
    names: Sequence[str] = array(Kind.STRING)
    reason: str = string(tag=0)


@dataclass(slots=True)
class Newer:
    """What a peer of a later version sends."""

    text: str | None = string(nullable_since=0)
    inners: Sequence[NewerInner] | None = array(NewerInner, nullable_since=0)
    inner: NewerInner | None = struct(NewerInner, nullable_since=0)
    data: bytes = binary()
    tagged: int = int32(tag=3, default=-1)
    tagged_names: Sequence[str] = array(Kind.STRING, tag=1)
    tagged_inner: NewerInner | None = struct(NewerInner, tag=2)
    colour: str = string(tag=200)
    before: int = int32(tag=0, default=7)


def written(message: object, *, version: int = 0, is_flexible: bool = True) -> bytes:
    out = Outgoing()
    write_message(message, version, is_flexible, out)
    assert not out.parts
    return bytes(out.buffer)


def read_older(data: bytes, *, is_flexible: bool = True) -> Older:
    return read_message(Older, 0, is_flexible, memoryview(data))


# --- bytes by hand -----------------------------------------------------------------------------


def test_a_message_before_flexible_versions() -> None:
    message = HeartbeatRequest("group", 7, "member", None)
    assert written(message, version=3, is_flexible=False).hex(" ") == (
        "00 05 67 72 6f 75 70"  # int16 length, text
        " 00 00 00 07"
        " 00 06 6d 65 6d 62 65 72"
        " ff ff"  # null
    )


def test_a_message_of_a_flexible_version() -> None:
    message = HeartbeatRequest("group", 7, "member", None)
    assert written(message, version=4).hex(" ") == (
        "06 67 72 6f 75 70"  # length and one as a variable-length number, text
        " 00 00 00 07"
        " 07 6d 65 6d 62 65 72"
        " 00"  # null
        " 00"  # no tagged fields
    )


def test_a_field_outside_its_versions_is_not_written_and_reads_as_its_default() -> None:
    message = HeartbeatRequest("group", 7, "member", "instance")
    data = written(message, version=2, is_flexible=False)
    assert b"instance" not in data
    read = read_message(HeartbeatRequest, 2, False, memoryview(data))
    assert read == HeartbeatRequest("group", 7, "member", None)


def test_tagged_fields_rise_and_are_there_only_when_they_say_something() -> None:
    assert written(Older(tagged_names=[], tagged_inner=Inner())) == written(Older())
    message = Older(inners=[], tagged=5, tagged_names=["a"], tagged_inner=Inner(1, []))
    assert written(message).removeprefix(written(Older())[:-1]).hex(" ") == (
        "03"
        " 01 03 02 02 61"  # tag 1, three bytes: one string
        " 02 04 00 01 01 00"  # tag 2, a structure with its own tagged fields: none
        " 03 04 00 00 00 05"
    )
    assert read_older(written(message)) == message


def test_records_are_a_view_of_the_frame_and_not_a_copy() -> None:
    request = ProduceRequest(None, -1, 1000, [TopicProduceData("t", bytes(16), [])])
    request.topic_data[0].partition_data = [PartitionProduceData(0, memoryview(b"batches"))]
    frame = bytearray(written(request, version=12))
    read = read_message(ProduceRequest, 12, True, memoryview(frame))
    records = read.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"batches"
    assert records.obj is frame


def test_payloads_stand_between_the_bytes() -> None:
    first, second = FileSlice(None, 0, 300), FileSlice(None, 300, 300)
    partitions = [PartitionProduceData(0, first), PartitionProduceData(1, second)]
    request = ProduceRequest(topic_data=[TopicProduceData("t", bytes(16), partitions)])
    out = Outgoing()
    write_message(request, 12, True, out)
    before, one, between, two = out.parts
    assert one is first
    assert two is second
    assert isinstance(before, bytearray)
    assert before[-2:].hex() == "ad02"  # 301
    assert isinstance(between, bytearray)
    assert between.hex(" ") == "00 00 00 00 01 ad 02"
    assert out.buffer.hex() == "000000"


def test_a_null_where_there_must_be_a_value_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="must be there"):
        written(MetadataRequest(None), version=0, is_flexible=False)
    with pytest.raises(AssertionError, match="must be there"):
        written(MetadataRequest([MetadataRequestTopic(name=None)]), version=9)


def test_a_sentence_of_ours_that_quotes_too_much_is_cut_between_two_letters() -> None:
    partition = PartitionProduceResponse(error_message="ü" * STRING_BYTES_MAX)
    response = ProduceResponse([TopicProduceResponse("t", bytes(16), [partition])])
    for version, is_flexible in ((8, False), (9, True)):
        data = written(response, version=version, is_flexible=is_flexible)
        read = read_message(ProduceResponse, version, is_flexible, memoryview(data))
        message = read.responses[0].partition_responses[0].error_message
        assert message == "ü" * (STRING_BYTES_MAX // 2)


def test_a_structure_that_is_its_default_is_not_sent() -> None:
    partition = PartitionProduceResponse(current_leader=LeaderIdAndEpoch())
    assert written(partition, version=10) == written(PartitionProduceResponse(), version=10)


# --- peers that know more ----------------------------------------------------------------------


def test_what_only_a_newer_peer_knows_is_skipped_at_every_depth() -> None:
    """KIP-482."""
    newer = Newer(
        text="text",
        inners=[NewerInner(1, ["a"], reason="new"), NewerInner(2)],
        inner=NewerInner(3, reason="x" * 300),
        data=b"data",
        tagged=4,
        tagged_inner=NewerInner(5, reason="also"),
        colour="blue",
        before=8,
    )
    assert read_older(written(newer)) == Older(
        text="text",
        inners=[Inner(1, ["a"]), Inner(2, [])],
        inner=Inner(3, []),
        data=b"data",
        tagged=4,
        tagged_inner=Inner(5, []),
    )


def test_what_only_we_know_reads_as_its_default() -> None:
    assert read_message(Newer, 0, True, memoryview(written(Older("text")))) == Newer("text", [])


# --- bytes that lie ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ENDS, ids=str)
def test_a_message_cut_anywhere_is_malformed(form: Form) -> None:
    """R-NET-1, R-NET-5."""
    samples = Samples(f"cut {form}")
    data = max((form.write(samples.ours(form.kind, form.version)) for _ in range(3)), key=len)
    for length in range(min(len(data), 600)):
        with pytest.raises(MalformedFrame):
            form.read(data[:length])


@pytest.mark.parametrize("form", ENDS, ids=str)
def test_bytes_after_the_message_are_malformed(form: Form) -> None:
    data = form.write(Samples(f"more {form}").ours(form.kind, form.version))
    with pytest.raises(MalformedFrame, match="1 bytes more"):
        form.read(data + b"\0")


@pytest.mark.parametrize(
    ("is_flexible", "data", "reason"),
    [
        (False, "fffe", "length is -2"),
        (False, "8000", "length is -32768"),
        (False, "ffff fffffffe", "length is -2"),
        (False, "ffff 80000000", "length is -2147483648"),
        (False, "ffff 7fffffff", "2147483647 elements"),
        (False, "ffff 00010000 0000", "65536 elements"),
        (False, "ffff ffffffff ff ffffffff", "bytes that must be there is null"),
        (False, "ffff ffffffff ff 7fffffff", "longer than its frame"),
        (False, "7fff 61", "longer than its frame"),
        (False, "ffff ffffffff 01 0000 ffffffff", "array that must be there is null"),
        (False, "0001 ff", "is no text"),
        (True, "ffffffff0f", "longer than its frame"),
        (True, "ffffffff1f", "longer than 32 bits"),
        (True, "8080808080 00", "longer than 32 bits"),
        (True, "00 ffffffff0f", "4294967294 elements"),
        (True, "00 00 ff 00", "bytes that must be there is null"),
        (True, "00 00 01 0000 00", "array that must be there is null"),
        (True, "00 00 ff 01 01 09 7f", "tagged field is longer than its frame"),
        (True, "00 00 ff 01 01 03 03 000000", "tagged field is longer|ends early|length it says"),
        (True, "00 00 ff 01 01 03 05 0000000000", "Tagged field 3 does not have the length"),
        (True, "00 00 ff 01 01 01 00 00", "Tagged field 1 does not have the length|null"),
        (True, "00 00 ff 01 e907", "1001 tagged fields"),
    ],
)
def test_lengths_that_lie_are_malformed(is_flexible: bool, data: str, reason: str) -> None:
    """R-NET-1, R-NET-5."""
    assert TAGS_MAX == 1000
    with pytest.raises(MalformedFrame, match=reason):
        read_older(bytes.fromhex(data), is_flexible=is_flexible)


def test_a_tagged_field_may_not_reach_into_what_follows() -> None:
    """Its length says where it ends, even if the bytes after it would make it whole."""
    good = written(Older(tagged=5))
    assert good.endswith(bytes.fromhex("01 03 04 00000005"))
    with pytest.raises(MalformedFrame, match="length it says"):
        read_older(good[:-6] + bytes.fromhex("03 02 00000005"))


def test_a_string_beyond_kafkas_limit_is_malformed() -> None:
    longest = Older("x" * STRING_BYTES_MAX)
    assert read_older(written(longest)).text == longest.text
    length = bytes.fromhex("81 80 02")  # one more than the string has
    with pytest.raises(MalformedFrame, match="longer than Kafka allows"):
        read_older(length + b"x" * (STRING_BYTES_MAX + 1))


def test_the_tagged_fields_of_a_header_are_skipped_or_malformed() -> None:
    assert read_tag_section(memoryview(bytes.fromhex("00")), 0) == 1
    assert read_tag_section(memoryview(bytes.fromhex("ff 02 05 00 07 01 aa")), 1) == 7
    for cut in ("", "01", "01 05", "01 05 03 aabb", "80"):
        with pytest.raises(MalformedFrame):
            read_tag_section(memoryview(bytes.fromhex(cut)), 0)


# --- bounds ------------------------------------------------------------------------------------


def peak_bytes_of_refusing(form: Form, data: bytes) -> int:
    form.read(form.write(form.kind()))  # readers are made once
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrame):
            form.read(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_absurd_counts_take_no_memory() -> None:
    """R-NET-4: nothing is made for elements that the frame has no room for."""
    count = (2**31 - 1).to_bytes(4)
    legacy = Form(apis.METADATA, 8, MetadataRequest)
    assert peak_bytes_of_refusing(legacy, count + bytes(1000)) < 20_000
    flexible = Form(apis.METADATA, 12, MetadataRequest)
    assert peak_bytes_of_refusing(flexible, b"\xff\xff\xff\xff\x0f" + bytes(1000)) < 20_000
    group = Form(apis.SYNC_GROUP, 3, SyncGroupRequest)
    assert peak_bytes_of_refusing(group, b"\0\0" + bytes(4) + b"\0\0" * 2 + count) < 20_000


def test_elements_are_counted_over_all_arrays_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-NET-4: arrays within arrays multiply, and it is their product that is bounded."""
    monkeypatch.setattr(codec, "ELEMENTS_MAX", 505)
    full = [Inner(0, ["" for _ in range(100)])]
    assert len(read_older(written(Older(inners=full * 5))).inners or ()) == 5
    with pytest.raises(MalformedFrame, match="100 elements"):
        read_older(written(Older(inners=full * 6)))
