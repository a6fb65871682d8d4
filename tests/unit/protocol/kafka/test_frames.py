"""Frames: their lengths, their headers, answers with payloads, and what real clients recorded."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from penstock.model.errors import FrameTooLarge, MalformedFrame
from penstock.protocol.kafka.apis import (
    API_VERSIONS,
    APIS,
    CREATE_TOPICS,
    FETCH,
    HEARTBEAT,
    PRODUCE,
    Api,
)
from penstock.protocol.kafka.codec import Outgoing, read_message, write_message
from penstock.protocol.kafka.frames import (
    HEAD_BYTES,
    body_position,
    encode_answer,
    measure,
    read_head,
)
from penstock.protocol.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from penstock.protocol.kafka.messages.heartbeat import HeartbeatResponse
from penstock.storage.segments.slice import FileSlice

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka"
RECORDED = sorted(GOLDEN.glob("*.hex"))
# Those that a client sends all the time, or first.
HOT = ("ApiVersions", "Metadata", "Produce", "Fetch", "ListOffsets", "FindCoordinator", "JoinGroup")


def frame_of(key: int, version: int, name: bytes | None, rest: bytes = b"") -> memoryview:
    length = -1 if name is None else len(name)
    content = struct.pack(">hhih", key, version, 9, length) + (name or b"") + rest
    return memoryview(struct.pack(">i", len(content)) + content)


def measured(data: bytes, *, produce_max: int = 1000, other_max: int = 100) -> int:
    return measure(memoryview(data), 0, len(data), produce_max, other_max)


# --- lengths -----------------------------------------------------------------------------------


def test_a_frame_is_measured_once_its_length_and_api_are_there() -> None:
    frame = bytes(frame_of(HEARTBEAT.key, 0, b"name"))
    for end in range(6):
        assert measured(frame[:end]) == 0
    for end in range(6, len(frame)):
        assert measured(frame[:end]) == len(frame)
    view = memoryview(b"before" + frame + b"after")
    assert measure(view, 6, len(view), 1000, 100) == len(frame)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, HEAD_BYTES - 5])
def test_a_frame_without_room_for_its_header_is_malformed(length: int) -> None:
    """R-NET-1, R-NET-5."""
    with pytest.raises(MalformedFrame, match=f"frame of {length} bytes"):
        measured(struct.pack(">ih", length, 0))


def test_only_produce_requests_may_be_long() -> None:
    """R-NET-4: a limit is known before the bytes are received."""
    assert measured(struct.pack(">ih", 996, PRODUCE.key)) == 1000
    assert measured(struct.pack(">ih", 96, FETCH.key)) == 100
    for key, length in ((PRODUCE.key, 997), (FETCH.key, 97), (999, 97), (FETCH.key, 2**31 - 1)):
        with pytest.raises(FrameTooLarge, match=f"frame of {length} bytes"):
            measured(struct.pack(">ih", length, key))


def test_the_first_bytes_of_tls_or_http_are_no_frame() -> None:
    """A client that is set to TLS, or a browser, is refused at once and not waited for."""
    hello = bytes.fromhex("16 03 01 02 00 01 00 01 fc 03 03")
    for data in (hello, b"GET / HTTP/1.1\r\n"):
        with pytest.raises(FrameTooLarge):
            measured(data, produce_max=64 * 2**20, other_max=8 * 2**20)


# --- request headers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [(None, ""), (b"", ""), (b"rdkafka", "rdkafka"), (b"\xff!", "\N{REPLACEMENT CHARACTER}!")],
)
def test_a_header_names_its_client_or_does_not(name: bytes | None, expected: str) -> None:
    frame = frame_of(HEARTBEAT.key, 3, name, b"body")
    *head, position = read_head(frame)
    assert head == [HEARTBEAT.key, 3, 9, expected]
    assert frame[body_position(HEARTBEAT, 3, frame, position) :] == memoryview(b"body")


def test_a_flexible_header_ends_with_tagged_fields() -> None:
    frame = frame_of(HEARTBEAT.key, 4, b"name", b"\x01\x05\x02ab" + b"body")
    *_, position = read_head(frame)
    assert frame[body_position(HEARTBEAT, 4, frame, position) :] == memoryview(b"body")


@pytest.mark.parametrize("length", [-2, -32768, 5, 32767])
def test_a_client_name_with_a_false_length_is_malformed(length: int) -> None:
    frame = struct.pack(">ihhih", 14, HEARTBEAT.key, 0, 9, length) + b"name"
    with pytest.raises(MalformedFrame, match="client's name"):
        read_head(memoryview(frame))


@pytest.mark.parametrize("tags", [b"", b"\x01", b"\x01\x00\x09", b"\xff\xff\xff\xff\xff\xff"])
def test_a_header_cut_in_its_tagged_fields_is_malformed(tags: bytes) -> None:
    frame = frame_of(CREATE_TOPICS.key, 7, b"name", tags)
    *_, position = read_head(frame)
    with pytest.raises(MalformedFrame):
        body_position(CREATE_TOPICS, 7, frame, position)


# --- answers -----------------------------------------------------------------------------------


def test_an_answer_of_a_flexible_version_has_tagged_fields_in_its_header() -> None:
    plain = encode_answer(HEARTBEAT, 3, 9, HeartbeatResponse(0, 27))
    assert [part.hex(" ") for part in plain if isinstance(part, bytearray)] == [
        "00 00 00 0a 00 00 00 09 00 00 00 00 00 1b"
    ]
    flexible = encode_answer(HEARTBEAT, 4, 9, HeartbeatResponse(0, 27))
    assert [part.hex(" ") for part in flexible if isinstance(part, bytearray)] == [
        "00 00 00 0c 00 00 00 09 00 00 00 00 00 00 1b 00"
    ]


def test_the_answer_to_api_versions_has_a_header_that_every_client_knows() -> None:
    """KIP-511."""
    response = ApiVersionsResponse(35, [ApiVersion(18, 0, 4)])
    (frame,) = encode_answer(API_VERSIONS, 3, 9, response)
    assert isinstance(frame, bytearray)
    assert frame[4:].hex(" ") == "00 00 00 09 00 23 02 00 12 00 00 00 04 00 00 00 00 00 00"


def test_payloads_count_in_the_length_and_keep_their_places() -> None:
    slices = [FileSlice(None, 0, 1000), FileSlice(None, 1000, 5)]
    partitions = [PartitionData(index, records=each) for index, each in enumerate(slices)]
    response = FetchResponse(responses=[FetchableTopicResponse("t", bytes(16), partitions)])
    parts = encode_answer(FETCH, 12, 9, response)
    assert [part for part in parts if isinstance(part, FileSlice)] == slices
    assert [isinstance(part, bytearray) for part in parts] == [True, False, True, False, True]
    made = b"".join(p if isinstance(p, bytearray) else bytes(p.length) for p in parts)
    assert struct.unpack_from(">ii", made) == (len(made) - 4, 9)
    read = read_message(FetchResponse, 12, True, memoryview(made), 9)
    lengths = [len(bytes(p.records)) for p in read.responses[0].partitions]  # type: ignore[arg-type]
    assert lengths == [1000, 5]


# --- what real clients and a real broker sent --------------------------------------------------


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_frames_come_out_as_they_went_in(path: Path) -> None:
    """R-NET-5: `<client>-<api>-v<version>.<request|response>.hex`, whole frames of both headers."""
    stem, which = path.stem.rsplit(".", 1)
    name, version = stem.rsplit("-v", 1)
    api = api_of(name.rsplit("-", 1)[1])
    frame = memoryview(bytes.fromhex(path.read_text()))
    if which == "request":
        assert again_as_request(api, int(version), frame) == frame.tobytes()
    else:
        assert again_as_response(api, int(version), frame) == frame.tobytes()


def test_hot_apis_are_recorded() -> None:
    names = {path.name.split("-v")[0].rsplit("-", 1)[1].lower() for path in RECORDED}
    assert {name.lower() for name in HOT} <= names


def api_of(name: str) -> Api:
    (api,) = (api for api in APIS.values() if api.name.lower() == name.lower())
    return api


def again_as_request(api: Api, version: int, frame: memoryview) -> bytes:
    key, read_version, _, _, position = read_head(frame)
    assert (key, read_version) == (api.key, version)
    position = body_position(api, version, frame, position)
    out = Outgoing()
    out.buffer += frame[:position]
    is_flexible = api.is_flexible(version)
    message = read_message(api.request, version, is_flexible, frame, position)
    write_message(message, version, is_flexible, out)
    return bytes(out.buffer)


def again_as_response(api: Api, version: int, frame: memoryview) -> bytes:
    _, correlation_id = struct.unpack_from(">ii", frame)
    is_flexible = api.is_flexible(version)
    position = 9 if is_flexible and api is not API_VERSIONS else 8
    message = read_message(api.response, version, is_flexible, frame, position)
    (again,) = encode_answer(api, version, correlation_id, message)
    assert isinstance(again, bytearray)
    return bytes(again)
