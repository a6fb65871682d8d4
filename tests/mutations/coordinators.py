"""Known bugs of coordinators: groups and where shared groups stand, claims of producers, staged
writes, delays."""

from __future__ import annotations

from typing import Final

from tests.mutations.mutation import outside

_GROUPS: Final = "broker/groups/coordinator.py"
_GROUP_TESTS: Final = "tests/unit/broker/groups/test_coordinator.py"
_STATES: Final = "coordination/group/shared/states.py"
_STATE_TESTS: Final = "tests/unit/coordination/group/shared/test_states.py"
_CLAIMS: Final = "coordination/group/exclusivity.py"
_CLAIM_TESTS: Final = "tests/unit/coordination/group/test_exclusivity.py"
_VIEW: Final = "coordination/producers/exclusivity.py"
_VIEW_TESTS: Final = "tests/unit/coordination/producers/test_exclusivity.py"
_STAGING: Final = "coordination/staging/table.py"
_STAGING_TESTS: Final = "tests/unit/coordination/staging"
_DELAY: Final = "coordination/delay/table.py"
_DELAY_TESTS: Final = "tests/unit/coordination/delay"

COORDINATORS: Final = (
    outside(
        "a group's answer leaves before it is durable",
        _GROUPS,
        "            self._queue.append(effects)\n",
        "            self._queue.append(effects)\n            self._give(effects)\n",
        _GROUP_TESTS,
    ),
    outside(
        "groups go on with what could not be written",
        _GROUPS,
        "            self._writing = []\n            self._discard(error)\n",
        "            self._writing = []\n",
        _GROUP_TESTS,
    ),
    outside(
        "a former leader of groups answers",
        _GROUPS,
        "        if groups is None or not self.log.is_current or self.log.failure is not None:",
        "        if groups is None:",
        _GROUP_TESTS,
    ),
    outside(
        "where a shared group stands is written by a leader who has not read it",
        _STATES,
        "if kept is None or kept.leader_term != place.leader_term:",
        "if kept is None:",
        _STATE_TESTS,
    ),
    outside(
        "a former leader reads and writes where a shared group stands",
        _STATES,
        "        if place.leader_term < kept.leader_term:",
        "        if False:",
        _STATE_TESTS,
    ),
    outside(
        "a write that was overtaken is taken",
        _STATES,
        "        if place.sequence < kept.sequence:",
        "        if False:",
        _STATE_TESTS,
    ),
    outside(
        "room of what was replaced is not given back",
        _STATES,
        "        self.size_bytes += _size_bytes(state) - _size_bytes(earlier)\n",
        "        self.size_bytes += _size_bytes(state)\n",
        _STATE_TESTS,
    ),
    outside(
        "a claim counts while answers may still name somebody else",
        _CLAIMS,
        "settled_ms=max(named_ms + CLAIM_SETTLE_MS, now_ms),",
        "settled_ms=now_ms,",
        _CLAIM_TESTS,
    ),
    outside(
        "a claim is kept a moment too long",
        _CLAIMS,
        "now_ms < claim.keep_until_ms",
        "now_ms <= claim.keep_until_ms",
        _CLAIM_TESTS,
    ),
    outside(
        "a coordinator that was replaced says who may write",
        _CLAIMS,
        "        effects = Effects(confirms=True)",
        "        effects = Effects()",
        _CLAIM_TESTS,
    ),
    outside(
        "an answer about a claim is believed a moment too long",
        _VIEW,
        "        if now_s >= self._valid_until_s:",
        "        if now_s > self._valid_until_s:",
        _VIEW_TESTS,
    ),
    outside(
        "a newer claim is refused by an older answer",
        _VIEW,
        "        if claim < self._claim or not claim or came_s <= self._asked_s:",
        "        if claim != self._claim:",
        _VIEW_TESTS,
    ),
    outside(
        "decided before what is decided on is durable",
        _STAGING,
        "            if offsets and offsets[-1] >= durable_offset:",
        "            if offsets and offsets[-1] > durable_offset:",
        _STAGING_TESTS,
    ),
    outside(
        "an epoch that is decided is staged again",
        _STAGING,
        "if write.decision is not None and batch.epoch <= write.decision.epoch:",
        "if write.decision is not None and batch.epoch < write.decision.epoch:",
        _STAGING_TESTS,
    ),
    outside(
        "a write is decided again before it is copied",
        _STAGING,
        "                if not write.is_copied:\n",
        "                if False:\n",
        _STAGING_TESTS,
    ),
    outside(
        "aborted while it is being committed",
        _STAGING,
        "if write is None or write.deciding == epoch_number or _is_decided(write, epoch_number):",
        "if write is None or _is_decided(write, epoch_number):",
        _STAGING_TESTS,
    ),
    outside(
        "the frontier of delays goes back",
        _DELAY,
        "        self.frontier = max(self.frontier, decided.frontier)",
        "        self.frontier = decided.frontier",
        _DELAY_TESTS,
    ),
    outside(
        "what arrived of delays is still counted",
        _DELAY,
        "        lane.due = max(lane.due - arrived.messages, 0)\n",
        "",
        _DELAY_TESTS,
        "tests/unit/broker/delay",
    ),
    outside(
        "a lane of delays goes on under another producer's numbers",
        _DELAY,
        "            lane.producer_id, lane.sequence = record.producer_id, 0",
        "            lane.producer_id = record.producer_id",
        _DELAY_TESTS,
        "tests/unit/broker/delay",
    ),
)
