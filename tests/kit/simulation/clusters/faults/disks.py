"""Faults of disks: crashes at an operation, failures, no room, slowness, decay, and folders lost.

The invariant: what decays or is lost, a majority of every partition has elsewhere.
"""

from __future__ import annotations

import errno
from itertools import pairwise
from random import Random
from typing import Final

from penstock.records.view import batches
from penstock.storage.segments.segment import LOG_SUFFIX
from tests.kit.simulated_disk import Operation
from tests.kit.simulation.clusters.cluster import Cluster
from tests.kit.simulation.clusters.machine import Machine
from tests.kit.simulation.clusters.parcels import CHECKED_FROM

_FAILING: Final[tuple[Operation, ...]] = (
    "flush",
    "flush",
    "flush",
    "append",
    "create",
    "truncate",
    "rename",
    "remove",
    "flush folder",
)
_CRASHES_WITHIN_OPERATIONS: Final = 14


class DiskFaults:
    """Of one run."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._machines = list(cluster.machines.values())

    def _any(self) -> Machine:
        return self._random.choice(self._machines)

    def crash(self) -> None:
        """At one of its next operations, whichever that is."""
        disk = self._any().disk
        number = self._random.randint(1, _CRASHES_WITHIN_OPERATIONS)
        disk.crash_at(len(disk.operations) + number)

    def fail(self) -> None:
        self._any().disk.fail_next(self._random.choice(_FAILING), errno.EIO)

    def fill(self) -> None:
        machine = self._any()
        self._cluster.world.filled.add(machine.broker)
        disk = machine.disk
        used_bytes = sum(map(len, disk.files().values()))
        disk.capacity_bytes = used_bytes + self._random.choice((0, 50, 500))

    def slow_down(self) -> None:
        self._any().disk_delay_ms_max = self._random.choice((5, 50, 400, 1_500))

    def repair(self) -> None:
        for machine in self._machines:
            machine.disk.capacity_bytes = None
        self._cluster.operator.repair()

    def wipe(self) -> None:
        machine = self._any()
        if self._cluster.operator.may_lose(machine):
            self._cluster.counts["folders lost"] += 1
            machine.wipe()
            if self._random.random() < 0.7:
                machine.start()

    def rot(self) -> None:
        """A bit of a log decays, where a checksum protects it, or of what Raft has saved."""
        machine = self._any()
        files = machine.disk.files()
        paths = [path for path in files if _may_rot(path) and files[path]]
        if machine.process is None or not paths or not self._cluster.operator.may_lose(machine):
            return
        path = self._random.choice(paths)
        position = self._random.randrange(len(files[path]))
        if path.endswith(LOG_SUFFIX):
            found = self._position_in_batch(files[path], machine.disk.flushed_bytes(path))
            if found is None:
                return
            position = found
        machine.is_rotten = True
        self._cluster.world.rotted.add(machine.broker)
        self._cluster.counts["bits decayed"] += 1
        for served in machine.process.partitions.values():
            served.copy.is_rotten = True
        self._cluster.timeline.note(machine.name, f"a bit decays: {path} at {position}")
        machine.disk.flip_bit(path, position, self._random.randrange(8))

    def _position_in_batch(self, data: bytes, flushed_bytes: int) -> int | None:
        """Not in the last one that is flushed: with what a crash tears behind it, it would look
        like a part of the tear."""
        places = []
        position = 0
        for batch in batches(data):
            places.append((position, batch.header.length))
            position += batch.header.length
        safe = [
            place for place, (start, length) in pairwise(places) if start + length <= flushed_bytes
        ]
        if not safe:
            return None
        start, length = self._random.choice(safe)
        return start + self._random.randrange(CHECKED_FROM, length)


def _may_rot(path: str) -> bool:
    return path.endswith((LOG_SUFFIX, "raft.journal"))
