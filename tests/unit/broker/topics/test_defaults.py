"""What topics get that do not say it themselves: which of the three goes before the others."""

from __future__ import annotations

from dataclasses import replace

from penstock.broker.topics.defaults import TopicDefaults, topic_defaults
from penstock.model.topic_config import TopicConfig

CONFIGURED = TopicConfig(retention_ms=1, segment_ms=1_000, retention_bytes=1)
SETTINGS = {
    "": {"retention_ms": "2", "segment_ms": "2000"},
    "7": {"retention_ms": "3"},
    "8": {"retention_ms": "4"},
}


def test_what_is_of_one_broker_goes_before_what_is_of_all() -> None:
    """KIP-226."""
    found = topic_defaults(CONFIGURED, 7, SETTINGS)
    assert found.effective == replace(CONFIGURED, retention_ms=3, segment_ms=2_000)
    assert found.below_here == replace(CONFIGURED, retention_ms=2, segment_ms=2_000)
    assert topic_defaults(CONFIGURED, 9, SETTINGS).effective == found.below_here
    assert topic_defaults(CONFIGURED, 9, {}) == TopicDefaults(CONFIGURED)
