"""What can go wrong with asking a partition: the offset, or the broker that was asked.

Not the topic (`errors.topics`). The invariant: codes 50 to 56; all but an offset that is not there
pass by themselves.
"""

from __future__ import annotations

from penstock.model.errors.base import PenstockError


class OffsetOutOfRange(PenstockError):
    """The offset is before the first or after the last message of the partition."""

    code = 50
    # Where the partition begins and ends, if whoever raised it knows.
    log_start_offset: int | None = None
    log_end_offset: int | None = None


class NotLeader(PenstockError):
    """This broker does not lead the partition: refresh the route and ask its leader."""

    code = 51
    retriable = True


class NotCoordinator(PenstockError):
    """This broker does not look after this now: ask again which one does."""

    code = 56
    retriable = True


class NotEnoughReplicas(PenstockError):
    """Fewer replicas are in sync than the topic's min_insync_replicas asks for."""

    code = 52
    retriable = True


class NotEnoughReplicasAfterAppend(PenstockError):
    """It was written, but fewer replicas have it than min_insync_replicas asks for."""

    code = 55
    retriable = True


class StaleTerm(PenstockError):
    """The partition has a newer leader than the client knows: refresh the route."""

    code = 53
    retriable = True


class UnknownTerm(PenstockError):
    """The client knows of a newer leader than this broker does: ask again."""

    code = 54
    retriable = True
