"""The settings of a broker are checked as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.config import BrokerConfig
from penstock.model.errors import InvalidConfig


def test_the_defaults_make_sense() -> None:
    BrokerConfig().validate()


@pytest.mark.parametrize(
    "settings",
    [
        {"data": ""},
        {"listen": ()},
        {"partitions_default": 11},
        {"flush_threads": 0},
        {"group_session_timeout_ms_min": 10_000, "group_session_timeout_ms_max": 9_999},
        {"group_consumer_heartbeat_interval_ms": 45_001},
        {"group_members_max": 0},
        {"offsets_retention_ms": 0},
    ],
)
def test_nonsense_is_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match=next(iter(settings))):
        BrokerConfig(**settings).validate()
