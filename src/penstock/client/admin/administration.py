"""What can be looked at and changed through a client, each under a name of its own.

Not publishing and subscribing, which are the client's own verbs. The invariant: nothing is kept
here; each face is made when it is asked for, and speaks through the client's connections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.client.admin.clients import ClientAdmin
from penstock.client.admin.cluster import ClusterAdmin
from penstock.client.admin.delayed import Delayed
from penstock.client.admin.groups import GroupAdmin
from penstock.client.admin.schedules import Schedules
from penstock.client.admin.topics import Admin
from penstock.client.connection.routes import Routes


class Administration(ABC):
    """A part of `Client`."""

    @abstractmethod
    def _routes(self) -> Routes:
        """Of the open connection; ClientClosed if there is none."""

    @property
    def admin(self) -> Admin:
        """Topics and groups: create, describe, alter, list."""
        return Admin(self._routes())

    @property
    def clients(self) -> ClientAdmin:
        """Who is connected: listed, and what is pushed to them parked and resumed."""
        return ClientAdmin(self._routes())

    @property
    def groups(self) -> GroupAdmin:
        """Groups of consumers: described with their lag, moved, deleted."""
        return GroupAdmin(self._routes())

    @property
    def cluster(self) -> ClusterAdmin:
        """Brokers, and where copies of partitions are: described, moved, spread."""
        return ClusterAdmin(self._routes())

    @property
    def delayed(self) -> Delayed:
        """Messages that wait until they are due: many at once, cancelled, described."""
        return Delayed(self._routes())

    @property
    def schedules(self) -> Schedules:
        """Messages that are published again and again, at the times of a cron expression."""
        return Schedules(self._routes())
