"""Messages as JSON: text, bytes that are no text, and nothing at all stay apart."""

from __future__ import annotations

import json

from penstock.cli.message_json import message_json
from penstock.records import BatchBuilder, decode_messages


def test_text_bytes_and_null_stay_apart() -> None:
    builder = BatchBuilder(10_000)
    headers = (("trace", b"1"), ("raw", b"\x80"), ("none", None), ("trace", b""))
    builder.append(1_767_225_600_123, "zoë".encode(), b"\xff\xfe", headers)
    builder.append(1_767_225_600_123, None, None)
    first, second = decode_messages(builder.build(base_offset=7), "orders", 2, 0)
    assert json.loads(json.dumps(message_json(first))) == {
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "timestamp_ms": 1_767_225_600_123,
        "time": "2026-01-01T00:00:00.123Z",
        "key": "zoë",
        "value_base64": "//4=",
        "headers": [
            {"name": "trace", "value": "1"},
            {"name": "raw", "value_base64": "gA=="},
            {"name": "none", "value": None},
            {"name": "trace", "value": ""},
        ],
    }
    shown = message_json(second)
    assert (shown["key"], shown["value"], shown["headers"]) == (None, None, [])
