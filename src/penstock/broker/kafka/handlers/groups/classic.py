"""Classic groups: who looks after them, joining, staying, leaving, and what they are (R-DEL-4).

JoinGroup and SyncGroup may be answered minutes later, when the other members have come as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.groups.coordinator import new_member_id
from penstock.broker.kafka.addresses import host_and_port
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers.groups.answers import describe_each, group_code
from penstock.coordination.group.classic.messages import (
    HeartbeatAnswer,
    HeartbeatRequest,
    JoinAnswer,
    Joined,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    LeavingMember,
    MemberIdGiven,
    SyncAnswer,
    SyncRequest,
)
from penstock.coordination.group.coordinator import SHARED, Coordinator, Outcomes
from penstock.coordination.group.coordinator import ListedGroup as Listed
from penstock.model.errors import (
    InconsistentProtocol,
    InvalidRequest,
    NotCoordinator,
    PenstockError,
    TransactionsRefused,
    UnknownGroup,
    UnknownMember,
)
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from penstock.protocol.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.protocol.kafka.messages.find_coordinator import (
    Coordinator as FoundCoordinator,
)
from penstock.protocol.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.protocol.kafka.messages.heartbeat import HeartbeatResponse
from penstock.protocol.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from penstock.protocol.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from penstock.protocol.kafka.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# What a coordinator is asked for: FindCoordinator's key types.
_GROUP_KEY = 0
_TRANSACTION_KEY = 1
# Kafka's word for a shared group.
SHARE = "share"


# --- finding -----------------------------------------------------------------------------------


async def find_coordinator(context: Context, call: Call) -> FindCoordinatorResponse:
    """The same broker for every group."""
    request: FindCoordinatorRequest = call.request
    if call.version < 4:  # one key, and no list
        found = await _find(context, request.key_type)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    check_count("keys", len(request.coordinator_keys))
    found = await _find(context, request.key_type)
    return FindCoordinatorResponse(
        coordinators=[replace(found, key=key) for key in request.coordinator_keys]
    )


async def _find(context: Context, key_type: int) -> FoundCoordinator:
    try:
        if key_type == _TRANSACTION_KEY:
            raise TransactionsRefused
        if key_type != _GROUP_KEY:
            raise InvalidRequest(f"There are no coordinators of type {key_type} here.")
        broker = await context.groups_client.coordinator()
        host, port = host_and_port(broker.address)
        return FoundCoordinator("", broker.id, host, port, ErrorCode.NONE, None)
    except PenstockError as error:
        # There is none to be found, so it cannot be that this is another.
        nobody = ErrorCode.COORDINATOR_NOT_AVAILABLE
        code = nobody if isinstance(error, NotCoordinator) else group_code(error)
        return FoundCoordinator("", -1, "", -1, code, error.message)


# --- members -----------------------------------------------------------------------------------


def join_group(context: Context, call: Call) -> None:
    request: JoinGroupRequest = call.request
    version = call.version
    check_count("protocols", len(request.protocols))
    join = JoinRequest(
        member_id=request.member_id,
        new_member_id=new_member_id(call.client_id),
        instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=call.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.session_timeout_ms
            if request.rebalance_timeout_ms < 0
            else request.rebalance_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        requires_known_member_id=version >= 4,  # KIP-394
        supports_skipping_assignment=version >= 9,  # KIP-814
    )

    def answer(what: Joined | PenstockError) -> None:
        call.answer(_joined(version, request.member_id, what))

    context.groups.submit(
        answer, lambda groups, now_ms: groups.join(answer, request.group_id, join, now_ms)
    )


def _joined(version: int, member_id: str, what: Joined | PenstockError) -> JoinGroupResponse:
    if isinstance(what, JoinAnswer):
        return JoinGroupResponse(
            generation_id=what.generation,
            protocol_type=what.protocol_type,
            protocol_name=what.protocol,
            leader=what.leader,
            skip_assignment=what.skip_assignment,
            member_id=what.member_id,
            members=[
                JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata)
                for member in what.members
            ],
        )
    code = ErrorCode.MEMBER_ID_REQUIRED
    if isinstance(what, MemberIdGiven):
        member_id = what.member_id
    else:
        code = group_code(what)
    # There is no protocol; before version 7 there was no way to say so.
    no_protocol = None if version >= 7 else ""
    return JoinGroupResponse(error_code=code, protocol_name=no_protocol, member_id=member_id)


def sync_group(context: Context, call: Call) -> None:
    request: SyncGroupRequest = call.request
    if call.version >= 5 and None in (request.protocol_type, request.protocol_name):
        raise InconsistentProtocol("A member says which protocol its group has agreed on.")
    check_count("assignments", len(request.assignments))
    sync = SyncRequest(
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={given.member_id: given.assignment for given in request.assignments},
    )

    def answer(what: SyncAnswer | PenstockError) -> None:
        if isinstance(what, SyncAnswer):
            call.answer(
                SyncGroupResponse(
                    protocol_type=what.protocol_type,
                    protocol_name=what.protocol,
                    assignment=what.assignment,
                )
            )
        else:
            call.answer(SyncGroupResponse(error_code=group_code(what)))

    context.groups.submit(
        answer, lambda groups, now_ms: groups.sync(answer, request.group_id, sync, now_ms)
    )


def heartbeat(context: Context, call: Call) -> None:
    request = call.request
    beat = HeartbeatRequest(
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )

    def answer(what: HeartbeatAnswer | PenstockError) -> None:
        code = group_code(what) if isinstance(what, PenstockError) else ErrorCode.NONE
        call.answer(HeartbeatResponse(error_code=code))

    context.groups.submit(
        answer, lambda groups, now_ms: groups.heartbeat(answer, request.group_id, beat, now_ms)
    )


def leave_group(context: Context, call: Call) -> None:
    request: LeaveGroupRequest = call.request
    if call.version < 3:  # one member, and no list
        leaving = [LeavingMember(member_id=request.member_id)]
    else:
        check_count("members", len(request.members))
        leaving = [
            LeavingMember(member_id=member.member_id, instance_id=member.group_instance_id)
            for member in request.members
        ]
    leave = LeaveRequest(members=tuple(leaving))

    def answer(what: LeaveAnswer | PenstockError) -> None:
        call.answer(_left(call.version, leaving, what))

    context.groups.submit(
        answer, lambda groups, now_ms: groups.leave(answer, request.group_id, leave, now_ms)
    )


def _left(
    version: int, leaving: Sequence[LeavingMember], what: LeaveAnswer | PenstockError
) -> LeaveGroupResponse:
    if isinstance(what, UnknownMember):
        # There is no such group, and so each of them is none of its members.
        errors: list[PenstockError | None] = [what] * len(leaving)
    elif isinstance(what, PenstockError):
        return LeaveGroupResponse(error_code=group_code(what))
    else:
        errors = [result.error for result in what.results]
    codes = [ErrorCode.NONE if error is None else group_code(error) for error in errors]
    if version < 3:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member.member_id, member.instance_id, code)
            for member, code in zip(leaving, codes, strict=True)
        ]
    )


# --- groups as a whole -------------------------------------------------------------------------


def describe_groups(context: Context, call: Call) -> None:
    request: DescribeGroupsRequest = call.request
    not_described = partial(_not_described, call.version)
    describe_each(context, call, request.groups, _described, not_described, DescribeGroupsResponse)


def _described(groups: Coordinator, name: str) -> DescribedGroup:
    group = groups.describe_classic(name)
    return DescribedGroup(
        group_id=name,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )


def _not_described(version: int, name: str, error: PenstockError) -> DescribedGroup:
    if isinstance(error, UnknownGroup):
        if version < 6:  # before KIP-1043 a group that is not there was dead
            return DescribedGroup(group_id=name, group_state="Dead")
        return DescribedGroup(group_code(error), error.message, name, "Dead")
    return DescribedGroup(group_code(error), error.message, name)


def list_groups(context: Context, call: Call) -> None:
    request: ListGroupsRequest = call.request

    def answer(what: list[Listed] | PenstockError) -> None:
        if isinstance(what, NotCoordinator):
            # Tools ask every broker, and put together what each looks after.
            what = []
        if isinstance(what, PenstockError):
            call.answer(ListGroupsResponse(error_code=group_code(what)))
            return
        call.answer(
            ListGroupsResponse(
                groups=[
                    ListedGroup(
                        group.name,
                        group.protocol_type,
                        group.state,
                        SHARE if group.kind == SHARED else group.kind,
                    )
                    for group in what
                ]
            )
        )

    kinds = [SHARED if kind.lower() == SHARE else kind for kind in request.types_filter]
    context.groups.ask(answer, lambda groups: groups.list(request.states_filter, kinds))


def delete_groups(context: Context, call: Call) -> None:
    request: DeleteGroupsRequest = call.request
    names = list(dict.fromkeys(request.groups_names))
    check_count("groups", len(names))

    def answer(what: Outcomes | PenstockError) -> None:
        outcomes = [what] * len(names) if isinstance(what, PenstockError) else what
        results = [
            DeletableGroupResult(name, ErrorCode.NONE if error is None else group_code(error))
            for name, error in zip(names, outcomes, strict=True)
        ]
        call.answer(DeleteGroupsResponse(results=results))

    context.groups.submit(answer, lambda groups, _: groups.delete(answer, names))
