"""What the answers about groups have in common, whatever kind they are of: codes, descriptions, and
what members are assigned.

Not what is asked. The invariant: a group that is asked for is in the answer once, with what it is
or with why that cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.coordination.group.assignors.assignment import Assignment
from penstock.coordination.group.consumer.messages import ConsumerHeartbeatAnswer
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import Ticket
from penstock.coordination.group.shared.messages import ShareHeartbeatAnswer
from penstock.model.errors import (
    CoordinatorLoading,
    PenstockError,
    StorageError,
    UnavailableError,
)
from penstock.protocol.kafka.errors import ErrorCode, code_of
from penstock.protocol.kafka.messages import consumer_group_describe as describing
from penstock.protocol.kafka.messages import consumer_group_heartbeat as heartbeats
from penstock.registry.image import ClusterImage

GroupT = TypeVar("GroupT")


def group_code(error: PenstockError) -> ErrorCode:
    """The code of an error, for a request to a coordinator: clients look for it again and retry
    where it cannot do its work now; while it loads they retry with the same one."""
    is_absent = isinstance(error, StorageError | UnavailableError)
    if is_absent and not isinstance(error, CoordinatorLoading):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code_of(error)


def describe_each(
    context: Context,
    call: Call,
    names: Iterable[str],
    describe: Callable[[Coordinator, str], GroupT],
    not_described: Callable[[str, PenstockError], GroupT],
    response: Callable[..., object],
) -> None:
    """Answer with what each of the groups is, or why that cannot be told; response: of `groups`."""
    # Each once, or a short request would make an answer of gigabytes.
    wanted = list(dict.fromkeys(names))
    check_count("groups", len(wanted))

    def described(groups: Coordinator, name: str) -> GroupT:
        try:
            return describe(groups, name)
        except PenstockError as error:
            return not_described(name, error)

    def answer(what: list[GroupT] | PenstockError) -> None:
        if isinstance(what, PenstockError):
            what = [not_described(name, what) for name in wanted]
        call.answer(response(groups=what))

    context.groups.ask(answer, lambda groups: [described(groups, name) for name in wanted])


def tell_member(
    call: Call, response: Callable[..., object]
) -> Ticket[ConsumerHeartbeatAnswer | ShareHeartbeatAnswer]:
    """What answers a heartbeat, in the words of its API."""

    def answer(what: ConsumerHeartbeatAnswer | ShareHeartbeatAnswer | PenstockError) -> None:
        if isinstance(what, PenstockError):
            call.answer(response(error_code=group_code(what), error_message=what.message))
            return
        assigned = None
        if what.assignment is not None:
            assigned = heartbeats.Assignment(
                [
                    heartbeats.TopicPartitions(bytes.fromhex(topic), numbers)
                    for topic, numbers in what.assignment.items()
                ]
            )
        call.answer(
            response(
                member_id=what.member_id,
                member_epoch=what.member_epoch,
                heartbeat_interval_ms=what.heartbeat_interval_ms,
                assignment=assigned,
            )
        )

    return answer


def named(image: ClusterImage, partitions: Assignment) -> describing.Assignment:
    """With the topics' names; a topic that was deleted meanwhile has none."""
    ids = ((bytes.fromhex(topic), numbers) for topic, numbers in partitions.items())
    return describing.Assignment(
        [
            describing.TopicPartitions(topic_id, image.names_by_id.get(topic_id, ""), numbers)
            for topic_id, numbers in ids
        ]
    )
