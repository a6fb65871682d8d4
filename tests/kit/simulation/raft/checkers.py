"""Looks at every step of every node of a cluster of consensus alone, and calls the checkers.

What they are is in `tests.kit.simulation.checkers`; what holds of a node's memory alone is here.
Not the faults. The invariant: what it remembers never changes, it only grows.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.raft.membership import MembershipAt, Node
from penstock.raft.terms import TermHistory
from tests.kit.simulation import checkers
from tests.kit.simulation.checkers import Truth, Violation
from tests.kit.simulation.messages import is_message
from tests.kit.simulation.raft.cluster import Cluster, Server
from tests.kit.simulation.raft.disk import NOOP, Batch, Disk
from tests.kit.simulation.timeline import Timeline

_LOGS_MATCH_EVERY = 200


class Checkers:
    """For one run."""

    def __init__(self, timeline: Timeline) -> None:
        self.truth = Truth()
        self.leaders: dict[int, Node] = {}
        # The value at each offset of what clients were told is there.
        self.acknowledged: dict[int, bytes] = {}
        self.last_acknowledged = NOOP
        self._timeline = timeline
        self._disks: dict[Node, Disk] = {}
        self._commit_offsets: dict[Node, int] = {}
        self._leading: dict[Node, int] = {}
        self._steps = 0

    def on_restart(self, server: Server) -> None:
        check_saved_tells_the_log(server)
        self._commit_offsets[server.node] = 0
        self._leading.pop(server.node, None)
        self._disks[server.node] = server.disk

    def on_step(self, server: Server) -> None:
        raft, node = server.raft, server.node
        assert raft is not None
        if raft.leading is not None and self._leading.get(node) != raft.state.term:
            self._leading[node] = raft.state.term
            self._timeline.note(str(node), f"leads in term {raft.state.term}")
            checkers.one_leader_per_term(self.leaders, raft.state.term, node)
            checkers.leader_is_complete(self.truth, server.disk)
        before, after = self._commit_offsets[node], raft.state.commit_offset
        if after != before:
            checkers.high_watermark_is_monotone(node, before, after)
            checkers.committed_never_changes(self.truth, server.disk, before, after)
            self._commit_offsets[node] = after
        self._steps += 1
        if self._steps % _LOGS_MATCH_EVERY == 0:
            self.compare_logs()

    def on_acknowledged(self, batch: Batch) -> None:
        self.last_acknowledged = max(self.last_acknowledged, batch.payload)
        for offset, fact in batch.facts:
            assert fact.value is not None
            checkers.offsets_are_functional(self.acknowledged, offset, fact.value)

    @property
    def changes(self) -> int:
        """How many memberships were committed."""
        others = (fact for fact in self.truth.facts.values() if not is_message(fact.value))
        return sum(bool(fact.value) for fact in others)

    def compare_logs(self) -> None:
        checkers.logs_match(list(self._disks.values()))

    def check_acknowledged(self) -> None:
        """R-REP-2: nothing acknowledged is lost, and each is there once."""
        checkers.acknowledged_is_committed(self.acknowledged, self.truth)
        checkers.sent_once_stands_once(self.truth)


def check_saved_tells_the_log(server: Server) -> None:
    """What a node knows after a restart is what its log says: every term, every membership."""
    assert server.raft is not None
    state = server.raft.state
    start_offset = state.terms.start_offset
    batches = [batch for batch in server.disk.batches if batch.base_offset >= start_offset]
    history = TermHistory(start_offset, state.terms.start_term)
    for batch in batches:
        history.extend(batch.term, batch.end_offset)
    if state.terms.begun != history.begun:
        raise Violation(f"{server.node} knows {state.terms}, and has {history}")
    known = {at for at in state.members.known if at.offset >= start_offset}
    # Those before the first that is known are settled, and forgotten.
    first_offset = min((at.offset for at in known), default=0)
    written = {
        MembershipAt(batch.base_offset, batch.term, batch.place.membership)
        for batch in batches
        if batch.place.membership is not None and batch.base_offset >= first_offset
    }
    if known != written:
        raise Violation(f"{server.node} knows {known}, and has {written}")


def check_available(
    cluster: Cluster, known: Checkers, payloads: Iterator[int], limit_ms: int
) -> None:
    """Once nothing fails any more, a batch is acknowledged and everybody has it, in time."""
    run_while = cluster.timeline.run_while
    first = next(payloads)

    def is_missing() -> bool:
        for server in cluster.leaders:
            server.propose(next(payloads))
        return known.last_acknowledged <= first

    def differs() -> bool:
        if len(cluster.leaders) != 1:
            return True
        leader = cluster.leaders[0]
        assert leader.raft is not None
        copies = [cluster.servers[node] for node in leader.raft.state.membership.nodes]
        ends = {copy.disk.end_offset for copy in copies}
        commits = {copy.raft.state.commit_offset for copy in copies if copy.raft is not None}
        return ends | commits != {leader.disk.end_offset}

    for what, condition in (("no batch acknowledged", is_missing), ("copies differ", differs)):
        checkers.available_within(
            limit_ms,
            what,
            lambda limit_ms, holds=condition: run_while(holds, limit_ms),  # type: ignore[misc]
        )
