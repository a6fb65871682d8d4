"""The language of the scenarios in `share/`: commands to one shared group, and what it did.

    config members_max=2          before anything else, where it is not the default
    topics orders=4 payments=2    from now on there are these topics, with as many partitions
    join A orders,payments …      also the group's settings: lease_ms=5000 ordered_by_key=true …
    beat A …                      a heartbeat that says nothing; or epoch= topics= and settings
    leave A
    wait 5000                     time passes
    describe
    restart                       the broker reads its records again

An answer reads `A epoch 2: orders 0,1` or, where the partitions are not told, `A epoch 2`. The
records written follow in brackets.
"""

from __future__ import annotations

import json
from dataclasses import fields

from penstock.coordination.group.assignors.assignment import Assignment
from penstock.coordination.group.consumer.messages import TopicFacts
from penstock.coordination.group.effects import Effects
from penstock.coordination.group.shared.group import ShareGroup
from penstock.coordination.group.shared.messages import (
    ShareGroupConfig,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
)
from penstock.coordination.group.shared.settings import SharedFilter, SharedSettings, WantedSettings
from penstock.model.errors import PenstockError
from tests.kit.models.consumer_group import topic_id
from tests.kit.models.tickets import Named

_SETTINGS = {one.name for one in fields(WantedSettings)} | {"tags", "expression"}


class ShareScript:
    """One group, its records, and what the script remembers of its members."""

    def __init__(self) -> None:
        self._config = ShareGroupConfig()
        self.group = ShareGroup("g", self._config)
        self._topics: dict[str, TopicFacts] = {}
        self._records: dict[bytes, bytes] = {}
        self._epochs: dict[str, int] = {}
        self._now_ms = 0

    def interpret(self, command: str) -> str:
        verb, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        match verb:
            case "config":
                numbers = {name: int(text) for name, text in options.items()}
                self._config = ShareGroupConfig(**numbers)  # type: ignore[arg-type]
                self.group = ShareGroup("g", self._config)
                return "ok"
            case "topics":
                self._topics = {
                    name: TopicFacts(topic_id(name), int(count)) for name, count in options.items()
                }
                self.group.on_topics_changed()
                return "ok"
            case "join":
                options.setdefault("epoch", "0")
                if len(names) > 1:
                    options["topics"] = names[1]
                return self._beat(names[0], options)
            case "beat":
                return self._beat(names[0], options)
            case "leave":
                return self._beat(names[0], {"epoch": "-1"})
            case "wait":
                return self._wait(int(names[0]))
            case "describe":
                return self._describe()
            case "restart":
                self.group = ShareGroup.restore(
                    "g", self._config, self._records.items(), self._now_ms
                )
                return "ok"
        raise AssertionError(f"no command {command!r}")

    def _beat(self, member: str, options: dict[str, str]) -> str:
        topics = options.get("topics")
        request = ShareHeartbeat(
            member_id=member,
            member_epoch=int(options.get("epoch", self._epochs.get(member, 0))),
            new_incarnation=f"{self._now_ms} ms",
            client_id=options.get("client", ""),
            topic_names=None if topics is None else frozenset(topics.split(",")),
            settings=_wanted(options) if _SETTINGS & options.keys() else None,
        )
        effects = self._keep(self.group.heartbeat(Named("t"), request, self._topics, self._now_ms))
        [(_, answer)] = effects.answers
        if isinstance(answer, PenstockError):
            raise answer
        assert isinstance(answer, ShareHeartbeatAnswer)
        self._epochs[member] = answer.member_epoch
        text = f"{member} epoch {answer.member_epoch}"
        if answer.assignment is not None:
            text += f": {_show(answer.assignment)}"
        return text + _written(effects)

    def _wait(self, milliseconds: int) -> str:
        self._now_ms += milliseconds
        deadline_ms = self.group.deadline_ms
        effects = Effects()
        if deadline_ms is not None and deadline_ms <= self._now_ms:
            effects = self._keep(self.group.expire(self._now_ms))
        return f"now {self._now_ms}{_written(effects)}"

    def _describe(self) -> str:
        group = self.group.describe()
        lines = [
            f"{group.state.value}, epoch {group.epoch}, assignment epoch {group.assignment_epoch}, "
            f"{group.assignor}"
        ]
        differing = [
            f"{one.name} {getattr(group.settings, one.name)}"
            for one in fields(group.settings)
            if getattr(group.settings, one.name) != getattr(SharedSettings(), one.name)
        ]
        lines += [f"settings: {', '.join(differing)}"] if differing else []
        lines += [
            f"{member.member_id} epoch {member.member_epoch}: {_show(member.assigned)}"
            for member in sorted(group.members, key=lambda member: member.member_id)
        ]
        return "\n".join(lines)

    def _keep(self, effects: Effects) -> Effects:
        for record in effects.records:
            self._records.pop(record.key, None)
            if record.value is not None:
                self._records[record.key] = record.value
        return effects


def _wanted(options: dict[str, str]) -> WantedSettings:
    said: dict[str, object] = {
        name: options[name] == "true" if options[name] in ("true", "false") else int(options[name])
        for name in options.keys() & _SETTINGS - {"tags", "expression"}
    }
    tags = tuple(filter(None, options.get("tags", "").split(",")))
    said["filter"] = SharedFilter(tags=tags, expression=options.get("expression", ""))
    return WantedSettings(**said)  # type: ignore[arg-type]


def _show(assignment: Assignment) -> str:
    parts = (
        f"{bytes.fromhex(topic).rstrip(bytes(1)).decode()} {','.join(map(str, partitions))}"
        for topic, partitions in sorted(assignment.items())
    )
    return "; ".join(parts) or "nothing"


def _written(effects: Effects) -> str:
    names = []
    for record in effects.records:
        key = json.loads(record.key)
        name = " ".join([key["kind"].removeprefix("share-"), key.get("member", "")]).strip()
        names.append(name if record.value is not None else f"no {name}")
    return f" [{', '.join(names)}]" if names else ""
