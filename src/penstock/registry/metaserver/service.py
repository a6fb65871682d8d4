"""What a meta server answers: changes, news, heartbeats, who leads, snapshots (R-REP-5).

No sockets and no timers: calls come in by `serve`, time by `tick`, and a call is
answered when the quorum has decided. Not the log and the state (`metaserver.machine`).

The invariants: a change is answered when it is applied, and only by the server that led it there;
everything as a whole, and that a broker is alive or controller, is said only after an entry that
was proposed later than the question was committed, so that a leader that was deposed says nothing;
changes that follow what a broker has need no such proof, since they were committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from penstock.model.errors import (
    Busy,
    InvalidConfig,
    InvalidRequest,
    NotLeader,
    PenstockError,
    RegistryUnavailable,
    ShuttingDown,
    UnknownCall,
)
from penstock.model.ids import BrokerId
from penstock.model.limits import META_CALLS_WAITING_MAX, META_CHANGE_BYTES_MAX
from penstock.net.call import Call
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.raft.membership import Node
from penstock.registry.facts import ExpireBroker, RegisterBroker
from penstock.registry.metaserver.entries import (
    Confirm,
    Entry,
    MakeCluster,
    decode_entry,
    new_entry,
)
from penstock.registry.metaserver.machine import MetaMachine
from penstock.registry.metaserver.news import MetaCall, News
from penstock.registry.metaserver.sessions import Sessions
from penstock.registry.metaserver.state import (
    NO_VERSION,
    Outcome,
    Snapshot,
    encode_snapshot,
)
from penstock.replication.disk.driver import Driver
from penstock.replication.replica.participant import Participant

logger = logging.getLogger(__name__)

SESSION_TIMEOUT_MS: Final = 6_000
# Parts of a session's time between two looks at who is silent: heartbeats of that time share one
# entry of the log, so that an idle cluster writes twice a second, as KIP-835 has it.
_TICKS_PER_SESSION: Final = 12
# The longest that news are waited for: a broker asks again.
_WAIT_MS_MAX: Final = 30_000


class _Beat(NamedTuple):
    """A heartbeat that waits for the proof that this server leads."""

    call: MetaCall
    node: Node
    place: int


class MetaService:
    """One meta server's. All calls come from the event loop. Implements `machine.Audience`."""

    def __init__(
        self,
        machine: MetaMachine,
        addresses: Mapping[int, str],
        driver: Driver,
        monotonic_ms: Callable[[], int],
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        """addresses: of all meta servers, by their ids."""
        self.machine = machine
        self.tick_ms = max(session_timeout_ms // _TICKS_PER_SESSION, 1)
        self._participant = Participant(machine.replica)
        self._addresses = addresses
        self._driver = driver
        self._monotonic_ms = monotonic_ms
        self._sessions = Sessions(session_timeout_ms)
        self._news = News(machine, session_timeout_ms)
        self._beats: list[_Beat] = []
        self._is_closing = False
        self._handlers: Mapping[int, Callable[[MetaCall], None]] = {
            calls.META_CHANGE.number: self._change,
            calls.META_FETCH.number: self._fetch,
            calls.META_HEARTBEAT.number: self._heartbeat,
            calls.META_LEADER.number: self._leader,
            calls.META_SNAPSHOT.number: self._snapshot,
        }
        machine.audience = self

    @property
    def participant(self) -> Participant:
        return self._participant

    def serve(self, call: MetaCall) -> None:
        """Answer a call, now or later. What this raises is the answer. The turn must end."""
        if self._is_closing:
            raise ShuttingDown("This meta server is stopping: ask another.")
        handler = self._handlers.get(call.kind.number)
        if handler is None:
            raise UnknownCall(f"A meta server does not answer {call.name}: ask a broker.")
        try:
            handler(call)
        except NotLeader:
            raise self._not_leader() from None

    def tick(self) -> None:
        """Do what is due, to the end of the turn. To be called every `tick_ms`."""
        machine, now_ms = self.machine, self._monotonic_ms()
        if machine.failure is not None:
            machine.replica.fail(machine.failure)
        elif machine.replica.is_leader and not machine.has_hole:
            for node in self._sessions.overdue(now_ms):
                logger.warning("Nothing is heard of broker %d: it is taken for dead", node.broker)
                self._propose_own(ExpireBroker(node=node))
            self._confirm_beats()
        self._news.give_up(now_ms)
        self._driver.end_turn()

    def install(self, snapshot: Snapshot) -> None:
        """Fill the hole with another server's state."""
        self.machine.install(snapshot)
        if self.machine.replica.is_leader:
            self._begin_sessions()

    def begin_closing(self) -> None:
        """Whoever waits is sent to another server."""
        self._is_closing = True
        self._send_away(ShuttingDown("This meta server is stopping: ask another."))

    # --- calls -----------------------------------------------------------------------------------

    def _change(self, call: Call[pb.MetaChangeRequest]) -> None:
        request = call.request
        self.machine.check_serves()
        if len(request.entry) > META_CHANGE_BYTES_MAX:
            raise InvalidRequest(
                f"The change is {len(request.entry)} bytes, and the meta servers take "
                f"{META_CHANGE_BYTES_MAX} at once: make it in parts."
            )
        entry = decode_entry(request.entry, "The change")
        if isinstance(entry.action, Confirm):
            raise InvalidRequest("A broker has nothing to confirm.")
        if not isinstance(entry.action, MakeCluster):
            self._check_cluster(request.cluster_id)

        def done(outcome: Outcome | PenstockError) -> None:
            error = (
                self._as_error(outcome) if isinstance(outcome, PenstockError) else outcome.refusal
            )
            if error is not None:
                call.refuse(error)
                return
            assert isinstance(outcome, Outcome)
            response = pb.MetaChangeResponse(
                version=outcome.version,
                first_producer_id=outcome.next_producer_id,
                controller=outcome.controller,
                session_timeout_ms=self._sessions.timeout_ms,
            )
            call.answer(response)

        self.machine.propose(request.entry, done)

    def _fetch(self, call: Call[pb.MetaFetchRequest]) -> None:
        request = call.request
        self.machine.check_serves()
        self._check_cluster(request.cluster_id)
        version, seen_version = self.machine.state.version, request.seen_version
        if seen_version == NO_VERSION or (
            seen_version < version and self.machine.feed.since(seen_version) is None
        ):
            self._confirm(call, lambda: self._news.answer_whole(call))
        elif seen_version < version:
            self._news.answer_since(call, seen_version)
        else:
            deadline_ms = self._monotonic_ms() + min(request.max_wait_ms, _WAIT_MS_MAX)
            self._news.wait(call, seen_version, deadline_ms)

    def _heartbeat(self, call: Call[pb.MetaHeartbeatRequest]) -> None:
        request = call.request
        self.machine.check_serves()
        self._check_cluster(request.cluster_id)
        if len(self._beats) >= META_CALLS_WAITING_MAX:
            raise Busy("Too many heartbeats wait here: try again later.")
        node = Node(request.broker, request.directory)
        if self._is_alive(node, request.place):
            self._sessions.hear(node, self._monotonic_ms())
        self._beats.append(_Beat(call, node, request.place))

    def _leader(self, call: Call[pb.MetaLeaderRequest]) -> None:
        leader = self._participant.leader
        is_empty = not self.machine.replica.log.next_offset
        response = pb.MetaLeaderResponse(leader=-1, is_empty=is_empty)
        if leader is not None and leader.broker in self._addresses:
            response.leader = leader.broker
            response.address = self._addresses[leader.broker]
            response.term = self._participant.term
        if self.machine.replica.is_leader:
            self._add_voters(response)
        call.answer(response)

    def _add_voters(self, response: pb.MetaLeaderResponse) -> None:
        participant, log = self._participant, self.machine.replica.log
        response.commit_offset = participant.commit_offset
        for node in sorted(participant.membership.voters):
            end_offset = participant.matches.get(node, log.next_offset)
            address = self._addresses[node.broker]
            response.voters.add(id=node.broker, address=address, end_offset=end_offset)

    def _snapshot(self, call: Call[pb.MetaSnapshotRequest]) -> None:
        """Of any server: what is applied was committed, whoever leads."""
        request = call.request
        machine = self.machine
        if machine.has_hole or machine.applied_offset < request.first_offset:
            raise RegistryUnavailable("This meta server is behind itself: ask another.")
        call.answer(pb.MetaSnapshotResponse(), encode_snapshot(machine.snapshot()))

    def _check_cluster(self, cluster_id: str) -> None:
        facts = self.machine.state.facts
        if not cluster_id or (facts is not None and facts.cluster_id == cluster_id):
            return
        there = "no cluster" if facts is None else f"the cluster {facts.cluster_id}"
        raise InvalidConfig(
            f"These meta servers keep {there}, and the broker belongs to {cluster_id}: correct the "
            "registry's address, or restore what the servers kept."
        )

    # --- the proof that this server leads --------------------------------------------------------

    def _confirm(self, call: MetaCall, then: Callable[[], None]) -> None:
        def done(outcome: Outcome | PenstockError) -> None:
            if isinstance(outcome, PenstockError):
                call.refuse(self._as_error(outcome))
            else:
                then()

        self.machine.propose(new_entry(Confirm()), done)

    def _confirm_beats(self) -> None:
        beats, self._beats = self._beats, []
        if not beats:
            return

        def done(outcome: Outcome | PenstockError) -> None:
            for beat in beats:
                if isinstance(outcome, PenstockError):
                    beat.call.refuse(self._as_error(outcome))
                else:
                    self._answer_beat(beat)

        try:
            self.machine.propose(new_entry(Confirm()), done)
        except PenstockError as error:
            done(error)

    def _propose_own(self, change: ExpireBroker) -> None:
        def done(outcome: Outcome | PenstockError) -> None:
            if isinstance(outcome, PenstockError):
                logger.info("%s", outcome)

        try:
            self.machine.propose(new_entry(change), done)
        except PenstockError as error:
            done(error)

    # --- answers ---------------------------------------------------------------------------------

    def _answer_beat(self, beat: _Beat) -> None:
        is_registered = self._is_alive(beat.node, beat.place)
        response = pb.MetaHeartbeatResponse(
            is_registered=is_registered,
            is_controller=is_registered and self.machine.state.controller == beat.node.broker,
            session_timeout_ms=self._sessions.timeout_ms,
        )
        beat.call.answer(response)

    def _send_away(self, error: PenstockError) -> None:
        self._news.send_away(error)
        beats, self._beats = self._beats, []
        for beat in beats:
            beat.call.refuse(error)

    def _as_error(self, error: PenstockError) -> PenstockError:
        return self._not_leader() if isinstance(error, NotLeader) else error

    def _not_leader(self) -> NotLeader:
        leader = self._participant.leader
        if leader is None or leader.broker not in self._addresses:
            return NotLeader("No meta server leads at this moment: ask again.")
        address = self._addresses[leader.broker]
        return NotLeader(f"The meta server {leader.broker} at {address} leads: ask that one.")

    def _is_alive(self, node: Node, place: int) -> bool:
        facts = self.machine.state.facts
        known = None if facts is None else facts.brokers.get(BrokerId(node.broker))
        return known is not None and known.is_alive and known.has_folder(node.directory, place)

    # --- machine.Audience ------------------------------------------------------------------------

    def on_applied(self, entry: Entry) -> None:
        match entry.action:
            case RegisterBroker(broker=broker):
                self._sessions.hear(broker.node, self._monotonic_ms())
            case ExpireBroker(node=node):
                self._sessions.forget(node)
            case _:
                pass

    def on_caught_up(self) -> None:
        self._news.tell()

    def on_leadership(self, is_leader: bool) -> None:
        if is_leader:
            self._begin_sessions()
        else:
            self._send_away(self._not_leader())

    def _begin_sessions(self) -> None:
        facts = self.machine.state.facts
        brokers = () if facts is None else facts.brokers.values()
        alive = [broker.node for broker in brokers if broker.is_alive]
        self._sessions.begin(alive, self._monotonic_ms())
