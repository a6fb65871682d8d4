"""Keys go where Kafka's clients send them."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import DefaultPartitioner

from penstock.client.producing.partitioner import partition_of_key
from penstock.records import murmur2


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, hashed: int) -> None:
    """R-CORE-2: the vectors of Kafka's UtilsTest; the sign bit is dropped, not negated."""
    assert murmur2(key) == hashed
    assert partition_of_key(key, 1000) == (hashed & 0x7FFFFFFF) % 1000


def test_another_client_agrees() -> None:
    """R-CORE-2: aiokafka chooses the same partition for every key."""
    partitions = list(range(7))
    for number in range(200):
        key = f"customer-{number}".encode()
        chosen = DefaultPartitioner()(key, partitions, partitions)
        assert partition_of_key(key, 7) == chosen
