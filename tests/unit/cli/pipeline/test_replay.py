"""What the flags of `penstock pipeline replay` mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.pipeline.replay import _is_folder, parse_offsets, parse_rate, parse_shift
from penstock.model.errors import InvalidRequest


def test_a_bare_name_is_a_topic_unless_an_archive_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    assert not _is_folder("orders", "again")
    assert _is_folder("./orders", "again")
    (tmp_path / "orders" / "_penstock").mkdir()
    assert _is_folder("orders", "again")
    with pytest.raises(InvalidRequest, match="There is no folder"):
        _is_folder("./none", "again")
    with pytest.raises(InvalidRequest, match="to itself"):
        _is_folder("again", "again")


def test_rates() -> None:
    assert parse_rate("1000/s") == 1000
    assert parse_rate("90/min") == 1.5
    assert parse_rate("0.5") == 0.5
    for text in ("", "fast", "0", "-1/s", "10/x", "10/"):
        with pytest.raises(InvalidRequest, match="1000/s"):
            parse_rate(text)


def test_shifts() -> None:
    assert parse_shift("now") == "now"
    assert parse_shift("+1h") == 3_600_000
    assert parse_shift("-7d") == -604_800_000
    with pytest.raises(InvalidRequest):
        parse_shift("later")


def test_offsets() -> None:
    assert parse_offsets(["0:100-200", "1:50-,2:-10"]) == {0: (100, 200), 1: (50, None), 2: (0, 10)}
    for text, message in (
        ("5", "0:100-200"),
        ("0:x-5", "0:100-200"),
        ("0:5-5", "empty"),
        ("0:1-2,0:3-4", "twice"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            parse_offsets([text])
