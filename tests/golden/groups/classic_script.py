"""The language of the scenarios in tests/golden/groups/classic: clients, time, restarts.

A client remembers what it was told (its id, its generation) and says it in its next request, as
real ones do; options say something else. Time is in ms; `time 3000` lets it pass, step by step.

    config delay=3000 members=10           begins a group
    NAME join [topics=a,b] [protocols=range,sticky] [instance=I] [id=ID] [session=] [rebalance=]
              [version=3|4|9] [type=consumer]
    NAME sync [NAME=text ...] [protocol=] [generation=] [id=]
    NAME heartbeat | commit [generation=] [id=] [instance=]
    leave NAME ... | instance=I
    time MS | describe | topics | restart | delete
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.messages import (
    GroupConfig,
    HeartbeatAnswer,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    LeavingMember,
    MemberIdGiven,
    SyncAnswer,
    SyncRequest,
)
from penstock.coordination.group.classic.record import decode_group
from penstock.coordination.group.classic.subscription import topics_of
from penstock.coordination.group.effects import Effects
from penstock.model.errors import PenstockError, UnknownMember
from tests.kit.models.tickets import Named


def subscription(topics: str) -> bytes:
    """Kafka's ConsumerProtocolSubscription, version 0."""
    names = [name.encode() for name in topics.split(",") if name]
    listed = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", 0, len(names)) + listed + struct.pack(">i", -1)


@dataclass
class ScriptedClient:
    """What a consumer knows of itself."""

    name: str
    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    starts: int = 0


class ClassicScript:
    """One group and its clients; `interpret` is for `run_golden`."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.config = GroupConfig()
        self.group = ClassicGroup("g", self.config)
        self.clients: dict[str, ScriptedClient] = {}
        self.waiting: list[str] = []
        self.last_record: bytes | None = None
        self.lines: list[str] = []

    def interpret(self, command: str) -> str:
        self.lines = []
        for line in command.splitlines():
            verb, *words = line.split()
            options = dict(word.split("=", 1) for word in words if "=" in word)
            match verb:
                case "config":
                    self._config(options)
                case "time":
                    self._pass_time(int(words[0]))
                case "leave":
                    self._leave(words)
                case "describe":
                    self._describe()
                case "topics":
                    topics = self.group.subscribed_topics()
                    self.lines.append("unknown" if topics is None else " ".join(sorted(topics)))
                case "restart":
                    self._restart()
                case "delete":
                    self._apply(self.group.delete())
                    self.last_record = None
                case _:
                    self._request(verb, words[0], options)
        return "\n".join([*self.lines, self._summary()])

    # --- commands ------------------------------------------------------------------------------

    def _config(self, options: dict[str, str]) -> None:
        self.config = GroupConfig(
            initial_rebalance_delay_ms=int(options.get("delay", "3000")),
            members_max=int(options.get("members", "1000")),
        )
        self.group = ClassicGroup("g", self.config)
        self.clients.clear()
        self.waiting.clear()
        self.last_record = None

    def _pass_time(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while (deadline_ms := self.group.deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            before = len(self.lines)
            self._apply(self.group.expire(self.now_ms))
            if len(self.lines) > before:
                passed_ms = duration_ms - (until_ms - self.now_ms)
                self.lines.insert(before, f"after {passed_ms} ms")
        self.now_ms = until_ms

    def _leave(self, words: list[str]) -> None:
        leaving = []
        for word in words:
            if word.startswith("instance="):
                leaving.append(LeavingMember(instance_id=word.removeprefix("instance=")))
            else:
                client = self._client(word)
                leaving.append(
                    LeavingMember(member_id=client.member_id, instance_id=client.instance_id)
                )
        request = LeaveRequest(members=tuple(leaving))
        self._apply(self.group.leave(Named(self._ticket("leave")), request, self.now_ms))

    def _describe(self) -> None:
        described = self.group.describe()
        kind = f"{described.protocol_type or '-'}/{described.protocol or '-'}"
        self.lines.append(f"{described.name} {described.state.value} {kind}")
        for member in described.members:
            topics = ",".join(sorted(topics_of(member.metadata) or ())) or "-"
            assigned = member.assignment.decode() or "-"
            instance = member.instance_id or "-"
            self.lines.append(
                f"  {member.member_id} instance {instance} client {member.client_id} "
                f"at {member.client_host}: topics {topics}, assigned {assigned}"
            )

    def _restart(self) -> None:
        self.waiting.clear()
        if self.last_record is None:
            self.group = ClassicGroup("g", self.config)
        else:
            self.group = ClassicGroup.restore("g", self.config, self.last_record, self.now_ms)

    def _request(self, name: str, verb: str, options: dict[str, str]) -> None:
        client = self._client(name)
        if "id" in options:
            client.member_id = options["id"].replace("none", "")
        client.instance_id = options.get("instance", client.instance_id)
        generation = int(options.get("generation", client.generation))
        match verb:
            case "join":
                ticket = self._ticket(f"{name}.join")
                request = self._join_request(client, options)
                self._apply(self.group.join(Named(ticket), request, self.now_ms))
            case "sync":
                self._sync(client, generation, options)
            case "heartbeat":
                heartbeat = HeartbeatRequest(
                    member_id=client.member_id,
                    generation=generation,
                    instance_id=client.instance_id,
                )
                ticket = self._ticket(f"{name}.heartbeat")
                self._apply(self.group.heartbeat(Named(ticket), heartbeat, self.now_ms))
            case "commit":
                self._commit(client, generation)
            case _:
                raise AssertionError(f"{name} {verb}?")

    def _join_request(self, client: ScriptedClient, options: dict[str, str]) -> JoinRequest:
        version = int(options.get("version", "3"))
        client.starts += not client.member_id
        metadata = subscription(options.get("topics", "t"))
        return JoinRequest(
            member_id=client.member_id,
            new_member_id=f"{client.name}-{client.starts}",
            instance_id=client.instance_id,
            client_id=client.name,
            client_host="/10.0.0.1",
            session_timeout_ms=int(options.get("session", "10000")),
            rebalance_timeout_ms=int(options.get("rebalance", "60000")),
            protocol_type=options.get("type", "consumer"),
            protocols=tuple(
                (name, metadata)
                for name in options.get("protocols", "range").split(",")
                if name != "none"
            ),
            requires_known_member_id=version >= 4,
            supports_skipping_assignment=version >= 9,
        )

    def _sync(self, client: ScriptedClient, generation: int, options: dict[str, str]) -> None:
        request = SyncRequest(
            member_id=client.member_id,
            generation=generation,
            instance_id=client.instance_id,
            protocol=options.get("protocol"),
            assignments={
                self.clients[name].member_id: assigned.encode()
                for name, assigned in options.items()
                if name in self.clients
            },
        )
        ticket = self._ticket(f"{client.name}.sync")
        self._apply(self.group.sync(Named(ticket), request, self.now_ms))

    def _commit(self, client: ScriptedClient, generation: int) -> None:
        outcome = "ok"
        try:
            self.group.check_commit(client.member_id, client.instance_id, generation, self.now_ms)
        except PenstockError as error:
            outcome = type(error).__name__
        self.lines.append(f"{client.name}.commit -> {outcome}")

    # --- what came of it -----------------------------------------------------------------------

    def _apply(self, effects: Effects) -> None:
        for record in effects.records:
            self.last_record = record.value
            self.lines.append(f"record {self._told_record(record.value)}")
        for ticket, answer in effects.answers:
            assert isinstance(ticket, str)
            self.waiting.remove(ticket)
            self.lines.append(f"{ticket} -> {self._told_answer(answer)}")
            self._learn(ticket.split(".")[0], answer)

    def _learn(self, name: str, answer: object) -> None:
        client = self._client(name)
        match answer:
            case JoinAnswer():
                client.member_id, client.generation = answer.member_id, answer.generation
            case MemberIdGiven():
                client.member_id = answer.member_id
            case UnknownMember():
                client.member_id, client.generation = "", -1
            case _:
                pass

    @staticmethod
    def _told_record(value: bytes | None) -> str:
        if value is None:
            return "deleted"
        snapshot = decode_group("g", value)
        members = [f"{name}={part.decode() or '-'}" for name, part in snapshot.assignments.items()]
        return (
            f"generation {snapshot.generation}, {snapshot.protocol_type}/{snapshot.protocol}, "
            f"leader {snapshot.leader}, members {' '.join(members) or '-'}"
        )

    @staticmethod
    def _told_answer(answer: object) -> str:
        match answer:
            case PenstockError():
                return type(answer).__name__
            case MemberIdGiven():
                return f"join as {answer.member_id}"
            case JoinAnswer():
                told = [f"{answer.member_id} in generation {answer.generation}, {answer.protocol}"]
                told.append(f"leader {answer.leader}")
                if answer.members:
                    members = [
                        f"{member.member_id}({','.join(sorted(topics_of(member.metadata) or ()))})"
                        for member in answer.members
                    ]
                    told.append(f"members {' '.join(members)}")
                if answer.skip_assignment:
                    told.append("skip the assignment")
                return ", ".join(told)
            case SyncAnswer():
                return f"assigned {answer.assignment.decode() or '-'}"
            case HeartbeatAnswer():
                return "ok"
            case LeaveAnswer():
                return " ".join(
                    f"{result.member_id or result.instance_id}:"
                    + (type(result.error).__name__ if result.error else "ok")
                    for result in answer.results
                )
        raise AssertionError(answer)

    def _summary(self) -> str:
        group = self.group
        members = [member.member_id for member in group.describe().members]
        parts = [f"= {group.state.value} {group.generation}: {' '.join(members) or '-'}"]
        if self.waiting:
            parts.append(f"waiting {' '.join(self.waiting)}")
        if group.state.value != "Dead" and group.deadline_ms is not None:
            parts.append(f"wakes in {group.deadline_ms - self.now_ms}")
        return "; ".join(parts)

    # --- helpers -------------------------------------------------------------------------------

    def _client(self, name: str) -> ScriptedClient:
        return self.clients.setdefault(name, ScriptedClient(name))

    def _ticket(self, label: str) -> str:
        ticket = label
        while ticket in self.waiting:
            ticket += "'"
        self.waiting.append(ticket)
        return ticket
