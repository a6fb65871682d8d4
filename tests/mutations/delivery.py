"""Known bugs of delivery on the broker: shared groups, push, filters, dead letters, readers."""

from __future__ import annotations

from typing import Final

from tests.mutations.mutation import outside

_SHARE: Final = "broker/delivery/shared/partition.py"
_SHARE_TESTS: Final = "tests/unit/broker/delivery/shared/test_partition.py"
_SHARED_TESTS: Final = "tests/unit/broker/delivery/shared/test_partitions.py"
_SOURCE_TESTS: Final = "tests/unit/broker/delivery/push/test_shared_source.py"
_SHARES: Final = "broker/delivery/shared/partitions.py"
_LOG: Final = "broker/delivery/shared/log.py"
_LOG_TESTS: Final = "tests/unit/broker/delivery/shared/test_log.py"
_PUSH: Final = "coordination/delivery/push.py"
_PUSH_TESTS: Final = "tests/unit/coordination/delivery/test_push.py"
_READER_TESTS: Final = "tests/unit/broker/partitions/test_readers.py"

DELIVERY: Final = (
    outside(
        "a settlement is told before it is written",
        _SHARE,
        "            self._in_write, self._unsaved = self._unsaved, []\n",
        "            self._tell(self._unsaved)\n            self._unsaved = []\n",
        f"{_SHARE_TESTS}::test_who_settles_is_told_when_that_is_durable",
    ),
    outside(
        "what is settled during a write is told with it",
        _SHARE,
        "            self._early += self._in_write\n",
        "            self._early += self._in_write + self._unsaved\n"
        "            self._unsaved = []\n",
        f"{_SHARE_TESTS}::test_who_settles_is_told_when_that_is_durable",
    ),
    outside(
        "buried before it is durable that it is dead",
        _SHARE,
        "        self._unsaved.append((durable, ()))",
        "        durable(())",
        f"{_SHARE_TESTS}::test_what_is_dead_is_buried_when_that_is_durable",
    ),
    outside(
        "told while a former leader may believe that it leads",
        _SHARE,
        "if self._early and now_ms >= self._around.alone_from_ms:",
        "if self._early:",
        f"{_SHARE_TESTS}::test_nobody_is_told_while_a_former_leader_may_believe_that_it_leads",
    ),
    outside(
        "what a lost member held stays its own",
        _SHARE,
        "            self.machine.drop_member(member, self._around.now_ms(), is_lost=is_lost)\n",
        "",
        _SHARED_TESTS,
    ),
    outside(
        "a message that could not be buried is forgotten",
        _SHARE,
        "                self.machine.not_buried(one.offset, again_ms)",
        "                self.machine.buried(one.offset)",
        f"{_SHARE_TESTS}::test_what_cannot_be_buried_is_tried_again",
    ),
    outside(
        "who has given up is leased to",
        _SHARE,
        "        self._waiting.pop(ask, None)\n",
        "        ask.is_given_up = True\n",
        _SHARED_TESTS,
        _SOURCE_TESTS,
    ),
    outside(
        "what was not pushed after all is not given back",
        "broker/delivery/push/shared_source.py",
        "        self._give_back([load])\n",
        "        del load\n",
        _SOURCE_TESTS,
    ),
    outside(
        "a push window holds one more",
        _PUSH,
        "len(self._unanswered) >= self._settings.window",
        "len(self._unanswered) > self._settings.window",
        _PUSH_TESTS,
    ),
    outside(
        "an answer does not take its messages out of flight",
        _PUSH,
        "            self.in_flight_messages -= delivery.messages\n",
        "            pass\n",
        _PUSH_TESTS,
    ),
    outside(
        "a delivery takes no bytes of the credit",
        _PUSH,
        "        self.credit_bytes -= event.size_bytes\n",
        "",
        _PUSH_TESTS,
    ),
    outside(
        "what was pushed begins again after a load that was dropped",
        "broker/delivery/push/sources.py",
        "        self._offset = load.offset\n",
        "        self._offset = load.next_offset\n",
        "tests/unit/broker/delivery/push/test_sources.py",
    ),
    outside(
        "readers are woken within the commit",
        "broker/partitions/readers.py",
        "                self._wakings.note(self)",
        "                self.wake_all()",
        _READER_TESTS,
    ),
    outside(
        "all readers are woken in one turn",
        "broker/partitions/readers.py",
        "for _ in range(READERS_WOKEN_PER_TURN_MAX):",
        "for _ in range(10_000):",
        _READER_TESTS,
    ),
    outside(
        "a reader that has gone is woken",
        "broker/partitions/readers.py",
        "        self._due.pop(waiter, None)\n",
        "",
        _READER_TESTS,
    ),
    outside(
        "a dead letter is told of before it is committed",
        "broker/delivery/dead_letters.py",
        "        await committed\n",
        "",
        "tests/unit/broker/delivery/test_dead_letters.py",
    ),
    outside(
        "a connection that ends takes what its member holds on another",
        _SHARES,
        "            if all(other.member != holder.member for other in share.holders):",
        "            if True:",
        f"{_SHARED_TESTS}::test_a_second_connection_of_a_member_keeps_what_it_holds",
    ),
    outside(
        "a member that has left takes a place of its connection",
        _SHARES,
        "        self._names[holder.connection] -= 1\n",
        "",
        f"{_SHARED_TESTS}::test_one_connection_speaks_for_so_many_members_and_no_more",
    ),
    outside(
        "a shared group waits for batches that compaction has taken",
        _LOG,
        "        skipped.insert(0, (first, found.base_offset))"
        "  # compaction has taken whole batches",
        "        pass",
        f"{_LOG_TESTS}::test_what_compaction_has_taken_is_not_waited_for",
    ),
    outside(
        "a shared group is told of messages that compaction has taken",
        _LOG,
        "            return False  # compaction has taken some",
        "            pass",
        f"{_LOG_TESTS}::test_what_compaction_has_taken_is_not_waited_for",
    ),
    outside(
        "the rest of a batch is passed over where the window has moved on within it",
        _LOG,
        "                if wanted is None or wanted < end:\n",
        "                if wanted is None:\n",
        f"{_LOG_TESTS}::test_what_is_behind_a_window_that_compaction_has_taken_is_not_lost",
    ),
    outside(
        "who asks again goes before those who have not begun",
        "broker/turns/fair_turns.py",
        "            if line:\n                self._waiting.append(client)",
        "            if line:\n                self._waiting.appendleft(client)",
        "tests/unit/broker/turns/test_fair_turns.py",
    ),
    outside(
        "what batches decompress to is not work of a filter",
        "broker/delivery/filtered.py",
        "        self._looked_bytes += max(0, selection.size_bytes - header.length)\n",
        "",
        "tests/unit/broker/delivery/test_filtered.py",
    ),
)
