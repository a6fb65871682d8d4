"""A crash at any operation of a disk, and what each kind of crash leaves of it.

Not what lives on the disk, nor what must hold afterwards: tests say that. The invariant: a crash is
told by its operation, so that it can be had again.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from tests.kit.simulated_disk import Persistence, SimulatedDisk

# The machine crashes, and the disk keeps of what was not flushed nothing, all or some.
WAYS: Final = ("lost", "kept", "some")


class Workload(abc.ABC):
    """Lives of a broker on one disk, and what is asked of it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk

    @abc.abstractmethod
    async def live(self) -> None:
        """To the end, if the disk does not crash."""

    @abc.abstractmethod
    async def check(self) -> None:
        """What must hold at the end."""


W = TypeVar("W", bound=Workload)


async def crashed(make: Callable[[SimulatedDisk], W], operation: int) -> W:
    """A workload whose disk has crashed at that operation; 0: that has come to its end."""
    workload = make(SimulatedDisk())
    workload.disk.crash_at(operation)
    await live_until_crash(workload.disk, workload.live())
    return workload


async def count_operations(make: Callable[[SimulatedDisk], Workload]) -> int:
    """Of a workload that nothing befalls."""
    workload = await crashed(make, 0)
    assert not workload.disk.crashed
    await workload.check()
    return len(workload.disk.operations)


async def crash_everywhere(
    make: Callable[[SimulatedDisk], W],
    turn: int,
    recover: Callable[[W, int], Awaitable[None]],
    *,
    stride: int = len(WAYS),
) -> None:
    """At every so-many-th operation, so that each way to crash has a sample of its own. recover:
    what is done after each, which is told the operation."""
    for operation in range(turn + 1, await count_operations(make) + 1, stride):
        workload = await crashed(make, operation)
        with noting(f"turn {turn}, operation {operation}: {workload.disk.operations[-1]}"):
            await recover(workload, operation)


def found_after(disk: SimulatedDisk, turn: int, operation: int) -> SimulatedDisk:
    """What the way to crash whose turn it is leaves."""
    way = WAYS[turn]
    persistence: Persistence = operation if way == "some" else way  # type: ignore[assignment]
    return disk.after_crash(persistence)


async def live_until_crash(disk: SimulatedDisk, life: Coroutine[Any, Any, None]) -> None:
    """Let a broker and its clients live to the end, or until the disk crashes. On a disk that is
    gone a call may never be answered, and the broker cannot stop in an orderly way: a real one is
    gone with its machine."""
    living = asyncio.create_task(life)
    while not (living.done() or disk.crashed):
        await asyncio.wait([living], timeout=0.02)
    while not living.done():
        await asyncio.wait([living], timeout=0.1)
        living.cancel()
    try:
        await living
    except (Exception, asyncio.CancelledError):
        if not disk.crashed:
            raise


def mixed(persistence: Persistence, operation: int) -> Persistence:
    """Another seed for each operation, or all of them would draw the same lots."""
    return 1000 * persistence + operation if isinstance(persistence, int) else persistence


@contextlib.contextmanager
def noting(note: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(note)
        raise
