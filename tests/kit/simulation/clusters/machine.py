"""A machine of the cluster: a disk, a clock, and a broker's process as long as it lives.

It crashes and starts, stands still for a while, loses its folder and comes back as another node.
Its disk does jobs beside the process and takes its time. Not what the process does (`process`), and
not when anything befalls it (`faults`). The invariants: nothing of a life reaches the next but what
the disk kept; after every event of a life somebody looks at what it has become.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.model.ids import PartitionId
from penstock.raft.membership import Node
from penstock.replication.disk.flusher import Job
from penstock.storage.log.log import CleanEnd
from tests.kit.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.kit.simulation.clusters.process import Process
from tests.kit.simulation.clusters.world import World
from tests.kit.simulation.timeline import VirtualClock
from tests.kit.simulation.wording import describe_parcel

GOOD_DISK_DELAY_MS_MAX: Final = 5
_DOWN_MS_MAX: Final = 4_000


class Machine:
    """One broker's."""

    def __init__(self, world: World, broker: int) -> None:
        self.world = world
        self.timeline = world.timeline
        self.broker = broker
        self.directory = 1
        self.process: Process | None = None
        self.disk = SimulatedDisk()
        self.clock = VirtualClock(world.timeline, world.timeline.random.randint(-400, 400))
        self.disk_delay_ms_max = GOOD_DISK_DELAY_MS_MAX
        # How often the machine crashes right after it said or saved something.
        self.brittleness = 0.0
        # Whether bits of its files have decayed: it is to be replaced some day.
        self.is_rotten = False
        self.let_go: dict[PartitionId, bytes] = {}
        # What an orderly stop left, for the next start.
        self.clean: dict[PartitionId, tuple[CleanEnd, bytes]] = {}
        self._life = 0
        self._paused_until_ms = 0
        self._armed_ms: int | None = None
        world.endpoints[broker] = self

    @property
    def disk(self) -> SimulatedDisk:
        return self._disk

    @disk.setter
    def disk(self, disk: SimulatedDisk) -> None:
        self._disk = self.world.disks[self.node] = disk

    @property
    def node(self) -> Node:
        return Node(self.broker, self.directory)

    @property
    def incarnation(self) -> tuple[Node, int] | None:
        """Who runs there, if anybody does."""
        return None if self.process is None else (self.node, self._life)

    @property
    def name(self) -> str:
        return f"broker {self.broker}"

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.process is not None:
            return
        self._life += 1
        self.timeline.note(self.name, f"starts as {self.node}")
        clean, self.clean = self.clean, {}
        try:
            self.process = Process(self, Jobs(self, self._life), clean)
        except SimulatedCrash:
            self._fall()
            return
        self.event(self._life, self.process.begin)

    def crash(self) -> None:
        """The machine stops, or only its process, as the plan has it."""
        self._end("crashes")
        if self.world.plan.is_machine_crashing:
            self.disk = self.disk.after_crash(self.timeline.random.getrandbits(30))
        else:
            self.disk.restart_process()

    def stop(self) -> None:
        """In order: everything is flushed, and the next start finds it so."""
        process = self.process
        if process is None:
            return
        self.timeline.note(self.name, "is stopping")

        def stopped(clean: dict[PartitionId, tuple[CleanEnd, bytes]]) -> None:
            self.clean = clean
            self._end("has stopped")

        self.event(self._life, lambda: process.stop(stopped))

    def wipe(self) -> None:
        """The folder is lost: whoever comes back has forgotten everything, and says so."""
        if self.process is not None:
            self._end("crashes")
        self.directory += 1
        self.timeline.note(self.name, f"has lost its folder, and is {self.node} from now on")
        self.disk = SimulatedDisk()
        self.clean = {}
        self.let_go.clear()
        self.is_rotten = False

    def pause(self, duration_ms: int) -> None:
        """The process stands still, and everything that comes waits for it."""
        self.timeline.note(self.name, f"stands still for {duration_ms} ms")
        self._paused_until_ms = self.timeline.now_ms + duration_ms

    def mend(self) -> None:
        self._paused_until_ms = 0
        self.brittleness = 0.0
        self.disk_delay_ms_max = GOOD_DISK_DELAY_MS_MAX
        self.disk.mend()

    def crash_now_and_then(self) -> None:
        """Called when something was said or saved, and nothing that follows from it is done."""
        if self.brittleness and self.timeline.random.random() < self.brittleness:
            life = self._life

            def crash() -> None:
                if life == self._life and self.process is not None:
                    self._fall(down_ms_max=0)

            self.timeline.after(0, crash)

    def _fall(self, down_ms_max: int = _DOWN_MS_MAX) -> None:
        """Crash, and start again after a while."""
        self.world.counts["crash"] += 1
        self.crash()
        life = self._life

        def start() -> None:
            if life == self._life:
                self.start()

        self.timeline.after(self.timeline.random.randint(0, down_ms_max), start)

    def _end(self, how: str) -> None:
        self.timeline.note(self.name, how)
        self.world.observer.forget(self.node)
        self._life += 1
        self.process = None
        self._armed_ms = None
        self._paused_until_ms = 0

    # --- what happens in a life ------------------------------------------------------------------

    def event(self, life: int, action: Callable[[], None]) -> None:
        """One thing that happens in the process, if it is still the same one."""
        if life != self._life:
            return
        if self._paused_until_ms > self.timeline.now_ms:
            wait_ms = self._paused_until_ms - self.timeline.now_ms
            self.timeline.after(wait_ms, lambda: self.event(life, action))
            return
        try:
            action()
        except SimulatedCrash:
            assert self.disk.crashed
        if self.disk.crashed:
            self._fall()
        elif life == self._life and self.process is not None:
            self.process.look()
            self.world.observer.nothing_unforeseen()
            self._arm(self.process)

    def do(self, action: Callable[[Process], object]) -> None:
        """Let the process do it, if there is one, to the end of the turn."""
        process = self.process
        if process is None:
            return

        def act() -> None:
            action(process)
            process.driver.end_turn()

        self.event(self._life, act)

    def deliver(self, envelope: bytes, payload: bytes) -> None:
        """A parcel has come."""
        trace = self.timeline.trace
        trace.data(self.timeline.now_ms, envelope, lambda: describe_parcel(envelope, payload))
        self.do(lambda process: process.receive(envelope, payload))

    def do_after(self, delay_ms: int, action: Callable[[Process], None]) -> None:
        """The same later, if it is the same life."""
        life = self._life
        self.timeline.after(delay_ms, lambda: self.do(action) if life == self._life else None)

    def _arm(self, process: Process) -> None:
        """The one timer of the process."""
        now_ms = self.timeline.now_ms
        due_ms = max(process.replicas.next_due_ms, now_ms)
        if self._armed_ms is None or due_ms < self._armed_ms:
            self._armed_ms = due_ms
            life = self._life
            self.timeline.after(due_ms - now_ms, lambda: self._on_timer(life, process))

    def _on_timer(self, life: int, process: Process) -> None:
        if life == self._life:
            self._armed_ms = None
            self.event(life, lambda: process.replicas.run_due(self.timeline.now_ms))

    def run_job(self, life: int, job: Job, finished: Callable[[], None]) -> None:
        """On a thread of the process."""
        if life != self._life:
            return
        if self._paused_until_ms > self.timeline.now_ms:
            wait_ms = self._paused_until_ms - self.timeline.now_ms
            self.timeline.after(wait_ms, lambda: self.run_job(life, job, finished))
            return
        try:
            job.run()
        except SimulatedCrash:
            self._fall()
            return
        self.crash_now_and_then()
        self.timeline.after(self.disk_delay_ms(), lambda: self.event(life, finished))

    def disk_delay_ms(self) -> int:
        return self.timeline.random.randint(0, self.disk_delay_ms_max)


class Jobs:
    """`replication.disk.flusher.Flusher` of one life."""

    def __init__(self, machine: Machine, life: int) -> None:
        self._machine = machine
        self._life = life

    def submit(self, job: Job, finished: Callable[[], None]) -> None:
        machine = self._machine
        machine.timeline.after(
            machine.disk_delay_ms(), lambda: machine.run_job(self._life, job, finished)
        )
