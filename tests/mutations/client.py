"""Known bugs of our client: what is sent again, acknowledged, committed, tried again."""

from __future__ import annotations

from typing import Final

from tests.mutations.mutation import outside

_SENDER: Final = "client/producing/sender.py"
_SENDER_TESTS: Final = "tests/unit/client/producing/test_sender.py"
_PLACE: Final = "client/consuming/progress.py"
_PLACE_TESTS: Final = "tests/unit/client/consuming/test_progress.py"
_COMMITTER: Final = "client/consuming/committer.py"
_COMMITTER_TESTS: Final = "tests/unit/client/consuming/test_committer.py"
_SETTLER: Final = "client/sharing/settler.py"
_SETTLER_TESTS: Final = "tests/unit/client/sharing/test_settler.py"
_FAILING_TESTS: Final = "tests/unit/client/serving/test_failing.py"

CLIENT: Final = (
    outside(
        "a batch is sent again under another sequence number",
        _SENDER,
        "        lane.ready.extendleft(reversed(lane.sent))\n",
        "        lane.ready.extendleft(reversed(lane.sent))\n"
        "        for batch in lane.sent:\n"
        "            batch.sequence = NO_SEQUENCE\n",
        _SENDER_TESTS,
    ),
    outside(
        "batches are sent again in another order",
        _SENDER,
        "        lane.ready.extendleft(reversed(lane.sent))\n",
        "        lane.ready.extendleft(lane.sent)\n",
        _SENDER_TESTS,
    ),
    outside(
        "a batch that may be written goes again under another producer id",
        _SENDER,
        "            if batch.uncertain:\n",
        "            if False:\n",
        _SENDER_TESTS,
    ),
    outside(
        "one batch more is in flight",
        _SENDER,
        "        while lane.flying < self._window:",
        "        while lane.flying <= self._window:",
        _SENDER_TESTS,
    ),
    outside(
        "memory of a batch that failed is not given back",
        _SENDER,
        "        batch.fail(error)\n        self._release(batch)\n",
        "        batch.fail(error)\n",
        _SENDER_TESTS,
        "tests/unit/client/producing/test_producer.py",
    ),
    outside(
        "new batches overtake those that go again",
        _SENDER,
        "        if lane.recovering or lane.stalled or self._closed:",
        "        if self._closed:",
        _SENDER_TESTS,
    ),
    outside(
        "committed past what was acknowledged",
        _PLACE,
        "            if offset > self.low:\n                self._remember(offset)\n"
        "            return False\n",
        "            if offset < self.low:\n                return False\n",
        _PLACE_TESTS,
    ),
    outside(
        "the message at the place is committed as read",
        _PLACE,
        "        return offset < self.low or offset in self._ahead",
        "        return offset <= self.low or offset in self._ahead",
        _PLACE_TESTS,
        _COMMITTER_TESTS,
        "tests/unit/client/consuming/test_ledger.py",
    ),
    outside(
        "a place counts as committed that moved meanwhile",
        _COMMITTER,
        "                    progress.committed = lows[partition]",
        "                    progress.committed = progress.low",
        _COMMITTER_TESTS,
    ),
    outside(
        "a commit that a stale member made counts",
        _COMMITTER,
        "            await member.renew(epoch)\n            return False",
        "            await member.renew(epoch)\n            return True",
        _COMMITTER_TESTS,
    ),
    outside(
        "outcomes that could not be told are lost",
        _SETTLER,
        "            if error.retriable:\n                self._outcomes",
        "            if False:\n                self._outcomes",
        _SETTLER_TESTS,
    ),
    outside(
        "an older outcome is told for a newer one",
        _SETTLER,
        "{**outcomes, **self._outcomes}",
        "{**self._outcomes, **outcomes}",
        _SETTLER_TESTS,
    ),
    outside(
        "messages in between are settled with their neighbours",
        _SETTLER,
        "        if offset == last + 1 and (",
        "        if last >= 0 and (",
        _SETTLER_TESTS,
    ),
    outside(
        "a failure counts though everything fails",
        "client/serving/serving.py",
        "            attempt += is_attempt\n",
        "            attempt += 1\n",
        f"{_FAILING_TESTS}::test_a_bad_message_has_all_its_attempts_beside_those_that_all_had",
    ),
    outside(
        "where everything fails it fails again at once",
        "client/serving/serving.py",
        "message.release(pause_s)",
        "message.release()",
        f"{_FAILING_TESTS}::test_a_group_that_counts_gets_messages_back_for_after_the_pause",
    ),
    outside(
        "a success does not end the pause of others",
        "client/serving/failing.py",
        "        self._handled.set()\n",
        "",
        f"{_FAILING_TESTS}::test_waiting_ends_when_a_message_is_handled",
    ),
)
