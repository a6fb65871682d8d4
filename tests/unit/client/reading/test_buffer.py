"""What waits for the reader: bounded, divided among the feeds, which go on when there is room."""

from __future__ import annotations

import asyncio

from penstock.client.reading.buffer import Buffer


async def test_room_is_divided_among_the_feeds() -> None:
    """R-DEL-6: what waits is bounded."""
    feeds = [1, 2, 3]
    waiting = Buffer(10, feeds, len)
    assert (waiting.room, waiting.share) == (10, 3)
    waiting.add([b"1234", b"56789"])
    assert (waiting.room, waiting.share) == (1, 3)
    feeds += range(1000)
    assert waiting.share == 1


async def test_who_waits_for_room_is_told_once_when_there_is_some() -> None:
    """Not for each that is taken: what is asked for then should be much."""
    told: list[int] = []
    waiting = Buffer(3, [1], len)
    waiting.add([b"12", b"3", b"4"])
    assert waiting.room == -1

    def tell() -> None:
        told.append(1)

    waiting.when_room(tell)
    waiting.when_room(tell)
    assert [waiting.take() for _ in range(4)] == [b"12", b"3", b"4", None]
    assert told == []
    await asyncio.sleep(0)
    assert told == [1]
    waiting.add([b"123"])
    waiting.take()
    await asyncio.sleep(0)
    assert told == [1]


async def test_what_is_dropped_makes_room_too() -> None:
    told: list[int] = []
    waiting = Buffer(3, [1], len)
    waiting.add([b"12", b"3", b"4"])
    waiting.when_room(lambda: told.append(1))
    assert waiting.drop(lambda item: item == b"9") == []
    assert waiting.drop(lambda item: len(item) == 1) == [b"3", b"4"]
    assert list(waiting) == [b"12"]
    assert waiting.room == 1
    await asyncio.sleep(0)
    assert told == [1]


async def test_everybody_who_waits_is_woken() -> None:
    waiting = Buffer(3, [1], len)
    readers = [asyncio.create_task(waiting.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting.add([b"1"])
    await asyncio.gather(*readers)
    other = asyncio.create_task(waiting.wait())
    await asyncio.sleep(0)
    assert not other.done(), "it has been told of what is there"
    waiting.wake()
    await other
