"""ApiVersions: what is advertised is what is spoken."""

from __future__ import annotations

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tests.kit.broker.kafka_client import kafka_running


@pytest.mark.parametrize("version", range(5))
async def test_all_that_we_speak_is_named(version: int) -> None:
    """R-NET-5."""
    async with kafka_running() as (_, client):
        response = await client.call(apis.API_VERSIONS, version, ApiVersionsRequest("test", "1"))
        assert response.error_code == ErrorCode.NONE
        assert {one.api_key: (one.min_version, one.max_version) for one in response.api_keys} == {
            api.key: (api.version_min, api.version_max) for api in apis.APIS.values()
        }


@pytest.mark.parametrize("version", range(5))
async def test_features_are_told(version: int) -> None:
    """KIP-584. Before version 4 clients take a level 0 for an error."""
    async with kafka_running() as (_, client):
        response = await client.call(apis.API_VERSIONS, version, ApiVersionsRequest("test", "1"))
        supported = {each.name: each.max_version for each in response.supported_features}
        finalized = {each.name: each.max_version_level for each in response.finalized_features}
        if version < 3:
            assert (supported, finalized) == ({}, {})
            assert response.finalized_features_epoch == -1
        else:
            assert finalized == {"group.version": 1, "share.version": 1}
            none = {"transaction.version": 0} if version == 4 else {}
            assert supported == finalized | none
            assert response.finalized_features_epoch >= 0
