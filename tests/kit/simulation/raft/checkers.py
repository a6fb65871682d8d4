"""What must hold in a cluster of `tests.kit.simulation.raft.cluster`, whatever happens to it.

One function for each promise of Raft (paper, figure 3) and of ours; each raises an AssertionError
that says which node and which offset. `Checkers` looks at every step, and remembers what was ever
committed. Not the faults. The invariant: what it remembers never changes, it only grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from penstock.raft.membership import MembershipAt, Node
from penstock.raft.terms import TermHistory
from tests.kit.simulation.raft.cluster import Cluster, Server
from tests.kit.simulation.raft.disk import Batch

LOG_MATCHING_EVERY_STEPS = 200


class Checkers:
    """For one run."""

    def __init__(self) -> None:
        self.leaders: dict[int, Node] = {}
        # All that was ever committed, in order, and where the next of it begins.
        self.committed: list[Batch] = []
        self.committed_end = 0
        self.acknowledged: list[Batch] = []
        self.servers: list[Server] = []
        self._commit_offsets: dict[Node, int] = {}
        self._leading: dict[Node, int] = {}
        self._steps = 0

    def on_restart(self, server: Server) -> None:
        check_saved_tells_the_log(server)
        self._commit_offsets[server.node] = 0
        self._leading.pop(server.node, None)
        if server not in self.servers:
            self.servers.append(server)

    def on_step(self, server: Server) -> None:
        raft = server.raft
        assert raft is not None
        if raft.leading is not None and self._leading.get(server.node) != raft.state.term:
            self._leading[server.node] = raft.state.term
            check_one_leader_per_term(self.leaders, raft.state.term, server.node)
            check_leader_completeness(self.committed, server)
        self._look_at_commit(server, raft.state.commit_offset)
        self._steps += 1
        if self._steps % LOG_MATCHING_EVERY_STEPS == 0:
            check_log_matching(self.servers)

    def on_acknowledged(self, batch: Batch) -> None:
        self.acknowledged.append(batch)

    def _look_at_commit(self, server: Server, commit_offset: int) -> None:
        before = self._commit_offsets[server.node]
        check_commit_is_monotone(server.node, before, commit_offset)
        if commit_offset == before:
            return
        self._commit_offsets[server.node] = commit_offset
        check_committed_never_changes(self.committed, server, before, commit_offset)
        if commit_offset > self.committed_end:
            new = [
                batch
                for batch in server.disk.batches
                if self.committed_end < batch.place.end_offset <= commit_offset
            ]
            assert new, f"{server.node} committed up to {commit_offset} without having it"
            assert new[0].place.base_offset == self.committed_end, (server.node, new[0])
            self.committed += new
            self.committed_end = commit_offset


def check_one_leader_per_term(leaders: dict[int, Node], term: int, node: Node) -> None:
    """Election safety (paper, 5.2)."""
    first = leaders.setdefault(term, node)
    assert first == node, f"two leaders in term {term}: {first} and {node}"


def check_leader_completeness(committed: list[Batch], server: Server) -> None:
    """Paper, 5.4: who leads has everything that was ever committed, or it was dropped."""
    held = {batch.place.base_offset: batch for batch in server.disk.batches}
    for batch in reversed(committed):
        if batch.place.base_offset < server.disk.start_offset:
            return
        found = held.get(batch.place.base_offset)
        assert found == batch, f"{server.node} leads with {found} where {batch} is committed"


def check_commit_is_monotone(node: Node, before: int, after: int) -> None:
    assert after >= before, f"{node} committed up to {before}, and now up to {after}"


def check_committed_never_changes(
    committed: list[Batch], server: Server, before: int, after: int
) -> None:
    """State machine safety (paper, 5.4.3): across nodes, terms and restarts."""
    held = {batch.place.base_offset: batch for batch in server.disk.batches}
    for batch in reversed(committed):
        if batch.place.end_offset <= before or batch.place.base_offset < server.disk.start_offset:
            return
        if batch.place.end_offset <= after:
            found = held.get(batch.place.base_offset)
            assert found == batch, f"{server.node} commits {found} where {batch} was committed"


def check_log_matching(servers: list[Server]) -> None:
    """Paper, 5.3: logs that have a position in common are the same up to it."""
    for one, other in combinations(servers, 2):
        theirs = {
            (batch.place.end_offset, batch.place.term): place
            for place, batch in enumerate(other.disk.batches)
        }
        for place in range(len(one.disk.batches) - 1, -1, -1):
            batch = one.disk.batches[place]
            same = theirs.get((batch.place.end_offset, batch.place.term))
            if same is not None:
                length = min(place, same) + 1
                ours = one.disk.batches[place + 1 - length : place + 1]
                others = other.disk.batches[same + 1 - length : same + 1]
                differing = [pair for pair in zip(ours, others, strict=True) if pair[0] != pair[1]]
                assert not differing, f"{one.node} and {other.node} differ: {differing[0]}"
                break


def check_saved_tells_the_log(server: Server) -> None:
    """What a node knows after a restart is what its log says: every term, every membership."""
    assert server.raft is not None
    state = server.raft.state
    start_offset = state.terms.start_offset
    batches = [b for b in server.disk.batches if b.place.base_offset >= start_offset]
    history = TermHistory(start_offset, state.terms.start_term)
    for batch in batches:
        history.extend(batch.place.term, batch.place.end_offset)
    assert state.terms.begun == history.begun, f"{server.node}: {state.terms} but {history}"
    known = {at for at in state.members.known if at.offset >= start_offset}
    written = {
        MembershipAt(batch.place.base_offset, batch.place.term, batch.place.membership)
        for batch in batches
        if batch.place.membership is not None and batch.place.base_offset >= min_offset(known)
    }
    assert known == written, f"{server.node}: {known} but {written}"


def min_offset(known: set[MembershipAt]) -> int:
    """Memberships before the first that is known are settled, and forgotten."""
    return min((at.offset for at in known), default=0)


def check_acknowledged_is_committed(checkers: Checkers) -> None:
    """R-REP-2: nothing acknowledged is lost, and each is there once."""
    committed = {batch.payload: batch for batch in checkers.committed if batch.payload >= 0}
    for batch in checkers.acknowledged:
        found = committed.get(batch.payload)
        assert found == batch, f"{batch} was acknowledged, and {found} is committed"
    payloads = [batch.payload for batch in checkers.committed if batch.payload >= 0]
    assert len(payloads) == len(set(payloads)), "a batch is committed twice"


def check_available(
    cluster: Cluster, checkers: Checkers, payloads: Iterator[int], limit_ms: int
) -> None:
    """Once nothing fails any more, a batch is acknowledged and everybody has it, in time."""

    first = next(payloads)

    def is_missing() -> bool:
        for server in cluster.leaders:
            server.propose(next(payloads))
        return not any(batch.payload > first for batch in checkers.acknowledged)

    assert cluster.timeline.run_while(is_missing, limit_ms), (
        f"no batch acknowledged within {limit_ms} ms"
    )

    def differs() -> bool:
        if len(cluster.leaders) != 1:
            return True
        leader = cluster.leaders[0]
        assert leader.raft is not None
        state = leader.raft.state
        copies = [cluster.servers[node] for node in state.membership.nodes]
        ends = {copy.disk.end_offset for copy in copies}
        commits = {copy.raft.state.commit_offset for copy in copies if copy.raft is not None}
        return ends | commits != {leader.disk.end_offset}

    assert cluster.timeline.run_while(differs, limit_ms), f"copies differ after {limit_ms} ms"
