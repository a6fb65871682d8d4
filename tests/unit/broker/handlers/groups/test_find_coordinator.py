"""Whom to ask about groups and about staged writes."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidRequest
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import running


async def test_a_broker_on_its_own_looks_after_groups() -> None:
    """R-CORE-5."""
    async with running() as (broker, client):
        request = pb.FindCoordinatorRequest(kind=pb.FindCoordinatorRequest.KIND_GROUPS)
        response, _ = await client.channel.call(calls.FIND_COORDINATOR, request)
        assert (response.broker, response.address) == (1, broker.addresses[0])


async def test_there_is_no_other_kind() -> None:
    async with running() as (_, client):
        with pytest.raises(InvalidRequest, match="kind 0"):
            await client.channel.call(calls.FIND_COORDINATOR, pb.FindCoordinatorRequest())
