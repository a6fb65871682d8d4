"""Names and numbers that identify things, each with its own type and its check."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NewType

from penstock.model.errors import InvalidTopic
from penstock.model.limits import TOPIC_NAME_LENGTH_MAX

BrokerId = NewType("BrokerId", int)
TopicId = NewType(
    "TopicId", str
)  # 32 hexadecimal digits; a topic deleted and made again gets a new one

# Topics that hold the broker's own state. Clients may read them, only the broker writes them.
INTERNAL_PREFIX: Final = "__"

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionId(NamedTuple):
    """One partition of one topic, between brokers: a topic made again under its name is another."""

    topic_id: TopicId
    partition: int


def check_topic_name(name: str) -> str:
    """Return the name if it may name a topic (Kafka's rules), else raise InvalidTopic."""
    if not name:
        raise InvalidTopic(
            "A topic name is empty: give it one to 249 letters, digits, '.', '_', '-'."
        )
    if name in (".", ".."):
        raise InvalidTopic(f"A topic cannot be named {name!r}: it would be a folder's own name.")
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        raise InvalidTopic(
            f"The topic name has {len(name)} characters: {TOPIC_NAME_LENGTH_MAX} is the limit."
        )
    if not _TOPIC_NAME.fullmatch(name):
        raise InvalidTopic(
            f"The topic name {name[:80]!r} has a character other than letters, digits and '._-'."
        )
    return name


def is_internal(topic: str) -> bool:
    return topic.startswith(INTERNAL_PREFIX)


def check_public(topic: str) -> None:
    """Refuse to change a topic of the broker's own."""
    if is_internal(topic):
        raise InvalidTopic(f"{topic!r} holds the broker's own state and cannot be changed.")
