"""The driver: each dirty replica is written once a turn."""

from __future__ import annotations

from penstock.replication.disk.driver import Driver


class CountingWriter:
    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.writes = 0

    def write_proposed(self) -> None:
        self.writes += 1


class WriterThatProposesMore(CountingWriter):
    """As group offsets do: what was committed lets the next ones go."""

    def write_proposed(self) -> None:
        super().write_proposed()
        if self.writes < 3:
            self.driver.mark_dirty(self)


def test_each_is_written_once_a_turn() -> None:
    driver = Driver()
    writers = [CountingWriter(driver), CountingWriter(driver)]
    for writer in writers:
        driver.mark_dirty(writer)
    driver.end_turn()
    driver.end_turn()
    assert [writer.writes for writer in writers] == [1, 1]


def test_what_is_proposed_while_writing_is_written_too() -> None:
    driver = Driver()
    writer = WriterThatProposesMore(driver)
    driver.mark_dirty(writer)
    driver.end_turn()
    assert writer.writes == 3
