"""What can go wrong with a topic: its name, its settings, its partitions and where they are.

Not reading and writing a partition (`errors.partitions`). The invariant: codes 19 to 29.
"""

from __future__ import annotations

from penstock.model.errors.base import PenstockError


class TopicError(PenstockError):
    """Something is wrong with a topic."""

    code = 20


class UnknownTopic(TopicError):
    """There is no such topic or partition."""

    code = 21


class TopicExists(TopicError):
    """A topic of this name exists already."""

    code = 22


class InvalidTopic(TopicError):
    """The name cannot name a topic."""

    code = 23


class InvalidConfig(TopicError):
    """A setting is unknown or has a value it cannot take."""

    code = 24


class TooManyPartitions(TopicError):
    """The topic would have more partitions than the broker allows."""

    code = 25


class InvalidReplication(TopicError):
    """The topic cannot have so many replicas: there are not enough brokers."""

    code = 26


class PolicyViolation(TopicError):
    """The topic's settings do not allow this."""

    code = 19


class UnknownTopicId(TopicError):
    """There is no topic of this id: it was deleted, or made anew under its name."""

    code = 27


class InvalidPartitions(TopicError):
    """The topic cannot have this number of partitions."""

    code = 28


class InvalidPlacement(TopicError):
    """The partitions cannot be placed on these brokers."""

    code = 29
