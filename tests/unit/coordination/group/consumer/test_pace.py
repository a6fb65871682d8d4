"""How often our members call: soon while something moves, never too often for a large group."""

from __future__ import annotations

import pytest

from penstock.coordination.group.consumer.messages import ConsumerHeartbeatAnswer
from penstock.coordination.group.consumer.pace import native_interval_ms
from penstock.model.limits import MEMBER_LOST_MS_MAX


@pytest.mark.parametrize(
    ("is_settled", "member_count", "kafka_ms", "expected_ms"),
    [
        (True, 1, 5_000, 1_000),
        (False, 1, 5_000, 200),
        (True, 250, 5_000, 1_250),
        (False, 250, 5_000, 1_250),
        (True, 1_000_000, 5_000, 1_500),
        (True, 1, 300, 300),
    ],
)
def test_pace(is_settled: bool, member_count: int, kafka_ms: int, expected_ms: int) -> None:
    answer = ConsumerHeartbeatAnswer(
        member_id="m",
        member_epoch=1,
        heartbeat_interval_ms=kafka_ms,
        assignment=None,
        is_settled=is_settled,
        member_count=member_count,
    )
    assert native_interval_ms(answer, kafka_ms) == expected_ms
    assert 2 * expected_ms <= MEMBER_LOST_MS_MAX, "there is time to come back after each"
