"""What can go wrong with a group of consumers and its members.

Not how a group's messages are handed out (`errors.delivery`). The invariant: codes 80 to 98.
"""

from __future__ import annotations

from penstock.model.errors.base import PenstockError


class GroupError(PenstockError):
    """Something is wrong with a group of consumers."""

    code = 80


class UnknownGroup(GroupError):
    """There is no group of this name."""

    code = 81


class GroupNotEmpty(GroupError):
    """The group has members: stop its consumers first."""

    code = 82


class InvalidGroup(GroupError):
    """The name cannot name a group."""

    code = 83


class GroupFull(GroupError):
    """The group has as many members as the broker allows."""

    code = 84


class UnknownMember(GroupError):
    """The group has no such member: it was removed, or never joined; join again."""

    code = 85


class FencedInstance(GroupError):
    """Another member has taken over this group instance id."""

    code = 87


class UnreleasedInstance(GroupError):
    """A member that is still there holds this group instance id."""

    code = 88


class IllegalGeneration(GroupError):
    """The group has moved on to another generation: join again."""

    code = 89


class RebalanceInProgress(GroupError):
    """The group is rebalancing: join again."""

    code = 90
    retriable = True


class InconsistentProtocol(GroupError):
    """The member shares no protocol with the other members of its group."""

    code = 91


class InvalidSessionTimeout(GroupError):
    """The session timeout is outside what the broker allows."""

    code = 92


class FencedMemberEpoch(GroupError):
    """The member's epoch is not the one the group gave it: join again with epoch 0."""

    code = 93


class StaleMemberEpoch(GroupError):
    """The member's epoch is out of date: take it from the next heartbeat's answer."""

    code = 94
    retriable = True


class UnsupportedAssignor(GroupError):
    """The broker has no assignor of this name."""

    code = 95


class GroupSubscribed(GroupError):
    """The group is subscribed to the topic: its offsets cannot be deleted now."""

    code = 96


class OffsetMetadataTooLarge(GroupError):
    """The metadata of a committed offset is longer than the broker keeps."""

    code = 97


class InvalidRegularExpression(GroupError):
    """The expression that names the topics of a subscription cannot be used."""

    code = 98
