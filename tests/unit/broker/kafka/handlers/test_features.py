"""UpdateFeatures: levels that are there, and the refusal of others."""

from __future__ import annotations

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.kit.broker.kafka_client import kafka_running

UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.mark.parametrize("version", range(3))
async def test_what_is_there_may_be_asked_for(version: int) -> None:
    updates = [FeatureUpdateKey("group.version", 1), FeatureUpdateKey("transaction.version", 0)]
    async with kafka_running() as (_, client):
        request = UpdateFeaturesRequest(feature_updates=updates)
        response = await client.call(apis.UPDATE_FEATURES, version, request)
        assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
        told = [(result.feature, result.error_code) for result in response.results]
        every = [("group.version", ErrorCode.NONE), ("transaction.version", ErrorCode.NONE)]
        assert told == (every if version < 2 else [])


@pytest.mark.parametrize(
    ("update", "says"),
    [
        (FeatureUpdateKey("share.version", 2), "share.version at level 1"),
        (
            FeatureUpdateKey("share.version", 0, upgrade_type=SAFE_DOWNGRADE),
            "share.version at level 1",
        ),
        (FeatureUpdateKey("metadata.version", 20), "no such feature here: there are group.version"),
        (FeatureUpdateKey("share.version", 1, upgrade_type=7), "7 is no type of upgrade"),
    ],
)
async def test_other_levels_are_refused_and_nothing_is_done(
    update: FeatureUpdateKey, says: str
) -> None:
    """All or none, as in Kafka."""
    async with kafka_running() as (_, client):
        request = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey("group.version", 1), update]
        )
        response = await client.call(apis.UPDATE_FEATURES, 1, request)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert f"for feature {update.feature}" in response.error_message
        assert says in response.error_message
        assert not response.results
