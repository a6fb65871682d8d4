"""ApiVersions: what this broker speaks."""

from __future__ import annotations

from typing import Final

from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.features import EPOCH, FEATURES
from penstock.protocol.kafka.apis import APIS
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_LEVEL_0_SINCE: Final = 4


def api_versions(context: Context, call: Call) -> ApiVersionsResponse:
    """A version that we do not have comes without a request, and is answered in version 0 with all
    that we have, so that the client can choose (KIP-511)."""
    is_known = call.request is not None
    software = ""
    if isinstance(call.request, ApiVersionsRequest):
        request = call.request
        software = f"{request.client_software_name} {request.client_software_version}".strip()
    connection = call.session.connection
    context.clients.introduce_kafka(connection, call.client_id, software)
    call.session.on_close(context.clients, lambda: context.clients.kafka_gone(connection))
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.version_min, max_version=api.version_max)
            for api in APIS.values()
        ],
        supported_features=[
            SupportedFeatureKey(feature.name, feature.min_level, feature.max_level)
            for feature in FEATURES
            # Clients of earlier versions take a level 0 for an error.
            if feature.min_level or call.version >= _LEVEL_0_SINCE
        ],
        finalized_features_epoch=EPOCH,
        finalized_features=[
            FinalizedFeatureKey(feature.name, feature.max_level, feature.min_level)
            for feature in FEATURES
            if feature.max_level
        ],
    )
