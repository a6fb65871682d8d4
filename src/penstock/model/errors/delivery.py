"""What can go wrong between readers and their messages: leases, claims, filters, delays, pushing.

Not membership (`errors.groups`). The invariant: codes 110 to 126.
"""

from __future__ import annotations

from penstock.model.errors.base import PenstockError


class DeliveryError(PenstockError):
    """Something is wrong with how messages are handed out."""

    code = 110


class UnknownLease(DeliveryError):
    """The member does not hold this message: its lease ran out, or was never its own."""

    code = 111


class PartitionClaimed(DeliveryError):
    """Another member of the group has claimed the partition for itself."""

    code = 112


class SubscriptionTaken(DeliveryError):
    """The topic is read point to point, by one group alone, and that is another one."""

    code = 113


class InconsistentSubscription(DeliveryError):
    """The members of a shared group must say alike how its messages are handed out."""

    code = 114


class TooManySubscriptions(DeliveryError):
    """The client has as many subscriptions on its connection as the broker allows."""

    code = 115


class InvalidFilter(DeliveryError):
    """The filter cannot be understood, or is larger than the broker allows."""

    code = 116


class InvalidDelay(DeliveryError):
    """The message cannot be delayed like this."""

    code = 117


class InvalidSchedule(DeliveryError):
    """The schedule cannot be understood."""

    code = 118


class UnknownSchedule(DeliveryError):
    """There is no schedule of this name."""

    code = 119


class InvalidCredit(DeliveryError):
    """Credit must be more than nothing, and not more than the broker allows."""

    code = 120


class UnknownStream(DeliveryError):
    """There is no such push stream on this connection: open it again."""

    code = 121


class Parked(DeliveryError):
    """The delivery is parked, after the client left it unanswered twice: resume it."""

    code = 122


class UnknownClient(DeliveryError):
    """No client of this name or id is connected."""

    code = 123


class TopicClaimed(DeliveryError):
    """Another producer has claimed the topic for itself."""

    code = 124


class NoReply(DeliveryError):
    """Nobody waits for the reply any more."""

    code = 125


class PartitionLost(DeliveryError):
    """The group has taken the partition away before its place was committed: whoever has it next
    reads on from the place before."""

    code = 126
