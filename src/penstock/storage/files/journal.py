"""Small durable facts: one file each, replaced as a whole or not at all.

For what must survive a crash and changes rarely: the registry, the clean-shutdown mark, producer
snapshots, Raft's term and vote. Not a log: it has no history. The invariant: a reader finds the
old payload or the new one, never a mixture; damage is an error, never an empty answer.

    magic "PSJN" | payload bytes, u32 | CRC-32C of the payload, u32 | payload       (big endian)
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from penstock.model.errors import CorruptLog
from penstock.storage.files.files import Buffer, Directory, typed

SUFFIX: Final = ".journal"
MAGIC: Final = b"PSJN"
_HEADER: Final = struct.Struct(">4sII")
# The name a journal is written under until it is complete; a crash may leave one behind.
_NEW: Final = ".new"


def read_journal(directory: Directory, name: str) -> bytes | None:
    """The payload last written under the name, or None if there is none."""
    path = f"{directory.path}/{name}"
    try:
        if not directory.exists(name):
            return None
        file = directory.open(name)
        data = file.read_at(0, file.size())
    except OSError as error:
        raise typed(error, f"reading {path}") from error
    damage = find_damage(data)
    if damage is not None:
        position, reason = damage
        raise CorruptLog(f"{path} is damaged at position {position}: {reason}; restore the file.")
    return data[_HEADER.size :]


def find_damage(data: bytes) -> tuple[int, str] | None:
    """(position, reason) of what is wrong with a journal file, or None."""
    if len(data) < _HEADER.size:
        return 0, f"{len(data)} bytes are too few for its header"
    magic, length, crc = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    if magic != MAGIC:
        return 0, "it does not begin like a journal"
    if length != len(payload):
        return 4, f"it says {length} bytes and has {len(payload)}"
    if crc32c(payload) != crc:
        return _HEADER.size, "its checksum is wrong"
    return None


def write_journal(directory: Directory, name: str, payload: Buffer) -> None:
    """Replace the payload; durable when this returns."""
    new = name + _NEW
    try:
        file = directory.open(new, create=True)
        file.truncate(0)
        file.append([_HEADER.pack(MAGIC, len(payload), crc32c(payload)), payload])
        file.flush()
        file.close()
        directory.rename(new, name)
        directory.flush()
    except OSError as error:
        raise typed(error, f"writing {directory.path}/{name}") from error


def remove_journal(directory: Directory, name: str) -> None:
    """Forget the fact; durable when this returns."""
    try:
        if directory.exists(name):
            directory.remove(name)
            directory.flush()
    except OSError as error:
        raise typed(error, f"removing {directory.path}/{name}") from error
