"""Frames out of bytes as they come, for peers in tests that have no buffers of their own.

Not what a connection does, which copies nothing (`penstock.net.inbox`): the functions of
`penstock.protocol.frame` are the same.
"""

from __future__ import annotations

from penstock.model.limits import FRAME_BYTES_MAX
from penstock.protocol.frame import Frame, measure, split


class FrameDecoder:
    """Bytes in, frames out."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """The bytes of a frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that `data` completes. After an error the stream cannot be read further."""
        self._buffer += data
        frames = []
        start = 0
        # Frames point into a copy of what is whole, so that the buffer may shrink behind them.
        with memoryview(self._buffer) as view:
            while frame_bytes := measure(view, start, len(view), self._frame_bytes_max):
                if start + frame_bytes > len(view):
                    break
                frames.append(split(memoryview(bytes(view[start : start + frame_bytes]))))
                start += frame_bytes
        del self._buffer[:start]
        return frames
