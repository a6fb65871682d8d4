"""What a meta server answers: changes, news, heartbeats, who leads, snapshots (R-REP-5).

No sockets and no timers: calls come in by `serve`, time by `tick`, and answers leave by the channel
that a call came on, when the quorum has decided. Not the log and the state (`metaserver.machine`).

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
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import parse
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
from penstock.registry.metaserver.news import Caller, News
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

    caller: Caller
    message_id: int
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
        self._handlers: Mapping[int, Callable[[Caller, int, memoryview], None]] = {
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

    def serve(
        self, caller: Caller, call: int, message_id: int, envelope: memoryview, payload: memoryview
    ) -> None:
        """Answer a call, now or later. What this raises is the answer. The turn must end."""
        del payload
        if self._is_closing:
            raise ShuttingDown("This meta server is stopping: ask another.")
        handler = self._handlers.get(call)
        if handler is None:
            raise UnknownCall(f"A meta server does not answer {calls.type_name(call)}.")
        try:
            handler(caller, message_id, envelope)
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

    def _change(self, caller: Caller, message_id: int, envelope: memoryview) -> None:
        request = parse(pb.MetaChangeRequest, envelope)
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
                caller.answer_error(message_id, error)
                return
            assert isinstance(outcome, Outcome)
            response = pb.MetaChangeResponse(
                version=outcome.version,
                first_producer_id=outcome.next_producer_id,
                controller=outcome.controller,
                session_timeout_ms=self._sessions.timeout_ms,
            )
            caller.answer(message_id, calls.META_CHANGE.number, response.SerializeToString())

        self.machine.propose(request.entry, done)

    def _fetch(self, caller: Caller, message_id: int, envelope: memoryview) -> None:
        request = parse(pb.MetaFetchRequest, envelope)
        self.machine.check_serves()
        self._check_cluster(request.cluster_id)
        version, seen_version = self.machine.state.version, request.seen_version
        if seen_version == NO_VERSION or (
            seen_version < version and self.machine.feed.since(seen_version) is None
        ):
            self._confirm(caller, message_id, lambda: self._news.answer_whole(caller, message_id))
        elif seen_version < version:
            self._news.answer_since(caller, message_id, seen_version)
        else:
            deadline_ms = self._monotonic_ms() + min(request.max_wait_ms, _WAIT_MS_MAX)
            self._news.wait(caller, message_id, seen_version, deadline_ms)

    def _heartbeat(self, caller: Caller, message_id: int, envelope: memoryview) -> None:
        request = parse(pb.MetaHeartbeatRequest, envelope)
        self.machine.check_serves()
        self._check_cluster(request.cluster_id)
        if len(self._beats) >= META_CALLS_WAITING_MAX:
            raise Busy("Too many heartbeats wait here: try again later.")
        node = Node(request.broker, request.directory)
        if self._is_alive(node, request.place):
            self._sessions.hear(node, self._monotonic_ms())
        self._beats.append(_Beat(caller, message_id, node, request.place))

    def _leader(self, caller: Caller, message_id: int, envelope: memoryview) -> None:
        parse(pb.MetaLeaderRequest, envelope)
        leader = self._participant.leader
        is_empty = not self.machine.replica.log.next_offset
        response = pb.MetaLeaderResponse(leader=-1, is_empty=is_empty)
        if leader is not None and leader.broker in self._addresses:
            response.leader = leader.broker
            response.address = self._addresses[leader.broker]
            response.term = self._participant.term
        if self.machine.replica.is_leader:
            self._add_voters(response)
        caller.answer(message_id, calls.META_LEADER.number, response.SerializeToString())

    def _add_voters(self, response: pb.MetaLeaderResponse) -> None:
        participant, log = self._participant, self.machine.replica.log
        response.commit_offset = participant.commit_offset
        for node in sorted(participant.membership.voters):
            end_offset = participant.matches.get(node, log.next_offset)
            address = self._addresses[node.broker]
            response.voters.add(id=node.broker, address=address, end_offset=end_offset)

    def _snapshot(self, caller: Caller, message_id: int, envelope: memoryview) -> None:
        """Of any server: what is applied was committed, whoever leads."""
        request = parse(pb.MetaSnapshotRequest, envelope)
        machine = self.machine
        if machine.has_hole or machine.applied_offset < request.first_offset:
            raise RegistryUnavailable("This meta server is behind itself: ask another.")
        response = pb.MetaSnapshotResponse().SerializeToString()
        payload = encode_snapshot(machine.snapshot())
        caller.answer(message_id, calls.META_SNAPSHOT.number, response, payload)

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

    def _confirm(self, caller: Caller, message_id: int, then: Callable[[], None]) -> None:
        def done(outcome: Outcome | PenstockError) -> None:
            if isinstance(outcome, PenstockError):
                caller.answer_error(message_id, self._as_error(outcome))
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
                    beat.caller.answer_error(beat.message_id, self._as_error(outcome))
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
        beat.caller.answer(
            beat.message_id, calls.META_HEARTBEAT.number, response.SerializeToString()
        )

    def _send_away(self, error: PenstockError) -> None:
        self._news.send_away(error)
        beats, self._beats = self._beats, []
        for beat in beats:
            beat.caller.answer_error(beat.message_id, error)

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
