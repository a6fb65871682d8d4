"""Topic settings: read from text, checked, and errors that name the nearest."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.model.topic_config import NAMES, TopicConfig, canonical_name, with_settings


def test_text_goes_round() -> None:
    config = with_settings(
        TopicConfig(), {"durability": "os", "retention-ms": "-1", "segment.bytes": "65536"}
    )
    assert (config.durability, config.retention_ms, config.segment_bytes) == ("os", -1, 65536)
    assert with_settings(TopicConfig(), config.as_text()) == config
    assert set(config.as_text()) == set(NAMES)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("retention_msec", "1", "Did you mean 'retention_ms'"),
        ("colour", "red", "Known:"),
        ("segment_bytes", "many", "whole number"),
        ("segment_bytes", "1", "from 65536"),
        ("durability", "never", "fsync or os"),
        ("batch_bytes_max", "99999999999", "from 100"),
    ],
)
def test_mistakes_are_explained(name: str, value: str, says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        with_settings(TopicConfig(), {name: value})


def test_names_may_be_written_three_ways() -> None:
    assert {canonical_name(name) for name in ("segment_ms", "segment-ms", "segment.ms")} == {
        "segment_ms"
    }
