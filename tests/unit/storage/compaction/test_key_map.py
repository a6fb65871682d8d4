"""Latest offsets by key."""

from __future__ import annotations

from hashlib import blake2b

from penstock.records import Message, decode_messages
from penstock.storage.compaction.key_map import KeyMap
from tests.kit.storage.compacting import keyed_batch


def messages(*pairs: tuple[bytes | None, bytes | None]) -> list[Message]:
    return decode_messages(keyed_batch(pairs), "topic", 0, 0)


def learned(found: list[Message]) -> KeyMap:
    key_map = KeyMap(lambda: None)
    key_map.learn(found)
    return key_map


def test_the_latest_of_each_key_survives() -> None:
    long = b"longer than a digest"
    found = messages((b"a", b"1"), (long, b"1"), (b"a", b"2"), (b"b", b"1"), (long, b"2"))
    key_map = learned(found)
    assert len(key_map) == 3
    assert key_map.survivors(found, keep_tombstones=True) == [2, 3, 4]


def test_a_record_without_a_key_does_not() -> None:
    found = messages((None, b"1"), (b"", b"2"))
    assert learned(found).survivors(found, keep_tombstones=True) == [1]


def test_a_tombstone_does_while_it_is_kept() -> None:
    found = messages((b"a", b"1"), (b"a", None), (b"b", b""))
    key_map = learned(found)
    assert key_map.survivors(found, keep_tombstones=True) == [1, 2]
    assert key_map.survivors(found, keep_tombstones=False) == [2]


def test_what_it_does_not_know_survives() -> None:
    found = messages((b"a", b"1"), (b"b", b"1"))
    assert KeyMap(lambda: None).survivors(found, keep_tombstones=True) == [0, 1]


def test_a_key_is_not_taken_for_the_digest_of_another() -> None:
    long = b"longer than a digest"
    found = messages((blake2b(long, digest_size=16).digest(), b"1"), (long, b"1"))
    key_map = learned(found)
    assert len(key_map) == 2
    assert key_map.survivors(found, keep_tombstones=True) == [0, 1]


def test_it_breathes_between_small_steps() -> None:
    breaths = 0

    def breathe() -> None:
        nonlocal breaths
        breaths += 1

    key_map = KeyMap(breathe)
    found = messages(*((b"%d" % number, b"") for number in range(2000)))
    key_map.learn(found)
    assert breaths == 4
    assert len(key_map.survivors(found, keep_tombstones=True)) == 2000
    assert breaths == 8
    key_map.clear()
    assert len(key_map) == 0
    assert breaths > 100
