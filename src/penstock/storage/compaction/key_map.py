"""Which offset is the latest of each key, over a stretch of a log: what compaction decides by.

Not an index: it is made for one compaction and thrown away. The invariant: a key it knows has a
record at the offset it names and none later in the stretch. A key stands for itself while it is
shorter than a digest, and for its digest otherwise, so a key takes about 150 bytes of memory
whatever its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

from penstock.records import Message

# Two keys with one digest of 128 bits: nobody finds such, not even on purpose.
_DIGEST_BYTES: Final = 16
# A dictionary is copied when it grows, which holds up the event loop: many small ones grow in
# steps that nobody notices.
_SHARDS: Final = 256
# Records gone through at a time, for the same reason: about a third of a millisecond.
_RECORDS_AT_ONCE: Final = 500

Breathe = Callable[[], None]
"""Called between small steps, so that other threads get their turn."""


class KeyMap:
    """Latest offsets by key. `breathe` is called between steps of every call."""

    __slots__ = ("_breathe", "_shards")

    def __init__(self, breathe: Breathe) -> None:
        self._shards: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        self._breathe = breathe

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def learn(self, messages: Sequence[Message]) -> None:
        """Take in records that come after all that were taken in before."""
        shards = self._shards
        for start in range(0, len(messages), _RECORDS_AT_ONCE):
            for message in messages[start : start + _RECORDS_AT_ONCE]:
                key = message.key
                if key is not None:
                    if len(key) >= _DIGEST_BYTES:
                        key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
                    shards[hash(key) % _SHARDS][key] = message.offset
            self._breathe()

    def survivors(self, messages: Sequence[Message], *, keep_tombstones: bool) -> list[int]:
        """The indexes of the records that have a key and no later record of it in the stretch."""
        shards = self._shards
        kept = []
        for start in range(0, len(messages), _RECORDS_AT_ONCE):
            part = messages[start : start + _RECORDS_AT_ONCE]
            for index, message in enumerate(part, start):
                key = message.key
                if key is None:
                    continue
                if len(key) >= _DIGEST_BYTES:
                    key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
                if shards[hash(key) % _SHARDS].get(key, -1) <= message.offset and (
                    keep_tombstones or message.value is not None
                ):
                    kept.append(index)
            self._breathe()
        return kept

    def clear(self) -> None:
        """Give the memory back, in steps too: a million keys at once would take a while."""
        for shard in self._shards:
            shard.clear()
            self._breathe()
