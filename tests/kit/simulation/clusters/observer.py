"""Looks at every step of every copy, remembers what must not change, and calls the checkers.

Not the checkers. The invariant: what it remembers of a partition (the truth, the leaders, what was
to go) only grows, over all lives of all brokers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.model.ids import PartitionId
from penstock.raft.core import Raft
from penstock.raft.membership import Node
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.simulation import checkers
from tests.kit.simulation.checkers import Truth
from tests.kit.simulation.clusters.history import History
from tests.kit.simulation.clusters.served import Served
from tests.kit.simulation.ears import Ears
from tests.kit.simulation.messages import is_message
from tests.kit.simulation.timeline import Timeline

_LOGS_MATCH_EVERY: Final = 300


class Watch:
    """What is known of one partition."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.leaders: dict[int, Node] = {}
        # Before it something was to be deleted.
        self.deleted_offset = 0
        # The copies that were last seen, by node.
        self.copies: dict[Node, Served] = {}
        # What each node that was ever opened knew when it was last seen.
        self.rafts: dict[Node, Raft] = {}
        self.steps = 0


class Observer:
    """Of one run."""

    def __init__(self, timeline: Timeline, history: History) -> None:
        self.watches: dict[PartitionId, Watch] = {}
        # By name, and by which of that name it is.
        self._terms: dict[str, dict[int, tuple[int, int]]] = {}
        self._timeline = timeline
        self._history = history
        self._ears = Ears(timeline)

    def __enter__(self) -> Observer:
        self._ears.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ears.__exit__()

    def watch(self, partition: PartitionId) -> Watch:
        return self.watches.setdefault(partition, Watch())

    # --- copies ----------------------------------------------------------------------------------

    def on_opened(self, served: Served) -> None:
        """For the first time, or after a crash."""
        watch = self.watch(served.plan.id)
        watch.copies[served.node] = served
        watch.rafts[served.node] = raft = served.replica.consensus.raft
        checkers.terms_are_those_stamped(served.copy, raft.state.terms)

    def look(self, served: Served) -> None:
        watch, copy, replica = self.watch(served.plan.id), served.copy, served.replica
        raft = replica.consensus.raft
        term = raft.state.term
        # What is not saved yet nobody was told, and a crash takes it.
        leads = raft.leading is not None and not replica.consensus.is_busy
        if leads and replica.failure is None and served.term_led != term:
            served.term_led = term
            self._timeline.note(str(served.node), f"leads {served.plan.name} in term {term}")
            checkers.one_leader_per_term(watch.leaders, term, served.node)
            led = self._terms.setdefault(served.plan.name.topic, {})
            checkers.terms_of_a_name_never_go_back(led, int(served.plan.id.topic_id, 16), term)
            # One that was elected and paused may lead when somebody leads in a later term, until it
            # hears of that: it need not have what was committed since.
            is_latest = term == max(watch.leaders)
            if is_latest and not copy.is_blind:
                checkers.leader_is_complete(watch.truth, copy)
        before, after = served.high_watermark_seen, replica.high_watermark
        if after < before and replica.failure is not None:
            served.high_watermark_seen = after  # what others have committed, its disk has lost
        elif after != before:
            checkers.high_watermark_is_monotone(served.node, before, after)
            served.high_watermark_seen = after
            if not copy.is_blind:
                checkers.committed_never_changes(watch.truth, copy, before, after)
        start_offset = replica.log.start_offset
        checkers.only_the_deleted_is_gone(served.node, start_offset, watch.deleted_offset)
        watch.steps += 1
        if watch.steps % _LOGS_MATCH_EVERY == 0:
            self.compare_logs(watch)

    def compare_logs(self, watch: Watch) -> None:
        copies = [served.copy for served in watch.copies.values()]
        checkers.logs_match([copy for copy in copies if not copy.is_blind])

    def forget(self, node: Node) -> None:
        """Its broker is down: what it has is not known until it is opened again."""
        for watch in self.watches.values():
            watch.copies.pop(node, None)

    def forget_copy(self, served: Served) -> None:
        """It is removed: what it knew is no longer known there."""
        watch = self.watch(served.plan.id)
        watch.copies.pop(served.node, None)
        watch.rafts.pop(served.node, None)

    # --- what is asked for, and answered ---------------------------------------------------------

    def may_delete(self, served: Served, offset: int) -> None:
        """Records before the offset are to go."""
        watch = self.watch(served.plan.id)
        watch.deleted_offset = max(watch.deleted_offset, offset)

    def may_tidy(self, served: Served) -> None:
        """Retention may take what is committed."""
        config = served.plan.config
        if config.has_retention and (config.retention_ms >= 0 or config.retention_bytes >= 0):
            self.may_delete(served, served.replica.high_watermark)

    def on_acknowledging(
        self,
        served: Served,
        base_offset: int,
        disks: dict[Node, SimulatedDisk],
        *,
        durably: bool,
        rotted: Collection[int],
    ) -> None:
        """A producer that waits for all is about to be answered. disks: all there ever were.
        durably: it must be on the platter, and not only in the cache. rotted: brokers whose disks
        may have had it before bits of it decayed."""
        served.copy.refresh()
        fact = served.copy.fact_at(base_offset)
        is_deleted = base_offset < self.watch(served.plan.id).deleted_offset
        if fact is None or fact.value is None or is_deleted or served.plan.is_compacted:
            # Some may have let it go again.
            return
        holders = [
            node
            for node, disk in disks.items()
            if node.broker in rotted or disk.holds(served.plan.folder, fact.value, durably=durably)
        ]
        state = served.replica.consensus.raft.state
        checkers.acknowledged_is_on_enough_disks(
            fact.value,
            holders,
            [at.membership for at in state.members.known],
            served.replica.min_insync_replicas,
        )

    def on_read(self, partition: PartitionId, offset: int, value: bytes, *, is_known: bool) -> None:
        """By a client. is_known: what its broker takes for committed is looked at."""
        if is_message(value):
            checkers.no_phantom(self._history.sent, offset, value)
            checkers.offsets_are_functional(self._history.seen[partition], offset, value)
            truth = self.watch(partition).truth
            if is_known or offset in truth.facts:
                checkers.read_is_committed(truth, offset, value)

    def nothing_unforeseen(self) -> None:
        """Production catches what nobody foresaw and goes on; here it counts."""
        self._ears.tell()
