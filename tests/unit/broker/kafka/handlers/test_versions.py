"""ApiVersions: what is advertised is what is spoken."""

from __future__ import annotations

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tests.kafka_support import kafka_running


@pytest.mark.parametrize("version", range(5))
async def test_all_that_we_speak_is_named(version: int) -> None:
    """R-NET-5."""
    async with kafka_running() as (_, client):
        response = await client.call(apis.API_VERSIONS, version, ApiVersionsRequest("test", "1"))
        assert response.error_code == ErrorCode.NONE
        assert {one.api_key: (one.min_version, one.max_version) for one in response.api_keys} == {
            api.key: (api.version_min, api.version_max) for api in apis.APIS.values()
        }
