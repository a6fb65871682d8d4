"""How often a member that speaks our own protocol is to send its heartbeat.

Kafka's consumers are told the broker's setting, 5 s: a rebalance takes them two or three of those,
since every step waits for somebody's next heartbeat. Ours act on an answer at once, so a rebalance
takes them as long as it takes until those who are to give something up hear of it, and until those
who wait for it ask again. The invariants: never so seldom that a member whose connection ended
between two heartbeats has no time to come back; else never more often than is good for the group's
size.
"""

from __future__ import annotations

from typing import Final

from penstock.coordination.group.consumer.messages import ConsumerHeartbeatAnswer
from penstock.model.limits import MEMBER_LOST_MS_MAX

# A change reaches a settled member within this time: so a rebalance is over in about a second.
_SETTLED_MS: Final = 1_000
# One that waits for partitions asks this often, for the moment that others take to give them up.
_WAITING_MS: Final = 200
# So many heartbeats a second of one group, a hundredth of a core, however many members it has.
# One of more than 300 has more of them: a thousand members take three hundredths.
_HEARTBEATS_PER_S_MAX: Final = 200
# The time to come back is counted from the last heartbeat: half of it is left in any case.
_INTERVAL_MS_MAX: Final = MEMBER_LOST_MS_MAX // 2


def native_interval_ms(answer: ConsumerHeartbeatAnswer, kafka_interval_ms: int) -> int:
    """kafka_interval_ms: what Kafka's consumers are told; ours are never told a longer one."""
    wanted_ms = _SETTLED_MS if answer.is_settled else _WAITING_MS
    fair_ms = answer.member_count * 1000 // _HEARTBEATS_PER_S_MAX
    return min(max(wanted_ms, fair_ms), kafka_interval_ms, _INTERVAL_MS_MAX)
