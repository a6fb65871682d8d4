"""A message as JSON: what is UTF-8 is shown as text, what is not as base64."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from penstock.cli.quantities import moment_text

if TYPE_CHECKING:
    from penstock.records import Headers, Message


def message_json(message: Message) -> dict[str, object]:
    """One message, ready for `json.dumps`. Bytes that are no text have `_base64` in their name."""
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "time": moment_text(message.timestamp_ms),
        **content_json("key", message.key),
        **content_json("value", message.value),
        "headers": header_json(message.headers),
    }


def header_json(headers: Headers) -> list[dict[str, str | None]]:
    return [{"name": name, **content_json("value", value)} for name, value in headers]


def content_json(name: str, content: bytes | None) -> dict[str, str | None]:
    """A key or a value under its name, or under one that says it is base64."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(content).decode()}
