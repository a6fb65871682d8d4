"""A trace's hash tells runs apart, and does not depend on whether anybody reads."""

from __future__ import annotations

from tests.kit.simulation.trace import Trace


def told(*, is_kept: bool, last: str = "crashes") -> Trace:
    trace = Trace(is_kept=is_kept)
    trace.note(1, "broker 1", "starts")
    trace.data(2, b"bytes", lambda: "said something")
    trace.remark(2, "because")
    trace.note(3, "broker 1", last)
    return trace


def test_the_hash_is_of_what_happened() -> None:
    assert told(is_kept=True).digest == told(is_kept=False).digest
    assert told(is_kept=False).digest != told(is_kept=False, last="stops").digest


def test_lines_are_kept_for_whoever_reads() -> None:
    assert told(is_kept=False).lines == []
    assert [line.split(maxsplit=1)[1] for line in told(is_kept=True).lines] == [
        "broker 1   starts",
        "said something",
        "because",
        "broker 1   crashes",
    ]
