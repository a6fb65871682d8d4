"""The driver: each dirty replica is written once a turn."""

from __future__ import annotations

import asyncio

from penstock.replication.driver import Driver


class CountingWriter:
    def __init__(self) -> None:
        self.writes = 0

    def write_proposed(self) -> None:
        self.writes += 1


async def test_a_read_ends_the_turn() -> None:
    driver = Driver(asyncio.get_running_loop())
    writers = [CountingWriter(), CountingWriter()]
    for writer in writers:
        driver.mark_dirty(writer)
    driver.end_turn()
    assert [writer.writes for writer in writers] == [1, 1]
    driver.end_turn()
    await asyncio.sleep(0)
    assert [writer.writes for writer in writers] == [1, 1]


async def test_without_a_read_the_loop_ends_the_turn() -> None:
    driver = Driver(asyncio.get_running_loop())
    writer = CountingWriter()
    driver.mark_dirty(writer)
    assert writer.writes == 0
    await asyncio.sleep(0)
    assert writer.writes == 1


async def test_what_is_proposed_while_writing_belongs_to_the_next_turn() -> None:
    driver = Driver(asyncio.get_running_loop())

    class Again(CountingWriter):
        def write_proposed(self) -> None:
            super().write_proposed()
            if self.writes == 1:
                driver.mark_dirty(self)

    writer = Again()
    driver.mark_dirty(writer)
    driver.end_turn()
    assert writer.writes == 1
    await asyncio.sleep(0)
    assert writer.writes == 2
