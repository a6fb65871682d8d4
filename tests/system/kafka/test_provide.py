"""What is fetched or compiled for tests, is once, though all that run tests want it at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.system.kafka import provide


def test_it_is_fetched_once_and_others_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provide, "CACHE", tmp_path / "cache")
    wanted = tmp_path / "cache" / "client"
    together = threading.Barrier(3)
    fetches: list[Path] = []

    def fetch(arriving: Path) -> None:
        fetches.append(arriving)
        (arriving / "program").write_text("runs")

    def want() -> None:
        together.wait()
        assert (provide._fetched(wanted, fetch) / "program").read_text() == "runs"

    wanting = [threading.Thread(target=want) for _ in range(3)]
    for each in wanting:
        each.start()
    for each in wanting:
        each.join()
    assert len(fetches) == 1


def test_what_is_half_fetched_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provide, "CACHE", tmp_path)

    def fail(arriving: Path) -> None:
        (arriving / "half").write_text("")
        raise provide.ClientMissing("no network")

    with pytest.raises(provide.ClientMissing):
        provide._fetched(tmp_path / "client", fail)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert provide._fetched(tmp_path / "client", lambda arriving: None).is_dir()
