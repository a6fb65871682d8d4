"""The language of the scenarios in tests/golden/raft: nodes, their logs, and messages on the way.

Nothing happens by itself: no time passes, and a message arrives when the script says so. What a
node saves and writes is durable at once, unless it is slow. A position is TERM@OFFSET: the record
before the offset is of the term. A log is the positions where its batches end.

    cluster 1 2 3 learners=4 spare=5    begins: voters, learners, and nodes that are neither
    log 2 1@10 2@20 start=1@5 term=4    what node 2 has before the story begins
    timeout 2                           the time comes for node 2 to do something
    deliver | deliver 1>2 | settle      what is on the way arrives: once, or until all is quiet
    lose | lose 1>2                     what is on the way does not arrive
    cut 1 2 | mend                      nothing goes between these nodes and the others
    propose 1 5                         node 1, which leads, writes a batch of five
    change 1 voters=1,2 learners=3      ... a membership
    transfer 1 2 | drop 1 20            hand leadership over | retention
    heartbeat 1 | wait 30               a leader's heartbeat and its answers | time passes
    slow 1 | flush 1                    what node 1 writes is durable only when it is flushed
    crash 1 | start 1                   what is not durable is lost

Each command puts out what was sent, and after a `=` what each node that changed is now.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

from penstock.raft.campaign import Campaign
from penstock.raft.core import Raft
from penstock.raft.leadership import Leadership
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import (
    AppendAnswer,
    AppendRequest,
    BatchPlace,
    CampaignRequest,
    Message,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from penstock.raft.state import SavedState, Timing
from penstock.raft.terms import TermHistory
from tests.kit.simulation.raft.disk import Batch, Disk

TIMING = Timing(election_ms=100, retry_ms=30)
DELAY_MS = 50
# Who sends it, to whom, what, and the bytes beside it.
OnTheWay: TypeAlias = tuple[Node, Node, Message, tuple[Batch, ...]]


class ScriptedNode:
    """A disk, and a node as long as it runs."""

    def __init__(self, script: RaftScript, node: Node, membership: Membership) -> None:
        self.node = node
        self.disk = Disk(node, membership)
        self.raft: Raft | None = None
        self.is_slow = False
        self._script = script
        self._shown = ""

    def start(self) -> None:
        self.raft = Raft(
            self.node,
            self.disk.saved,
            self.disk.found(),
            timing=TIMING,
            draw_delay_ms=lambda: DELAY_MS,
            now_ms=self._script.now_ms,
        )

    def crash(self) -> None:
        self.raft = None
        self.disk.truncate(self.disk.flushed_offset)

    def finish(self, raft: Raft, *written: Batch) -> None:
        """Save, write, flush, send."""
        self.save(raft)
        self.disk.append(written)
        if raft.leading is not None and raft.leading.is_noop_due:
            self.append(raft, 1, None)
        if not self.is_slow:
            self.flush(raft)
        if raft.leading is not None:
            self._send_log(raft, raft.leading)
        for node, message in raft.state.outbox:
            self._script.send(self.node, node, message)
        raft.state.outbox.clear()

    def save(self, raft: Raft) -> None:
        if raft.state.is_unsaved:
            raft.state.is_unsaved = False
            self.disk.saved = raft.state.saved

    def flush(self, raft: Raft) -> None:
        if self.disk.flushed_offset < self.disk.end_offset:
            self.disk.flushed_offset = self.disk.end_offset
            raft.durable(self.disk.end_offset, self._script.now_ms)

    def append(self, raft: Raft, size: int, membership: Membership | None) -> None:
        base_offset = raft.state.terms.end_offset
        place = BatchPlace(base_offset, base_offset + size, raft.state.term, membership)
        raft.written([place], self._script.now_ms)
        self.finish(raft, Batch(place, self._script.new_payload()))

    def _send_log(self, raft: Raft, leading: Leadership) -> None:
        for sending in leading.sendings(self._script.now_ms):
            batches = self.disk.read(sending.previous_offset, sending.end_offset)
            request = AppendRequest(
                term=raft.state.term,
                previous_term=sending.previous_term,
                previous_offset=sending.previous_offset,
                commit_offset=raft.state.commit_offset,
                batches=tuple(batch.place for batch in batches),
            )
            leading.sent(sending.node, request.end_offset, self._script.now_ms)
            self._script.send(self.node, sending.node, request, batches)

    def receive(self, sender: Node, message: Message, batches: tuple[Batch, ...]) -> None:
        raft = self.raft
        if raft is None:
            return
        now_ms = self._script.now_ms
        written: tuple[Batch, ...] = ()
        match message:
            case AppendRequest():
                written = self._append_as_planned(raft, sender, message, batches)
            case AppendAnswer():
                raft.on_append_answer(sender, message, now_ms)
            case ResetRequest():
                if raft.on_reset_request(sender, message, now_ms):
                    self.save(raft)
                    self.disk.reset(message.start_offset)
            case VoteRequest():
                raft.on_vote_request(sender, message, now_ms)
            case VoteAnswer():
                raft.on_vote_answer(sender, message, now_ms)
            case CampaignRequest():
                raft.on_campaign_request(sender, message, now_ms)
            case _:
                assert_never(message)
        self.finish(raft, *written)

    def _append_as_planned(
        self, raft: Raft, sender: Node, request: AppendRequest, batches: tuple[Batch, ...]
    ) -> tuple[Batch, ...]:
        plan = raft.plan_append(sender, request, self._script.now_ms)
        if plan is None:
            return ()
        if plan.truncate_to is not None:
            self.disk.truncate(plan.truncate_to)
            raft.state.truncated(plan.truncate_to)
        raft.written(plan.batches, self._script.now_ms)
        self.save(raft)
        raft.matched(request)
        return batches[plan.first :]

    def show_if_changed(self) -> str:
        shown = self._describe()
        is_news = shown != self._shown
        self._shown = shown
        return shown if is_news else ""

    def _describe(self) -> str:
        if self.raft is None:
            return f"= {self.node.broker} is down"
        state = self.raft.state
        match self.raft.part:
            case Leadership():
                part = f"leads term {state.term}"
            case Campaign(is_trial=True):
                part = f"tries, in term {state.term}"
            case Campaign():
                part = f"campaigns in term {state.term}"
            case following:
                leader = following.leader
                verb = "waits" if leader is None else f"follows {leader.broker}"
                part = f"{verb} in term {state.term}"
        places = [f"{batch.place.term}@{batch.place.end_offset}" for batch in self.disk.batches]
        if self.disk.start_offset:
            places.insert(0, f"({state.terms.start_term}@{self.disk.start_offset})")
        text = f"= {self.node.broker} {part}, log {' '.join(places) or 'empty'}"
        text += f", commit {state.commit_offset}"
        return text + f", {_members(state.membership)}"


class RaftScript:
    """The nodes and what is on the way between them; `interpret` is for `run_golden`."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._nodes: dict[int, ScriptedNode] = {}
        self._on_the_way: list[OnTheWay] = []
        self._cut: set[int] = set()
        self._payloads = 0
        self._output: list[str] = []

    def interpret(self, command: str) -> str:
        self._output = []
        for line in command.splitlines():
            verb, *words = line.split()
            options = dict(word.split("=", 1) for word in words if "=" in word)
            names = [word for word in words if "=" not in word]
            self._do(verb, names, options)
        shown = [node.show_if_changed() for node in self._nodes.values()]
        return "\n".join([*self._output, *filter(None, shown)])

    def new_payload(self) -> int:
        self._payloads += 1
        return self._payloads

    def send(
        self, sender: Node, receiver: Node, message: Message, batches: tuple[Batch, ...] = ()
    ) -> None:
        is_cut = (sender.broker in self._cut) != (receiver.broker in self._cut)
        lost = " (cut)" if is_cut else ""
        self._output.append(f"{sender.broker}>{receiver.broker} {_text(message)}{lost}")
        if not is_cut:
            self._on_the_way.append((sender, receiver, message, batches))

    def _do(  # noqa: C901 - a table of commands
        self, verb: str, names: list[str], options: dict[str, str]
    ) -> None:
        match verb:
            case "cluster":
                self._begin([int(name) for name in names], options)
            case "log":
                self._fill(self._nodes[int(names[0])], names[1:], options)
            case "deliver":
                self._deliver(names)
            case "settle":
                while self._on_the_way:
                    self._deliver([])
            case "lose":
                self._take(names)
            case "cut":
                self._cut = {int(name) for name in names}
            case "mend":
                self._cut = set()
            case "wait":
                self.now_ms += int(names[0])
                for node in self._nodes.values():
                    if node.raft is not None:
                        node.finish(node.raft)
            case _:
                self._tell(verb, self._nodes[int(names[0])], names[1:], options)

    def _tell(  # noqa: C901 - a table of commands
        self, verb: str, node: ScriptedNode, words: list[str], options: dict[str, str]
    ) -> None:
        if verb == "start":
            node.start()
            return
        raft = node.raft
        assert raft is not None, f"{node.node} is down"
        match verb:
            case "timeout":
                self.now_ms = max(self.now_ms, raft.deadline_ms)
                raft.on_time(self.now_ms)
            case "propose":
                node.append(raft, int(words[0]), None)
            case "change":
                membership = _membership(options["voters"], options.get("learners", ""))
                if raft.leading is None or not raft.leading.may_change(membership):
                    self._output.append("not now")
                else:
                    node.append(raft, 1, membership)
            case "transfer":
                if not raft.transfer(_node(words[0]), self.now_ms):
                    self._output.append("cannot be")
            case "drop":
                node.disk.drop_before(int(words[0]))
                raft.state.dropped_before(int(words[0]))
            case "heartbeat":
                self._heartbeat(node, raft)
            case "slow":
                node.is_slow = True
            case "flush":
                node.flush(raft)
            case "crash":
                node.crash()
                return
            case _:
                raise AssertionError(f"no such command: {verb}")
        node.finish(raft)

    def _begin(self, voters: list[int], options: dict[str, str]) -> None:
        learners = options.get("learners", "")
        membership = _membership(",".join(map(str, voters)), learners)
        spare = frozenset(map(_node, filter(None, options.get("spare", "").split(","))))
        for node in sorted(membership.nodes | spare):
            self._nodes[node.broker] = ScriptedNode(self, node, membership)
            self._nodes[node.broker].start()

    def _fill(self, node: ScriptedNode, places: list[str], options: dict[str, str]) -> None:
        start_term, start_offset = map(int, options.get("start", "0@0").split("@"))
        node.disk.reset(start_offset)
        terms = TermHistory(start_offset, start_term)
        for term, end_offset in (map(int, place.split("@")) for place in places):
            place = BatchPlace(terms.end_offset, end_offset, term)
            # The same position is the same batch, in whatever log it is.
            node.disk.append([Batch(place, -term * 1_000_000 - end_offset)])
            terms.extend(term, end_offset)
        node.disk.saved = SavedState(
            term=int(options.get("term", terms.last_term)),
            vote=_node(options["vote"]) if "vote" in options else None,
            terms=terms.begun,
            memberships=node.disk.saved.memberships,
        )
        node.start()

    def _take(self, routes: list[str]) -> list[OnTheWay]:
        """What is on the way on these routes, or on all."""
        taken: list[OnTheWay] = []
        left: list[OnTheWay] = []
        for sending in self._on_the_way:
            route = f"{sending[0].broker}>{sending[1].broker}"
            (taken if not routes or route in routes else left).append(sending)
        self._on_the_way = left
        return taken

    def _deliver(self, routes: list[str]) -> None:
        for sender, receiver, message, batches in self._take(routes):
            self._nodes[receiver.broker].receive(sender, message, batches)

    def _heartbeat(self, leader: ScriptedNode, raft: Raft) -> None:
        assert raft.leading is not None
        for node in raft.leading.followers:
            other = self._nodes[node.broker]
            is_cut = (node.broker in self._cut) != (leader.node.broker in self._cut)
            if other.raft is not None and not is_cut:
                state = raft.state
                other.raft.follow_commit(leader.node, state.term, state.commit_offset, self.now_ms)
                other.finish(other.raft)
                raft.hear(node, self.now_ms)


def _node(name: str) -> Node:
    return Node(int(name), 1)


def _membership(voters: str, learners: str) -> Membership:
    sets = [frozenset(map(_node, filter(None, names.split(",")))) for names in (voters, learners)]
    return Membership(*sets)


def _members(membership: Membership) -> str:
    voters, learners = (
        " ".join(str(node.broker) for node in sorted(nodes))
        for nodes in (membership.voters, membership.learners)
    )
    return f"voters {voters}" + (f", learners {learners}" if learners else "")


def _text(message: Message) -> str:
    match message:
        case VoteRequest():
            kind = "would you vote" if message.is_trial else "vote"
            transfer = ", as the leader asked" if message.is_transfer else ""
            position = f"{message.last_term}@{message.end_offset}"
            return f"{kind} for me in term {message.term}? I have {position}{transfer}"
        case VoteAnswer():
            answer = "yes" if message.is_granted else "no"
            return f"{'I would' if message.is_trial else 'vote'}: {answer}, term {message.term}"
        case AppendRequest():
            position = f"{message.previous_term}@{message.previous_offset}"
            batches = "".join(
                f" {batch.term}@{batch.end_offset}"
                + (f"({_members(batch.membership)})" if batch.membership else "")
                for batch in message.batches
            )
            return f"after {position}:{batches or ' nothing'}, commit {message.commit_offset}"
        case AppendAnswer(is_matching=True):
            return f"I have up to {message.end_offset}"
        case AppendAnswer(asked_offset=-1):
            return f"it is term {message.term}"
        case AppendAnswer():
            mine = f"{message.last_term}@{message.end_offset}"
            return f"I have not what you have at {message.asked_offset}, but {mine}"
        case ResetRequest():
            start = f"{message.start_term}@{message.start_offset}"
            return f"begin anew after {start}, {_members(message.membership)}"
        case CampaignRequest():
            return "campaign"
        case _:
            assert_never(message)
