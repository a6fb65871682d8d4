"""What can go wrong with the bytes of a connection: they do not follow the protocol.

Not Kafka's codes for errors (`protocol.kafka.errors`). The invariant: codes 10 to 14.
"""

from __future__ import annotations

from penstock.model.errors.base import PenstockError


class ProtocolError(PenstockError):
    """The peer's bytes do not follow the protocol."""

    code = 10


class MalformedFrame(ProtocolError):
    """The frame's bytes do not follow the protocol."""

    code = 11


class UnsupportedVersion(ProtocolError):
    """The frame has a protocol version that this side does not speak."""

    code = 12


class UnknownCall(ProtocolError):
    """The frame's type names no call of this side."""

    code = 13


class FrameTooLarge(ProtocolError):
    """The frame is longer than this side accepts."""

    code = 14
