"""What the table of calls says of each: who may make it, what it needs, what it costs.

Not the rows (`table`). Dispatch reads the handlers; security, quotas, metrics and the audit are to
read the other columns. The invariant: a row says it for every request of its call, so what depends
on the request is for its handler to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from penstock.broker.call import Call
from penstock.protocol.calls import CallType
from penstock.protocol.kafka.apis import Api


class Turn(Enum):
    """When a handler is done with a call."""

    INLINE = auto()
    """In the turn in which it came, unless it keeps the call and answers later by itself."""
    WAITING = auto()
    """In a task of its own, by what it returns in the end."""
    EITHER = auto()
    """The one or the other, as the request has it."""


class Audience(Enum):
    """Who makes the call."""

    CLIENT = auto()
    BROKER = auto()
    ANYBODY = auto()


class Resource(Enum):
    """Of what something is needed, as in Kafka's model of permissions."""

    TOPIC = auto()
    GROUP = auto()
    CLUSTER = auto()
    TRANSACTIONAL_ID = auto()
    DELEGATION_TOKEN = auto()


class Operation(Enum):
    """What is needed of it, by Kafka's names."""

    READ = auto()
    WRITE = auto()
    CREATE = auto()
    DELETE = auto()
    ALTER = auto()
    DESCRIBE = auto()
    CLUSTER_ACTION = auto()
    DESCRIBE_CONFIGS = auto()
    ALTER_CONFIGS = auto()


class Need(NamedTuple):
    """One permission: of each resource of that kind which the request names."""

    resource: Resource
    operation: Operation


class Cost(Enum):
    """What it takes of the broker."""

    CHEAP = auto()
    """A look at what is in memory, or one small record."""
    DATA = auto()
    """As much as there are messages in it."""
    ADMIN = auto()
    """A change that the whole cluster hears of."""
    HEAVY = auto()
    """Work that grows with the cluster, or with what is kept, rather than with the request."""


Needs = tuple[Need, ...]
# Requests and responses differ from call to call, so the table cannot name them.
Handler = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class NativeRow:
    """A call of our own protocol."""

    kind: CallType[Any, Any]
    handler: Handler
    turn: Turn
    audience: Audience
    needs: Needs
    cost: Cost
    call: type[Call[Any]] = Call
    is_early: bool = False
    """Whether it is answered while the broker is starting: its handler gets the `Ground`, not the
    `Context`, which is not there yet."""


@dataclass(frozen=True)
class KafkaRow:
    """One of Kafka's APIs."""

    api: Api
    module: str
    """Of `broker.kafka.handlers`; the handler is called as its API."""
    turn: Turn
    needs: Needs
    cost: Cost
    audience: Audience = Audience.CLIENT

    @cached_property
    def handler(self) -> Handler:
        """Imported for its first request: a broker without Kafka clients should not wait for all
        of them to start."""
        imported = import_module(f"penstock.broker.kafka.handlers.{self.module}")
        found: Handler = getattr(imported, self.api.word)
        return found
