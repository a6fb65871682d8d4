"""The language of the scenarios in `consumer/`: commands to one consumer group, and what it did.

    config members_max=2          before anything else, where it is not the default
    topics orders=4 payments=2    from now on there are these topics, with as many partitions
    join A orders,payments …      also pattern= instance= assignor= timeout= (of a rebalance, ms),
                                  claims=orders:0,1 and client= (what it calls itself)
    beat A …                      a heartbeat that says nothing; or owned= epoch= topics= assignor=
    ack A                         a heartbeat that owns what the member was told to own
    full A …                      a heartbeat that says everything, as after a lost answer
    leave A                       for good
    away A                        a static member leaves and will be back
    lose A                        the connection of the member has ended
    wait 5000                     time passes
    commit A [epoch]              may the member commit offsets?
    describe
    restart                       the broker reads its records again

An answer reads `A epoch 2: orders 0,1` or, where the assignment is not told, `A epoch 2`. The
records written follow in brackets.
"""

from __future__ import annotations

import json
from dataclasses import replace

from penstock.coordination.group.assignors.assignment import Assignment
from penstock.coordination.group.consumer.messages import (
    ConsumerGroupConfig,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    ManualPartitions,
)
from penstock.coordination.group.effects import Effects
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicId
from tests.kit.models.consumer_group import GroupWithRecords, topic_id
from tests.kit.models.tickets import Named


class ConsumerScript:
    """One group, and what the script remembers of its members."""

    def __init__(self) -> None:
        self._state = GroupWithRecords()
        self._epochs: dict[str, int] = {}
        self._told: dict[str, Assignment] = {}
        self._joins: dict[str, ConsumerHeartbeat] = {}

    def interpret(self, command: str) -> str:  # noqa: C901 - a table of commands
        verb, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        match verb:
            case "config":
                numbers = {name: int(text) for name, text in options.items()}
                self._state = GroupWithRecords(ConsumerGroupConfig(**numbers))  # type: ignore[arg-type]
                return "ok"
            case "topics":
                return self._set_topics(options)
            case "join":
                return self._join(names, options)
            case "beat" | "ack" | "full":
                return self._beat(verb, names[0], options)
            case "leave" | "away":
                epoch = -1 if verb == "leave" else -2
                return self._send(
                    ConsumerHeartbeat(
                        member_id=names[0],
                        member_epoch=epoch,
                        instance_id=self._instance(names[0]),
                    )
                )
            case "lose":
                self._state.group.lose(names[0], self._state.now_ms)
                return "ok"
            case "wait":
                written = _written(self._state.pass_time(int(names[0])))
                return f"now {self._state.now_ms}{written}"
            case "commit":
                epoch = int(names[1]) if len(names) > 1 else self._epochs[names[0]]
                self._state.group.check_commit(names[0], epoch)
                return "may commit"
            case "describe":
                return self._describe()
            case "restart":
                self._state.group = self._state.restored()
                return "ok"
        raise AssertionError(f"no command {command!r}")

    def _set_topics(self, options: dict[str, str]) -> str:
        for name in self._state.topics.keys() - options.keys():
            self._state.set_topic(name, 0)
        for name, count in options.items():
            self._state.set_topic(name, int(count))
        return "ok"

    def _join(self, names: list[str], options: dict[str, str]) -> str:
        request = ConsumerHeartbeat(
            member_id=names[0],
            member_epoch=0,
            instance_id=options.get("instance"),
            rebalance_timeout_ms=int(options.get("timeout", "60000")),
            topic_names=frozenset(names[1].split(",")) if len(names) > 1 else None,
            topic_pattern=options.get("pattern"),
            assignor=options.get("assignor"),
            client_id=options.get("client", ""),
            client_host="10.0.0.1" if "client" in options else "",
            claims=_parse_claims(options["claims"]) if "claims" in options else None,
            owned={},
        )
        self._joins[names[0]] = request
        return self._send(request)

    def _beat(self, verb: str, member: str, options: dict[str, str]) -> str:
        epoch = int(options.get("epoch", self._epochs.get(member, 0)))
        owned = _parse_assignment(options["owned"]) if "owned" in options else None
        if verb in ("ack", "full") and owned is None:
            owned = self._told[member]
        if verb == "full":
            return self._send(replace(self._joins[member], member_epoch=epoch, owned=owned))
        return self._send(
            ConsumerHeartbeat(
                member_id=member,
                member_epoch=epoch,
                instance_id=self._instance(member),
                topic_names=frozenset(options["topics"].split(","))
                if "topics" in options
                else None,
                assignor=options.get("assignor"),
                client_id=self._joins[member].client_id if member in self._joins else "",
                client_host=self._joins[member].client_host if member in self._joins else "",
                owned=owned,
            )
        )

    def _instance(self, member: str) -> str | None:
        return self._joins[member].instance_id if member in self._joins else None

    def _send(self, request: ConsumerHeartbeat) -> str:
        state = self._state
        effects = state.keep(
            state.group.heartbeat(Named("ticket"), request, state.topics, state.now_ms)
        )
        [(_, answer)] = effects.answers
        if isinstance(answer, PenstockError):
            raise answer
        assert isinstance(answer, ConsumerHeartbeatAnswer)
        self._epochs[answer.member_id] = answer.member_epoch
        text = f"{answer.member_id} epoch {answer.member_epoch}"
        if answer.assignment is not None:
            self._told[answer.member_id] = answer.assignment
            text += f": {self._show(answer.assignment)}"
        return text + _written(effects)

    def _describe(self) -> str:
        group = self._state.group.describe()
        lines = [
            f"{group.state.value}, epoch {group.epoch}, assignment epoch {group.assignment_epoch}, "
            f"{group.assignor}"
        ]
        lines += [
            f"{member.member_id} epoch {member.member_epoch}: {self._show(member.assigned)}"
            f" | target {self._show(member.target)}"
            for member in sorted(group.members, key=lambda member: member.member_id)
        ]
        return "\n".join(lines)

    def _show(self, assignment: Assignment) -> str:
        parts = (
            f"{bytes.fromhex(topic).rstrip(bytes(1)).decode()} {','.join(map(str, partitions))}"
            for topic, partitions in sorted(assignment.items())
        )
        return "; ".join(parts) or "nothing"


def _parse_assignment(text: str) -> Assignment:
    """orders:0,1/payments:0, or nothing"""
    assignment: dict[TopicId, tuple[int, ...]] = {}
    for part in filter(None, text.removeprefix("nothing").split("/")):
        topic, _, partitions = part.partition(":")
        assignment[topic_id(topic)] = tuple(map(int, partitions.split(",")))
    return assignment


def _parse_claims(text: str) -> ManualPartitions:
    """orders:0,1/payments:0, or nothing"""
    return tuple(
        sorted(
            (topic, int(partition))
            for part in filter(None, text.removeprefix("nothing").split("/"))
            for topic, _, partitions in [part.partition(":")]
            for partition in partitions.split(",")
        )
    )


def _written(effects: Effects) -> str:
    names = []
    for record in effects.records:
        key = json.loads(record.key)
        name = " ".join([key["kind"].removeprefix("consumer-"), key.get("member", "")]).strip()
        names.append(name if record.value is not None else f"no {name}")
    return f" [{', '.join(names)}]" if names else ""
