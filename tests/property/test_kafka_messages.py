"""Our codec of Kafka's messages against kio's, which others wrote from Kafka's own definitions.

Every API and version that we advertise, requests and responses, in both directions. And bytes by
chance into every reader: a message or MalformedFrame, nothing else.
"""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import MalformedFrame, ProtocolError
from penstock.protocol.kafka.frames import body_position, encode_answer, measure, read_head
from tests.kit.records.kafka_messages import (
    FORMS,
    Form,
    Samples,
    assert_same,
    assert_same_defaults,
    kio_read,
    kio_write,
)

SAMPLES = 16
FRAME_BYTES_MAX = 2**20

every_form = pytest.mark.parametrize("form", FORMS, ids=str)
flexible = pytest.mark.parametrize("form", [f for f in FORMS if f.is_flexible], ids=str)
requests = pytest.mark.parametrize("form", [f for f in FORMS if f.kind is f.api.request], ids=str)
responses = pytest.mark.parametrize("form", [f for f in FORMS if f.kind is f.api.response], ids=str)


@every_form
def test_what_we_write_kio_reads_and_writes_alike(form: Form) -> None:
    """R-NET-5."""
    samples = Samples(f"ours {form}")
    for _ in range(SAMPLES):
        message = samples.ours(form.kind, form.version)
        data = form.write(message)
        theirs = kio_read(form.kio_kind, data)
        assert_same(message, theirs, form.version)
        assert kio_write(theirs) == data
        again = form.read(data)
        assert_same(again, theirs, form.version)
        assert form.write(again) == data


@every_form
def test_what_kio_writes_we_read_and_write_alike(form: Form) -> None:
    """R-NET-5."""
    samples = Samples(f"theirs {form}")
    for _ in range(SAMPLES):
        theirs = samples.theirs(form.kio_kind)
        data = kio_write(theirs)
        message = form.read(data)
        assert_same(message, theirs, form.version)
        assert form.write(message) == data


@every_form
def test_defaults_are_those_of_kafka(form: Form) -> None:
    """What a field says by its absence, in this version or in those that do not have it."""
    assert form.kio_kind.__flexible__ == form.is_flexible
    message = Samples(f"defaults {form}").ours(form.kind, form.version, tagged=False)
    assert_same(message, kio_read(form.kio_kind, form.write(message)), form.version)
    assert_same_defaults(form.kind, form.kio_kind, form.version)


@flexible
def test_tagged_fields_of_a_newer_peer_are_skipped(form: Form) -> None:
    """KIP-482."""
    message = Samples(f"newer {form}").ours(form.kind, form.version, tagged=False)
    data = form.write(message)
    assert data[-1] == 0, "no tagged fields"
    unknown = bytes([2, 0xC8, 0x01, 3]) + b"new" + bytes([0xC9, 0x01, 0])
    assert form.read(data[:-1] + unknown) == form.read(data)


@requests
def test_frames_with_kios_headers_are_read(form: Form) -> None:
    samples = Samples(f"frames {form}")
    header_kind = form.kio_kind.__header_schema__
    for client_id in (None, "", "rdkafka", "größe"):
        theirs = samples.theirs(form.kio_kind)
        header = header_kind(
            request_api_key=form.api.key,
            request_api_version=form.version,
            correlation_id=-7,
            client_id=client_id,
        )
        content = kio_write(header) + kio_write(theirs)
        frame = memoryview(struct.pack(">i", len(content)) + content)
        assert measure(frame, 0, len(frame), FRAME_BYTES_MAX, FRAME_BYTES_MAX) == len(frame)
        key, version, correlation_id, name, position = read_head(frame)
        assert (key, version, correlation_id) == (form.api.key, form.version, -7)
        assert name == (client_id or "")
        message = form.read(bytes(frame[body_position(form.api, version, frame, position) :]))
        assert_same(message, theirs, version)


@responses
def test_answers_have_the_header_that_kio_reads(form: Form) -> None:
    """The header of ApiVersions is never flexible (KIP-511)."""
    message = Samples(f"answers {form}").ours(form.kind, form.version)
    header_kind = form.kio_kind.__header_schema__
    (frame,) = encode_answer(form.api, form.version, 77, message)
    assert isinstance(frame, bytearray)
    (length,) = struct.unpack_from(">i", frame)
    assert length == len(frame) - 4
    header = kio_write(header_kind(correlation_id=77))
    assert bytes(frame[4 : 4 + len(header)]) == header
    assert_same(message, kio_read(form.kio_kind, bytes(frame[4 + len(header) :])), form.version)


@settings(max_examples=1_000, deadline=None)
@given(form=st.sampled_from(FORMS), data=st.binary(max_size=200))
def test_random_bytes_are_a_message_or_malformed(form: Form, data: bytes) -> None:
    """R-NET-1, R-NET-5: what is wrong is refused, never a hang and never a traceback."""
    _read_or_refuse(form, data)


@every_form
def test_damaged_messages_are_a_message_or_malformed(form: Form) -> None:
    """R-NET-1, R-NET-5: what is nearly right gets further into a reader than noise does."""
    samples = Samples(f"damage {form}")
    chance = random.Random(f"damage {form}")
    for _ in range(SAMPLES):
        data = bytearray(form.write(samples.ours(form.kind, form.version)))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(data) + 1)
            damage = chance.choice((b"", b"\x00", b"\xff", b"\x80", chance.randbytes(4)))
            data[place : place + chance.randint(0, 4)] = damage
        _read_or_refuse(form, bytes(data))


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=64), start=st.integers(0, 10))
def test_random_frames_have_a_length_or_are_refused(data: bytes, start: int) -> None:
    view = memoryview(bytes(start) + data)
    try:
        length = measure(view, start, len(view), 2**31, 2**31)
    except ProtocolError:
        return
    if 0 < length <= len(data):
        frame = view[start : start + length]
        try:
            *_, position = read_head(frame)
        except ProtocolError:
            return
        assert position <= length


def _read_or_refuse(form: Form, data: bytes) -> None:
    try:
        message = form.read(data)
    except MalformedFrame:
        return
    # What was understood can be said again. Lengths may have been written in more bytes.
    again = form.write(message)
    assert form.write(form.read(again)) == again
