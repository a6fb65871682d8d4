"""What befalls a cluster, by chance: machines, disks, networks, and people who change their minds.

Each run has faults of its own: some never happen in it, some all the time, so that runs differ in
kind and not only in order. Not what must hold. The invariant: at the end of `mend` nothing is
broken any more, and nothing was destroyed that a majority did not have elsewhere.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Final

from penstock.raft.membership import Membership
from penstock.records.view import batches
from penstock.storage.segment import LOG_SUFFIX
from penstock.testing.simulated_disk import Operation
from penstock.testing.simulation.cluster import Cluster
from penstock.testing.simulation.machine import Machine
from penstock.testing.simulation.network import CHECKED_FROM
from penstock.testing.simulation.process import Process
from penstock.testing.simulation.served import Served

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

Fault = Callable[[], None]


class Faults:
    """Of one run."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._network = cluster.network
        self._timeline = cluster.timeline
        self._random = Random(f"faults {seed}")  # noqa: S311 - it must be repeatable, not secret
        self._weights = self._draw_weights()
        self._is_over = False
        if self._random.random() < 0.25:
            self._begin_storm()

    def strike(self) -> None:
        """Something happens."""
        faults = list(self._weights)
        name = self._random.choices(faults, [self._weights[fault] for fault in faults])[0]
        self._cluster.counts[name] += 1
        self._all_faults()[name]()

    def mend(self) -> None:
        self._timeline.note("world", "everything is mended")
        self._is_over = True
        self._network.mend()
        for machine in self._machines:
            machine.mend()
        self._cluster.operator.replace_rotten()
        self._cluster.operator.repair()
        self._cluster.operator.start_all()

    # --- which of them ---------------------------------------------------------------------------

    def _all_faults(self) -> dict[str, Fault]:
        return {
            "mended network": self._network.mend,
            "start": self._cluster.operator.start_all,
            "repaired disks": self._repair,
            "killed broker": self._kill,
            "all killed": self._kill_all,
            "orderly stop": self._stop,
            "pause": self._pause,
            "brittle": self._make_brittle,
            "leader cut off": self._strand,
            "impatience": self._hurry,
            "split network": self._split,
            "one-way cut": self._cut_one_way,
            "bridge": self._bridge,
            "flapping": self._flap,
            "bad network": self._make_worse,
            "good network": self._network.make_better,
            "crash at the disk": self._crash_at_disk,
            "failing disk": self._fail_disk,
            "full disk": self._fill_disk,
            "slow disk": self._slow_disk,
            "bit rot": self._rot,
            "wiped folder": self._wipe,
            "deleted records": self._delete,
            "moved partition": self._move,
            "odd membership": self._change_membership,
            "transfer": self._transfer,
        }

    def _draw_weights(self) -> dict[str, int]:
        weights = {
            "mended network": 12,
            "start": 12,
            "repaired disks": 8,
            "killed broker": 8,
            "all killed": 1,
            "orderly stop": 3,
            "pause": 4,
            "brittle": 2,
            "leader cut off": 6,
            "impatience": 5,
            "split network": 4,
            "one-way cut": 3,
            "bridge": 3,
            "flapping": 3,
            "bad network": 4,
            "good network": 4,
            "crash at the disk": 6,
            "failing disk": 3,
            "full disk": 2,
            "slow disk": 2,
            "bit rot": 2,
            "wiped folder": 2,
            "deleted records": 3,
            "moved partition": 4,
            "odd membership": 4,
            "transfer": 4,
        }
        always = ("mended network", "start", "repaired disks")
        return {
            fault: weight * (1 if fault in always else self._random.choice((0, 1, 1, 3, 8)))
            for fault, weight in weights.items()
        }

    def _begin_storm(self) -> None:
        """All campaign against each other all the time, and crash right after they voted."""
        for machine in self._machines:
            machine.brittleness = 0.15
        self._weights = {
            "impatience": 20,
            "start": 4,
            "split network": 2,
            "leader cut off": 2,
            "mended network": 2,
            "repaired disks": 1,
        }

    # --- machines --------------------------------------------------------------------------------

    @property
    def _machines(self) -> list[Machine]:
        return list(self._cluster.machines.values())

    def _any(self) -> Machine:
        return self._random.choice(self._machines)

    def _kill(self) -> None:
        machine = self._any()
        if machine.process is not None:
            machine.crash()
            if self._random.random() < 0.5:
                machine.start()

    def _kill_all(self) -> None:
        for machine in self._machines:
            if machine.process is not None:
                machine.crash()
        self._cluster.operator.start_all()

    def _stop(self) -> None:
        self._any().stop()

    def _pause(self) -> None:
        self._any().pause(self._random.choice((100, 1_000, 3_000)))

    def _make_brittle(self) -> None:
        self._any().brittleness = self._random.choice((0.0, 0.02, 0.1))

    def _hurry(self) -> None:
        """Followers lose patience, several at once: so that they campaign against each other."""
        for machine in self._machines:
            if self._random.random() < 0.7:
                machine.do(self._lose_patience)

    def _lose_patience(self, process: Process) -> None:
        now_ms = self._timeline.now_ms
        for served in process.partitions.values():
            raft = served.replica.consensus.raft
            is_waiting = raft.leading is None and not served.replica.consensus.is_busy
            if is_waiting and served.replica.failure is None:
                # A follower's time is by chance; it may come now.
                raft.deadline_ms = now_ms
                served.participant.on_time(now_ms)

    # --- networks --------------------------------------------------------------------------------

    def _brokers(self) -> list[int]:
        brokers = list(self._cluster.plan.brokers)
        self._random.shuffle(brokers)
        return brokers

    def _split(self) -> None:
        brokers = self._brokers()
        half = self._random.randint(0, len(brokers))
        self._network.cut_between(brokers[:half], brokers[half:])

    def _cut_one_way(self) -> None:
        self._network.cut_one_way(self._any().broker, self._any().broker)

    def _bridge(self) -> None:
        """Two halves that do not see each other, and one broker that sees both."""
        _, *others = self._brokers()
        half = len(others) // 2
        self._network.cut_between(others[:half], others[half:])

    def _flap(self) -> None:
        """Links of a broker come and go for a while."""
        broker, *others = self._brokers()
        others = others[: self._random.randint(0, len(others))]
        interval_ms = self._random.choice((60, 300, 1_000))

        def cut() -> None:
            if not self._is_over:
                self._network.cut_between([broker], others)

        def mend() -> None:
            for other in others:
                self._network.cuts -= {(broker, other), (other, broker)}

        for turn in range(self._random.randint(1, 4)):
            self._timeline.after(2 * turn * interval_ms, cut)
            self._timeline.after((2 * turn + 1) * interval_ms, mend)

    def _strand(self) -> None:
        """A leader is cut off, perhaps with others, while something of its own is on the way."""
        led = [served for plan in self._cluster.plan.partitions for served in self._led(plan.id)]
        if not led:
            return
        leader = self._random.choice(led)
        if self._random.random() < 0.5:
            self._change_one(leader)
        self._timeline.run_for(self._random.randint(0, 40))
        others = [b for b in self._cluster.plan.brokers if b != leader.node.broker]
        company = self._random.choice((0, 0, self._random.randint(0, len(others))))
        some = {leader.node.broker, *self._random.sample(others, company)}
        self._network.cut_between(sorted(some), sorted(set(others) - some))

    def _make_worse(self) -> None:
        network, random = self._network, self._random
        network.loss = random.choice((0.0, 0.05, 0.3))
        network.doubling = random.choice((0.0, 0.05, 0.3))
        network.overtaking = random.choice((0.0, 0.1, 0.3))
        network.damage = random.choice((0.0, 0.0, 0.05))
        network.delay_ms_max = random.choice((10, 50, 250))

    # --- disks -----------------------------------------------------------------------------------

    def _crash_at_disk(self) -> None:
        """At one of its next operations, whichever that is."""
        disk = self._any().disk
        number = self._random.randint(1, _CRASHES_WITHIN_OPERATIONS)
        disk.crash_at(len(disk.operations) + number)

    def _fail_disk(self) -> None:
        self._any().disk.fail_next(self._random.choice(_FAILING), errno.EIO)

    def _fill_disk(self) -> None:
        disk = self._any().disk
        used_bytes = sum(map(len, disk.files().values()))
        disk.capacity_bytes = used_bytes + self._random.choice((0, 50, 500))

    def _slow_disk(self) -> None:
        self._any().disk_delay_ms_max = self._random.choice((5, 50, 400, 1_500))

    def _repair(self) -> None:
        for machine in self._machines:
            machine.disk.capacity_bytes = None
        self._cluster.operator.repair()

    def _wipe(self) -> None:
        machine = self._any()
        if self._cluster.operator.may_lose(machine):
            self._cluster.counts["folders lost"] += 1
            machine.wipe()
            if self._random.random() < 0.7:
                machine.start()

    def _rot(self) -> None:
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
        self._timeline.note(machine.name, f"a bit decays: {path} at {position}")
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

    # --- people ----------------------------------------------------------------------------------

    def _led(self, partition: object) -> list[Served]:
        plans = [plan for plan in self._cluster.plan.partitions if plan.id == partition]
        return [served for plan in plans for served in self._cluster.leaders(plan.id)]

    def _delete(self) -> None:
        plan = self._random.choice(self._cluster.plan.partitions)
        share = self._random.random()
        for machine in self._machines:
            machine.do(lambda process: process.delete_before(plan.id, share))

    def _move(self) -> None:
        plan = self._random.choice(self._cluster.plan.partitions)
        brokers = self._brokers()
        fewest = plan.config.min_insync_replicas
        target = tuple(brokers[: self._random.randint(fewest, len(brokers))])
        self._cluster.operator.targets[plan.id] = target
        self._timeline.note("operator", f"{plan.name} is to be on {target}")

    def _change_membership(self) -> None:
        plan = self._random.choice(self._cluster.plan.partitions)
        for served in self._cluster.leaders(plan.id):
            self._change_one(served)

    def _change_one(self, served: Served) -> None:
        wanted = self._another(served.membership)
        machine = self._cluster.machines[served.node.broker]
        machine.do(lambda _: self._cluster.operator.change(served, wanted))

    def _another(self, now: Membership) -> Membership:
        """One node becomes something else: a voter, a learner, or nothing. Or anything at all,
        which must be refused unless it is a single step."""
        nodes = [machine.node for machine in self._machines]
        if self._random.random() < 0.2:
            return Membership(
                frozenset(self._random.sample(nodes, self._random.randint(0, len(nodes))))
            )
        node = self._random.choice(nodes)
        voters, learners = now.voters - {node}, now.learners - {node}
        match self._random.choice(("voter", "voter", "learner", "nothing")):
            case "voter":
                voters |= {node}
            case "learner":
                learners |= {node}
        return Membership(voters, learners)

    def _transfer(self) -> None:
        plan = self._random.choice(self._cluster.plan.partitions)
        node = self._any().node
        for served in self._cluster.leaders(plan.id):
            machine = self._cluster.machines[served.node.broker]
            participant = served.participant
            machine.do(lambda _, each=participant: each.transfer(node))  # type: ignore[misc]


def _may_rot(path: str) -> bool:
    return path.endswith((LOG_SUFFIX, "raft.journal"))
