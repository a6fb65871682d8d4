"""`penstock dead-letters`: what a person sees of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from penstock.cli.commands.dead_letters import _letter_json, _letter_row, _parse_moment, _text
from penstock.model.dead_letter import DeadLetter
from penstock.model.errors import InvalidRequest

LETTER = DeadLetter(
    topic="jobs",
    partition=0,
    offset=1024,
    timestamp_ms=None,
    key=b"\xff",
    value=None,
    group="workers",
    reason="first line\nsecond line " + "x" * 100,
    attempts=5,
    dead_at_ms=0,
    redrives=1,
    headers=(("trace", b"1"),),
)


def test_a_row_is_one_line_of_a_table() -> None:
    row = _letter_row(LETTER)
    assert row["id"] == "jobs/0/1024"
    assert row["died"] == "1970-01-01T00:00:00.000Z"
    assert row["key"] == "b'\\xff'"
    reason = str(row["reason"])
    assert len(reason) == 60
    assert reason.startswith("first line second line xxx")
    assert reason.endswith("…")


def test_json_has_all_of_it() -> None:
    found = _letter_json(LETTER)
    assert found["reason"] == LETTER.reason
    assert (found["key_base64"], found["value"], found["redrives"]) == ("/w==", None, 1)
    assert found["headers"] == [{"name": "trace", "value": "1"}]


def test_what_strangers_wrote_does_not_move_the_cursor() -> None:
    assert _text(b"plain text, \xc3\xa9") == "plain text, é"
    assert _text(b"\x1b[2J") == "'\\x1b[2J'"
    assert _text(None) == "-"
    assert "\x1b" not in str(_letter_row(replace(LETTER, reason="\x1b[2J"))["reason"])


def test_since_when_as_people_say_it() -> None:
    for text in ("1h", "1h-ago", "60m"):
        moment = _parse_moment(text)
        assert moment is not None
        assert abs(moment - (datetime.now(UTC) - timedelta(hours=1))) < timedelta(seconds=5)
    assert _parse_moment("2026-01-31T12:00:00+00:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert _parse_moment(None) is None
    for text in ("soon", "", "1x"):
        with pytest.raises(InvalidRequest, match="is not a"):
            _parse_moment(text)
