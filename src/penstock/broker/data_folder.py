"""The broker's data folder: taken by one broker at a time, and stamped with who it belongs to."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from dataclasses import asdict, dataclass
from typing import Final

from penstock.model.errors import CorruptLog, InvalidConfig
from penstock.storage.files import Directory, typed
from penstock.storage.journal import read_journal, write_journal
from penstock.storage.os_files import OsDirectory

_LOCK: Final = "lock"
_META: Final = "meta"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Who the folder belongs to, and how it is laid out."""

    cluster_id: str
    broker_id: int
    format_version: int = FORMAT_VERSION


class DataFolder:
    """`take` and `leave` belong to the broker's life."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock_descriptor = -1

    def take(self) -> Directory:
        """Make the folder if it is missing, and keep other brokers out of it."""
        try:
            is_new = not os.path.isdir(self._path)
            os.makedirs(self._path, exist_ok=True)
            if is_new:
                OsDirectory(os.path.dirname(os.path.abspath(self._path))).flush()
            lock = os.path.join(self._path, _LOCK)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise typed(error, f"opening the data folder {self._path}") from error
        try:
            # The lock goes with the process, so a killed broker leaves none behind.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise InvalidConfig(
                f"The data folder {self._path} is in use by another broker: stop that one or "
                "choose another folder with --data."
            ) from None
        self._lock_descriptor = descriptor
        return OsDirectory(self._path)

    def leave(self) -> None:
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1


def read_or_make_meta(data: Directory, broker_id: int) -> Meta:
    """The folder's stamp; a new folder gets one."""
    payload = read_journal(data, _META)
    if payload is None:
        meta = Meta(cluster_id=uuid.uuid4().hex, broker_id=broker_id)
        write_journal(data, _META, json.dumps(asdict(meta)).encode())
        return meta
    try:
        meta = Meta(**json.loads(payload))
    except (ValueError, TypeError) as error:
        raise CorruptLog(f"{data.path}/{_META} cannot be understood: {error}.") from error
    if meta.format_version != FORMAT_VERSION:
        raise InvalidConfig(
            f"The data folder {data.path} has format {meta.format_version}; this version of "
            f"Penstock knows format {FORMAT_VERSION}."
        )
    if meta.broker_id != broker_id:
        raise InvalidConfig(
            f"The data folder {data.path} belongs to broker {meta.broker_id}: start it with that "
            f"id instead of {broker_id}, or choose another folder."
        )
    return meta
