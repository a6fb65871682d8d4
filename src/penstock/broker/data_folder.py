"""The broker's data folder: taken by one broker at a time, and stamped with who it belongs to."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import socket
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Final

from penstock.model.errors import CorruptLog, InvalidConfig
from penstock.storage.files.files import Directory, typed
from penstock.storage.files.journal import MAGIC, SUFFIX, read_journal, write_journal
from penstock.storage.files.os_files import OsDirectory, make_folder

_LOCK: Final = "lock"
_META: Final = "meta"
# What tells that a folder is a broker's, or a local cluster's (`cli.local_cluster.kept`).
STAMPS: Final = (_META, "cluster.journal")
# Beside journals. What the folder of a broker and that of a meta server have.
_OURS: Final = (_LOCK, _META, f"{_META}.new", "meta-log", "topics", "trash", "set-aside")
# What a local cluster has in its folder besides (`cli.local_cluster.plan`).
_OF_A_CLUSTER: Final = re.compile(r"broker-\d+|zookeeper")
_OF_A_DISK: Final = ("lost+found", "aquota.user", "aquota.group", ".snapshot", ".snapshots", ".zfs")
# Unlike a host's name or its machine id, no two machines made from one image share it.
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Who the folder belongs to, and how it is laid out."""

    cluster_id: str
    broker_id: int
    directory_id: int
    """Chosen by chance when the folder was made: a broker whose folder was lost comes back with
    another, and is not taken for one that still has what it had."""
    is_member: bool = False
    """Whether it is of a broker in a cluster: then no other cluster may have it."""
    format_version: int = FORMAT_VERSION


class DataFolder:
    """`take` and `leave` belong to the broker's life."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock_descriptor = -1

    def take(self) -> Directory:
        """Make the folder if it is missing, and keep other brokers out of it. InvalidConfig if it
        is somebody else's."""
        check_ours(self._path)
        try:
            make_folder(self._path)
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

    @property
    def place(self) -> int:
        """Of the folder that was taken: the same at the next start here, another for each copy.
        Whoever registers with it has its lock, so that the process that had it before is gone."""
        found = os.fstat(self._lock_descriptor)
        text = f"{_machine()} {found.st_dev} {found.st_ino}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def leave(self) -> None:
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1


def check_ours(path: str) -> None:
    """InvalidConfig if there is something in the folder, and it is not Penstock's."""
    try:
        names = sorted(os.listdir(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise typed(error, f"opening the data folder {path}") from error
    strange = [name for name in names if not _is_known(name)]
    if strange and not any(_is_journal(os.path.join(path, stamp)) for stamp in STAMPS):
        shown = ", ".join(strange[:3]) + (", …" if len(strange) > 3 else "")
        raise InvalidConfig(
            f"The folder {path} is not empty and not Penstock's (it has {shown}): choose an empty "
            "or a new folder with --data."
        )


def _is_known(name: str) -> bool:
    """A crash at the first start may have left anything of ours; and a disk that is mounted there
    has something of its own from the beginning."""
    return (
        name in _OURS
        or name in _OF_A_DISK
        or name.removesuffix(".new").endswith(SUFFIX)
        or _OF_A_CLUSTER.fullmatch(name) is not None
    )


def _is_journal(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _machine() -> str:
    """Which machine this is. A new boot may have a new name: nobody else knows it any more then."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()


def read_or_make_meta(data: Directory, broker_id: int) -> Meta:
    """The folder's stamp; a new folder gets one."""
    payload = read_journal(data, _META)
    if payload is None:
        return _new_meta(data, cluster_id=uuid.uuid4().hex, broker_id=broker_id)
    try:
        facts = json.loads(payload)
        is_old = "directory_id" not in facts
        meta = Meta(**{"directory_id": 0, **facts})
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
    if is_old:
        # Earlier versions had none: nobody else has a copy of anything yet.
        return _new_meta(data, cluster_id=meta.cluster_id, broker_id=broker_id)
    return meta


def check_alone(data: Directory, meta: Meta) -> None:
    """Raise InvalidConfig if the folder is of a broker in a cluster: others have copies of what is
    in it, and know more than it does."""
    if meta.is_member:
        raise InvalidConfig(
            f"The data folder {data.path} is of a broker in a cluster: start it with --registry "
            "and the cluster's registry, or choose another folder."
        )


def check_member(data: Directory, meta: Meta, cluster_id: str) -> None:
    """Raise InvalidConfig if the folder is of another cluster."""
    if meta.is_member and meta.cluster_id != cluster_id:
        raise InvalidConfig(
            f"The data folder {data.path} is of the cluster {meta.cluster_id}, and the registry "
            f"keeps the cluster {cluster_id}: give it its own registry, or another folder."
        )


def join_cluster(data: Directory, meta: Meta, cluster_id: str) -> Meta:
    """Stamp the folder as one of the cluster's."""
    if meta.is_member:
        return meta
    return _write_meta(data, replace(meta, cluster_id=cluster_id, is_member=True))


def _new_meta(data: Directory, *, cluster_id: str, broker_id: int) -> Meta:
    # Never 0, which stands for no folder of its own.
    directory_id = secrets.randbelow(2**62 - 1) + 1
    meta = Meta(cluster_id=cluster_id, broker_id=broker_id, directory_id=directory_id)
    return _write_meta(data, meta)


def _write_meta(data: Directory, meta: Meta) -> Meta:
    write_journal(data, _META, json.dumps(asdict(meta)).encode())
    return meta
