"""Two folders change places at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.pipeline.tables import exchange


def test_each_gets_the_others_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of-{name}").touch()
    exchange.exchange(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a" / "of-b").exists()
    assert (tmp_path / "b" / "of-a").exists()
    with pytest.raises(FileNotFoundError):
        exchange.exchange(str(tmp_path / "a"), str(tmp_path / "none"))


def test_a_file_system_that_cannot_do_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(exchange.CannotExchange):
        exchange.exchange("/proc/self/fd", "/proc/self/task")
    monkeypatch.setattr(exchange, "_call", lambda: None)
    with pytest.raises(exchange.CannotExchange):
        exchange.exchange("a", "b")
