"""Limits of a SyncGroup; what a group does with one is in the scenarios of test_classic."""

from __future__ import annotations

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.messages import (
    GroupConfig,
    GroupState,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
)
from penstock.model import limits
from penstock.model.errors import InvalidRequest
from tests.kit.models.tickets import Named


def test_assignments_that_are_too_large_are_refused() -> None:
    machine = ClassicGroup("g", GroupConfig(initial_rebalance_delay_ms=0))
    joining = JoinRequest(
        member_id="",
        new_member_id="a",
        client_id="a",
        client_host="/10.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
    )
    machine.join(Named("join"), joining, 0)
    machine.expire(0)
    large = bytes(limits.GROUP_RECORD_BYTES_MAX * 3 // 4)
    effects = machine.sync(
        Named("sync"), SyncRequest(member_id="a", generation=1, assignments={"a": large}), 0
    )
    [(ticket, error)] = effects.answers
    assert ticket == Named("sync")
    assert isinstance(error, InvalidRequest)
    assert machine.state is GroupState.COMPLETING_REBALANCE
    # The leader may try again with less, and what fits is a record that fits.
    effects = machine.sync(
        Named("sync"),
        SyncRequest(member_id="a", generation=1, assignments={"a": large[:-1_000]}),
        0,
    )
    [(_, answer)] = effects.answers
    assert isinstance(answer, SyncAnswer)
    assert len(effects.records[0].value or b"") <= limits.GROUP_RECORD_BYTES_MAX
