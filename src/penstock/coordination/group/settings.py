"""What operators decide for single groups, by Kafka's names (KIP-848, KIP-932, KIP-1240, KIP-1191).

Not what the groups make of it. A group need not be there to have settings, and what is set outlives
it, as in Kafka. The invariant: what is kept is known and within its bounds, so that a machine can
take it as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from typing import Final

from penstock.coordination.group.consumer.messages import ConsumerGroupConfig
from penstock.coordination.group.duration import duration_ms
from penstock.coordination.group.effects import Record
from penstock.coordination.group.records import SETTINGS_KIND
from penstock.coordination.group.shared.messages import ShareGroupConfig
from penstock.model.dead_letter import dead_letter_topic
from penstock.model.errors import Busy, CorruptLog, InvalidConfig
from penstock.model.limits import ATTEMPTS_MAX_DEFAULT, GROUPS_MAX, LEASE_MS_DEFAULT

_BY_DURATION: Final = "by_duration:"
# Milliseconds as a Kafka client could say them.
_INT32_MAX: Final = 2**31 - 1
# Of what somebody said, in a message to them.
_SHOWN_MAX: Final = 100


class ValueType(Enum):
    INT = "int"
    STRING = "string"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSetting:
    """One that a group may have."""

    name: str
    type: ValueType
    documentation: str
    default: str
    broker_name: str = ""
    """What a broker's default for it is called, where Kafka has one."""
    low: int = 0
    high: int = _INT32_MAX
    """Kafka's bounds for numbers. The broker's own default is within them, whatever it is."""
    bounds_name: str = ""
    """What Kafka calls the bounds, with {} for min or max."""
    words: tuple[str, ...] = ()
    """The values that text may have; none: anything that `parse` takes."""
    only_why: str = ""
    """Why there are no other words, as a sentence."""


def _number(
    name: str, default: int, low: int, high: int, documentation: str, kept: bool = False
) -> GroupSetting:
    kind, _, rest = name.partition(".")
    why = " Kept without effect: groups are assigned anew at once." if kept else ""
    return GroupSetting(
        name=name,
        type=ValueType.INT,
        documentation=documentation + why,
        default=str(default),
        broker_name=f"group.{kind}.{rest}",
        low=low,
        high=high,
        bounds_name=f"group.{kind}.{{}}.{rest}",
    )


SESSION_CONSUMER: Final = "consumer.session.timeout.ms"
HEARTBEAT_CONSUMER: Final = "consumer.heartbeat.interval.ms"
SESSION_SHARE: Final = "share.session.timeout.ms"
HEARTBEAT_SHARE: Final = "share.heartbeat.interval.ms"
_LOCK_DURATION: Final = "share.record.lock.duration.ms"
_DELIVERY_COUNT: Final = "share.delivery.count.limit"
_OFFSET_RESET: Final = "share.auto.offset.reset"
_DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"

_SESSION: Final = "A member that is silent for longer is removed."
_HEARTBEAT: Final = "How often members are told to send heartbeats."
GROUP_SETTINGS: Final = (
    _number(SESSION_CONSUMER, 45_000, 45_000, 60_000, _SESSION),
    _number(HEARTBEAT_CONSUMER, 5_000, 5_000, 15_000, _HEARTBEAT),
    _number("consumer.assignment.interval.ms", 0, 0, 15_000, "Between two assignments.", kept=True),
    _number(SESSION_SHARE, 45_000, 45_000, 60_000, _SESSION),
    _number(HEARTBEAT_SHARE, 5_000, 5_000, 15_000, _HEARTBEAT),
    _number("share.assignment.interval.ms", 0, 0, 15_000, "Between two assignments.", kept=True),
    _number(
        _LOCK_DURATION,
        LEASE_MS_DEFAULT,
        15_000,
        60_000,
        "How long a message is one member's: its lease.",
    ),
    _number(
        _DELIVERY_COUNT,
        ATTEMPTS_MAX_DEFAULT,
        2,
        10,
        "After so many attempts that failed a message is a dead letter.",
    ),
    GroupSetting(
        name="share.partition.max.record.locks",
        type=ValueType.INT,
        documentation="Kept without effect: members hold what the window of a partition allows.",
        default="2000",
        broker_name="group.share.partition.max.record.locks",
        low=100,
        high=4_000,
        bounds_name="group.share.{}.partition.max.record.locks",
    ),
    GroupSetting(
        name=_OFFSET_RESET,
        type=ValueType.STRING,
        documentation="Where the group begins in a partition that it has no place in: earliest, "
        "latest, or by_duration: and how long ago, as in by_duration:PT1H.",
        default="earliest",
    ),
    GroupSetting(
        name="share.isolation.level",
        type=ValueType.STRING,
        documentation="Kept without effect: nothing is ever aborted, so both are the same.",
        default="read_uncommitted",
        words=("read_committed", "read_uncommitted"),
    ),
    GroupSetting(
        name="share.renew.acknowledge.enable",
        type=ValueType.BOOLEAN,
        documentation="Whether members may renew what they hold (KIP-1222): always.",
        default="true",
        words=("true",),
        only_why="members may always renew what they hold",
    ),
    GroupSetting(
        name=_DEAD_LETTER_TOPIC,
        type=ValueType.STRING,
        documentation="The topic of the group's dead letters (KIP-1191): dead-letters. and its "
        "name.",
        default="",
    ),
    GroupSetting(
        name="errors.deadletterqueue.copy.record.enable",
        type=ValueType.BOOLEAN,
        documentation="Whether a dead letter has the message's key and value (KIP-1191): always.",
        default="true",
        words=("true",),
        only_why="a dead letter always has the message in it",
    ),
)
_BY_NAME: Final = {row.name: row for row in GROUP_SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettingChange:
    """What an operator asks for."""

    settings: Mapping[str, str]
    removed: tuple[str, ...] = ()
    """To be the broker's again."""
    replaces: bool = False
    """What is not named is the broker's again."""


class GroupSettings:
    """Of all groups, by their names."""

    def __init__(self, consumer: ConsumerGroupConfig, share: ShareGroupConfig) -> None:
        """What holds for groups that have no settings of their own."""
        self._consumer = consumer
        self._share = share
        self._groups: dict[str, dict[str, str]] = {}

    def groups(self) -> list[str]:
        """Those that have settings."""
        return sorted(self._groups)

    def of(self, group: str) -> Mapping[str, str]:
        """What is set for it."""
        return self._groups.get(group, {})

    def defaults(self, group: str) -> dict[str, str]:
        """What holds for it where nothing is set, of every setting that there is."""
        return {row.name: row.default for row in GROUP_SETTINGS} | {
            SESSION_CONSUMER: str(self._consumer.session_timeout_ms),
            HEARTBEAT_CONSUMER: str(self._consumer.heartbeat_interval_ms),
            SESSION_SHARE: str(self._share.session_timeout_ms),
            HEARTBEAT_SHARE: str(self._share.heartbeat_interval_ms),
            _DEAD_LETTER_TOPIC: dead_letter_topic(group),
        }

    # --- what they mean ------------------------------------------------------------------------

    def consumer_config(self, group: str) -> ConsumerGroupConfig:
        own = self.of(group)
        if not own:
            return self._consumer
        common = self._consumer
        return replace(
            common,
            session_timeout_ms=int(own.get(SESSION_CONSUMER, common.session_timeout_ms)),
            heartbeat_interval_ms=int(own.get(HEARTBEAT_CONSUMER, common.heartbeat_interval_ms)),
        )

    def share_config(self, group: str) -> ShareGroupConfig:
        own = self.of(group)
        if not own:
            return self._share
        decided: dict[str, int | bool] = {}
        if _LOCK_DURATION in own:
            decided["lease_ms"] = int(own[_LOCK_DURATION])
        if _DELIVERY_COUNT in own:
            decided["attempts_max"] = int(own[_DELIVERY_COUNT])
        start = own.get(_OFFSET_RESET)
        if start is not None:
            decided["start_latest"] = start == "latest"
        return replace(
            self._share,
            session_timeout_ms=int(own.get(SESSION_SHARE, self._share.session_timeout_ms)),
            heartbeat_interval_ms=int(own.get(HEARTBEAT_SHARE, self._share.heartbeat_interval_ms)),
            keeps_interval=HEARTBEAT_SHARE in own,
            decided=decided,
            # Longer ago than can be told, which was taken once, is the earliest.
            start_ago_ms=_ago_ms(start) if start else None,
        )

    # --- changed -------------------------------------------------------------------------------

    def changed(self, group: str, change: GroupSettingChange) -> dict[str, str]:
        """What the group would have; InvalidConfig if that makes no sense."""
        for name in change.removed:
            _row(name)
        kept = {} if change.replaces else dict(self.of(group))
        for name in change.removed:
            kept.pop(name, None)
        defaults = self.defaults(group)
        kept |= {
            name: _parsed(group, name, text, defaults) for name, text in change.settings.items()
        }
        _check_pairs(defaults | kept)
        return kept

    def put(self, group: str, settings: Mapping[str, str]) -> list[Record]:
        if not settings:
            if self._groups.pop(group, None) is None:
                return []
            return [Record(key=_key(group), value=None)]
        if group not in self._groups and len(self._groups) >= GROUPS_MAX:
            raise Busy(f"The broker keeps settings of {GROUPS_MAX} groups and no more.")
        self._groups[group] = dict(settings)
        return [Record(key=_key(group), value=_value(settings))]

    # --- records -------------------------------------------------------------------------------

    def apply(self, group: str, value: bytes | None) -> None:
        """Take in one record of the internal topic."""
        if value is None:
            self._groups.pop(group, None)
            return
        try:
            what = {str(name): str(text) for name, text in json.loads(value).items()}
            # One that this version does not know is another version's. Bounds are for who sets
            # something: they follow the broker's defaults, which may be others now.
            self._groups[group] = {
                name: str(int(text)) if _BY_NAME[name].type is ValueType.INT else text
                for name, text in what.items()
                if name in _BY_NAME
            }
        except (ValueError, AttributeError) as error:
            raise CorruptLog(
                f"The settings of group {group!r} cannot be read: {error!r}."
            ) from error

    def records(self) -> list[tuple[bytes, bytes]]:
        """Keys and values that lead to this from nothing."""
        return [(_key(group), _value(settings)) for group, settings in self._groups.items()]


def _row(name: str) -> GroupSetting:
    row = _BY_NAME.get(name)
    if row is not None:
        return row
    name = name[:_SHOWN_MAX]
    if name.startswith("streams."):
        raise InvalidConfig(f"{name} is a setting of streams groups, which are not served here.")
    near = get_close_matches(name, _BY_NAME, n=1)
    hint = f". Did you mean {near[0]}?" if near else ""
    # Kafka's own words, which tools and people know.
    raise InvalidConfig(f"Unknown group config name: {name}{hint}")


def _parsed(group: str, name: str, text: str, defaults: Mapping[str, str]) -> str:
    """The value as it is kept. InvalidConfig."""
    row, text = _row(name), text.strip()
    shown = text[:_SHOWN_MAX]
    if row.type is ValueType.INT:
        return str(_parsed_number(row, text, int(defaults[name])))
    if row.type is ValueType.BOOLEAN:
        text = text.lower()
    if name == _OFFSET_RESET:
        if text not in ("earliest", "latest") and _ago_ms(text) is None:
            raise InvalidConfig(
                f"Invalid value `{shown}` for configuration {name}. The value must be either "
                "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            )
    elif name == _DEAD_LETTER_TOPIC:
        if text != defaults[name]:
            raise InvalidConfig(
                f"{name} can only be {defaults[name]!r}: there are the dead letters of group "
                f"{group!r}."
            )
    elif text not in row.words:
        why = f": {row.only_why}" if row.only_why else ""
        raise InvalidConfig(f"{name} is {shown!r}: it can only be {' or '.join(row.words)}{why}.")
    return text


def _parsed_number(row: GroupSetting, text: str, default: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise InvalidConfig(
            f"Invalid value {text[:_SHOWN_MAX]} for configuration {row.name}: it must be a whole "
            "number."
        ) from None
    for bound, limit, words, is_beyond in (
        ("min", min(row.low, default), "greater", int.__lt__),
        ("max", max(row.high, default), "less", int.__gt__),
    ):
        if is_beyond(number, limit):
            raise InvalidConfig(
                f"{row.name} must be {words} than or equal to {row.bounds_name.format(bound)}, "
                f"which is {limit}."
            )
    return number


def _check_pairs(values: Mapping[str, str]) -> None:
    for session, heartbeat in (
        (SESSION_CONSUMER, HEARTBEAT_CONSUMER),
        (SESSION_SHARE, HEARTBEAT_SHARE),
    ):
        if int(values[session]) <= int(values[heartbeat]):
            raise InvalidConfig(f"{session} must be greater than {heartbeat}.")


def _ago_ms(start: str) -> int | None:
    """How long ago the group is to begin, if it says that."""
    if not start.startswith(_BY_DURATION):
        return None
    return duration_ms(start.removeprefix(_BY_DURATION))


def _key(group: str) -> bytes:
    return json.dumps({"kind": SETTINGS_KIND, "group": group}).encode()


def _value(settings: Mapping[str, str]) -> bytes:
    return json.dumps(dict(sorted(settings.items()))).encode()
