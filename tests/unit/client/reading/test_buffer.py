"""What waits for the reader: bounded, divided among the feeds, which go on when there is room."""

from __future__ import annotations

import asyncio

from penstock.client.reading.buffer import Buffer


class Feed:
    """Notes how often it may go on."""

    def __init__(self) -> None:
        self.told = 0

    @property
    def supply(self) -> Feed:
        return self

    def go_on(self) -> None:
        self.told += 1


def buffer(limit: int, feeds: int = 1) -> tuple[Buffer[bytes], dict[tuple[str, int], Feed]]:
    fed = {("orders", number): Feed() for number in range(feeds)}
    return Buffer(limit, fed, len), fed


async def test_room_is_divided_among_the_feeds() -> None:
    """R-DEL-6: what waits is bounded."""
    waiting, feeds = buffer(10, feeds=3)
    assert (waiting.room, waiting.share) == (10, 3)
    waiting.add([b"1234", b"56789"])
    assert (waiting.room, waiting.share) == (1, 3)
    feeds.update({("more", number): Feed() for number in range(1000)})
    assert waiting.share == 1


async def test_feeds_go_on_once_when_there_is_room_again() -> None:
    """Not for each that is taken: what is asked for then should be much."""
    waiting, feeds = buffer(3, feeds=2)
    waiting.add([b"12"])
    waiting.take()
    await asyncio.sleep(0)
    assert [feed.told for feed in feeds.values()] == [0, 0], "it was not full"
    waiting.add([b"12", b"3", b"4"])
    assert waiting.room == -1
    assert [waiting.take(), waiting.take(), waiting.take(), waiting.take()] == [
        b"12",
        b"3",
        b"4",
        None,
    ]
    assert [feed.told for feed in feeds.values()] == [0, 0]
    await asyncio.sleep(0)
    assert [feed.told for feed in feeds.values()] == [1, 1]
    await asyncio.sleep(0)
    assert [feed.told for feed in feeds.values()] == [1, 1]


async def test_what_is_dropped_makes_room_too() -> None:
    waiting, feeds = buffer(3)
    waiting.add([b"12", b"3", b"4"])
    assert waiting.drop(lambda item: item == b"9") == []
    assert waiting.drop(lambda item: len(item) == 1) == [b"3", b"4"]
    assert list(waiting) == [b"12"]
    assert waiting.room == 1
    await asyncio.sleep(0)
    assert feeds["orders", 0].told == 1


async def test_everybody_who_waits_is_woken() -> None:
    waiting, _ = buffer(3)
    readers = [asyncio.create_task(waiting.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting.add([b"1"])
    await asyncio.gather(*readers)
    other = asyncio.create_task(waiting.wait())
    await asyncio.sleep(0)
    assert not other.done(), "it has been told of what is there"
    waiting.wake()
    await other
