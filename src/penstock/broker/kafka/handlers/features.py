"""UpdateFeatures: levels that are there already, and no others."""

from __future__ import annotations

from typing import Final

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.features import FEATURES
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_BY_NAME: Final = {feature.name: feature for feature in FEATURES}
# Upgrade, safe downgrade, unsafe downgrade.
_UPGRADE_TYPES: Final = (1, 2, 3)
_RESULTS_UNTIL: Final = 1


def update_features(context: Context, call: Call) -> UpdateFeaturesResponse:
    """All of the updates or none, as Kafka does it since KIP-1022."""
    del context
    request: UpdateFeaturesRequest = call.request
    check_count("features", len(request.feature_updates))
    for update in request.feature_updates:
        reason = _reason_against(update)
        if reason is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message=f"Invalid update version {update.max_version_level} for feature "
                f"{update.feature}. {reason}",
            )
    response = UpdateFeaturesResponse(error_message=None)
    if call.version <= _RESULTS_UNTIL:
        response.results = [
            UpdatableFeatureResult(update.feature, error_message=None)
            for update in request.feature_updates
        ]
    return response


def _reason_against(update: FeatureUpdateKey) -> str | None:
    if update.upgrade_type not in _UPGRADE_TYPES:
        return f"{update.upgrade_type} is no type of upgrade."
    feature = _BY_NAME.get(update.feature)
    if feature is None:
        return f"There is no such feature here: there are {', '.join(_BY_NAME)}."
    return feature.reason_against(update.max_version_level)
