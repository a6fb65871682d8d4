"""Batches as a fetch brings them, at offsets that a test chooses."""

from __future__ import annotations

from penstock.records import build_batch


def batches(*ranges: tuple[int, int]) -> memoryview:
    """Batches of these offsets, each from the first to before the second, end to end."""
    return memoryview(
        b"".join(
            build_batch([(None, b"x")] * (end - start), base_offset=start) for start, end in ranges
        )
    )
