"""Topic settings: read from text, checked, and errors that name the nearest."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.model.topic_config import (
    INT64_MAX,
    KEPT,
    NAMES,
    TopicConfig,
    canonical_name,
    kept_settings,
    with_settings,
)


def test_text_goes_round() -> None:
    config = with_settings(
        TopicConfig(),
        {
            "durability": "os",
            "retention-ms": "-1",
            "segment.bytes": "65536",
            "min_cleanable_dirty_ratio": "0.01",
            "max_compaction_lag_ms": str(INT64_MAX),
        },
    )
    assert (config.durability, config.retention_ms, config.segment_bytes) == ("os", -1, 65536)
    assert config.min_cleanable_dirty_ratio == 0.01
    assert with_settings(TopicConfig(), config.as_text()) == config
    assert set(config.as_text()) == set(NAMES)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("retention_msec", "1", "Did you mean 'retention_ms'"),
        ("preallocated", "true", "Did you mean 'preallocate'"),
        ("colour", "red", "Known:"),
        ("segment_bytes", "many", "whole number"),
        ("segment_bytes", "1", "from 65536"),
        ("durability", "never", "fsync or os"),
        ("batch_bytes_max", "99999999999", "from 100"),
        ("min_cleanable_dirty_ratio", "1.5", "from 0 to 1"),
        ("min_cleanable_dirty_ratio", "nan", "from 0 to 1"),
        ("min_cleanable_dirty_ratio", "half", "must be a number"),
        ("cleanup.policy", "delete,shrink", "cleanup.policy is 'delete,shrink'"),
        ("cleanup_policy", "none,delete", "it can be delete or compact"),
        ("compression_type", "brotli", "producer or uncompressed or gzip"),
        ("min_insync_replicas", "0", "from 1"),
        ("preallocate", "maybe", "true or false"),
        ("unclean_leader_election_enable", "true", "it can be false"),
        ("segment_jitter_ms", "-1", "from 0"),
        ("leader_replication_throttled_replicas", "all", "partition:broker"),
    ],
)
def test_mistakes_are_explained(name: str, value: str, says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        with_settings(TopicConfig(), {name: value})


def test_names_may_be_written_three_ways() -> None:
    assert {canonical_name(name) for name in ("segment_ms", "segment-ms", "segment.ms")} == {
        "segment_ms"
    }


@pytest.mark.parametrize(
    ("given", "policy", "is_compacted", "has_retention"),
    [
        ("delete", "delete", False, True),
        ("compact", "compact", True, False),
        ("delete, compact", "delete,compact", True, True),
        ("compact,delete,compact", "compact,delete", True, True),
        ("none", "none", False, False),
    ],
)
def test_a_cleanup_policy_is_a_list_in_any_order(
    given: str, policy: str, is_compacted: bool, has_retention: bool
) -> None:
    config = with_settings(TopicConfig(), {"cleanup_policy": given})
    assert config.cleanup_policy == policy
    assert (config.is_compacted, config.has_retention) == (is_compacted, has_retention)


def test_what_has_no_effect_is_checked_and_kept_apart() -> None:
    """Kafka's settings that change nothing here are accepted, and change nothing."""
    assert with_settings(TopicConfig(), KEPT) == TopicConfig()
    assert not set(KEPT) & set(NAMES)
    settings = {"preallocate": "true", "durability": "os"}
    assert kept_settings(settings) == {"preallocate": "true"}
    throttled = {"leader.replication.throttled.replicas": "0:1,1:1"}
    assert with_settings(TopicConfig(), throttled) == TopicConfig()
