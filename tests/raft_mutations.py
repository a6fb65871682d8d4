"""Known bugs to plant in `src/penstock/raft`, one at a time: tests that do not notice are no tests.

Each takes the text `old`, which is in the file once, for `new`. Not the planting: whoever does that
works on a copy. The invariant, held by tests/tidy: every mutation still fits its file.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str


MUTATIONS = (
    Mutation(
        "vote not saved",
        "state.py",
        "vote=self.vote,",
        "vote=None,",
    ),
    Mutation(
        "vote in a known term not saved",
        "core.py",
        "state.vote = sender\n                state.is_unsaved = True",
        "state.vote = sender",
    ),
    Mutation(
        "term not saved",
        "state.py",
        "term=self.term,",
        "term=self.terms.last_term,",
    ),
    Mutation(
        "two votes a term",
        "core.py",
        "and state.vote in (None, sender)",
        "and state.vote != state.me",
    ),
    Mutation(
        "vote for a shorter log",
        "terms.py",
        "return (self.last_term, self.end_offset) <= (last_term, end_offset)",
        "return self.last_term <= last_term",
    ),
    Mutation(
        "vote for the longer log, whatever its term",
        "terms.py",
        "return (self.last_term, self.end_offset) <= (last_term, end_offset)",
        "return self.end_offset <= end_offset",
    ),
    Mutation(
        "a record of an old term committed by counting",
        "leadership.py",
        "offset > state.commit_offset and state.terms.term_before(offset) == state.term",
        "offset > state.commit_offset",
    ),
    Mutation(
        "a heartbeat's answer counted as an acknowledgement",
        "core.py",
        "progress.heard_ms = now_ms\n        elif",
        "progress.heard_ms = now_ms\n                progress.matched(self.state.terms.end_offset)"
        "\n                self.part.commit()\n        elif",
    ),
    Mutation(
        "a heartbeat's commit taken without looking",
        "following.py",
        "self._state.commit(min(offset, self._verified_offset))",
        "self._state.commit(min(offset, self._state.terms.end_offset))",
    ),
    Mutation(
        "an answer of another term counted",
        "core.py",
        "elif answer.term == self.state.term and isinstance(self.part, Leadership):",
        "elif isinstance(self.part, Leadership):",
    ),
    Mutation(
        "acknowledged before it is durable",
        "state.py",
        "self.terms.extend(batch.term, batch.end_offset):",
        "self.terms.extend(batch.term, batch.end_offset) or self.durable(batch.end_offset):",
    ),
    Mutation(
        "all acknowledged when a part is durable",
        "following.py",
        "end_offset = min(self._verified_offset, state.durable_offset)",
        "end_offset = self._verified_offset",
    ),
    Mutation(
        "the leader's own copy counted before it is durable",
        "leadership.py",
        "state.durable_offset if node == state.me",
        "state.terms.end_offset if node == state.me",
    ),
    Mutation(
        "what is committed may be cut",
        "following.py",
        "if offset < self._verified_offset:",
        "if offset < 0:",
    ),
    Mutation(
        "verified by another leader",
        "following.py",
        "self._verified_offset = state.commit_offset",
        "self._verified_offset = state.terms.end_offset",
    ),
    Mutation(
        "verified in another term",
        "following.py",
        "if verified_term == state.term:",
        "if verified_term >= 0:",
    ),
    Mutation(
        "logs taken for equal by the offset alone",
        "following.py",
        "if is_there and state.terms.term_before(offset) == request.previous_term:",
        "if is_there:",
    ),
    Mutation(
        "a batch taken for equal by the offset alone",
        "following.py",
        "return is_there and terms.term_before(batch.end_offset) == batch.term",
        "return is_there",
    ),
    Mutation(
        "nobody is true to a leader",
        "core.py",
        "if not request.is_transfer and self._has_leader(now_ms):",
        "if False:",
    ),
    Mutation(
        "no trial before a campaign",
        "core.py",
        "self._campaign(now_ms, is_trial=True)",
        "self._campaign(now_ms, is_trial=False)",
    ),
    Mutation(
        "a vote of a trial counted as a vote",
        "campaign.py",
        "if answer.is_trial == self.is_trial and answer.is_granted and answer.term == self.term:",
        "if answer.is_granted and answer.term == self.term:",
    ),
    Mutation(
        "votes of learners counted",
        "campaign.py",
        "for node in membership.voters)",
        "for node in self._votes)",
    ),
    Mutation(
        "copies of learners counted",
        "leadership.py",
        "for node in state.membership.voters\n        )",
        "for node in state.membership.nodes\n        )",
    ),
    Mutation(
        "a leader that nobody hears goes on",
        "core.py",
        "if leading.has_quorum(now_ms - self.state.timing.election_ms):",
        "if leading:",
    ),
    Mutation(
        "the back-off stays where it was",
        "leadership.py",
        "progress.look_at(min(ours.offset, answer.end_offset))",
        "progress.look_at(answer.asked_offset)",
    ),
    Mutation(
        "the back-off lands within a batch",
        "leadership.py",
        "progress.look_at(ours.offset)",
        "progress.look_at(min(ours.offset, answer.end_offset))",
    ),
    Mutation(
        "a lost request is not sent again",
        "leadership.py",
        "if progress.is_waiting and waited_ms >= self._state.timing.retry_ms:",
        "if False:",
    ),
    Mutation(
        "an old answer ends the search",
        "progress.py",
        "if self.is_probing and end_offset >= self.next_offset:",
        "if self.is_probing:\n            self.next_offset = self.match_offset",
    ),
    Mutation(
        "a membership changed before a record of the term is committed",
        "leadership.py",
        "            and state.terms.term_before(state.commit_offset) == state.term\n",
        "",
    ),
    Mutation(
        "a membership changed before the one before is committed",
        "leadership.py",
        "            and state.members.latest.offset < state.commit_offset\n",
        "",
    ),
    Mutation(
        "two voters changed at once",
        "membership.py",
        "len(self.voters ^ other.voters) <= 1",
        "len(self.voters ^ other.voters) <= 2",
    ),
    Mutation(
        "a membership that was cut stays",
        "state.py",
        "        self.members.truncate(offset)\n",
        "",
    ),
    Mutation(
        "a membership forgotten that a crash brings back",
        "state.py",
        "self.members.settle(min(self.commit_offset, self.durable_offset))",
        "self.members.settle(self.commit_offset)",
    ),
    Mutation(
        "a membership believed that was never written",
        "state.py",
        "self.is_unsaved = max(told) >= terms.end_offset",
        "self.is_unsaved = False",
    ),
    Mutation(
        "who is to leave cannot lead until it has",
        "state.py",
        "return any(self.me in at.membership.voters for at in self.members.known)",
        "return self.me in self.membership.voters",
    ),
    Mutation(
        "who has left goes on leading",
        "leadership.py",
        "return state.me not in latest.membership.voters and latest.offset < state.commit_offset",
        "return False",
    ),
    Mutation(
        "a log emptied that has the leader's start",
        "following.py",
        "is_needed = offset > self._verified_offset and not (\n"
        "            is_there and state.terms.term_before(offset) == request.start_term\n"
        "        )",
        "is_needed = offset > self._verified_offset",
    ),
    Mutation(
        "the term before the start forgotten",
        "terms.py",
        "if self.start_offset == 0:",
        "if self.start_offset >= 0:",
    ),
    Mutation(
        "a lone voter leads in a term that another may have led",
        "state.py",
        "return self.is_alone and self.vote == self.me and is_older",
        "return self.is_alone and self.vote == self.me",
    ),
    Mutation(
        "a lone voter sends what it may forget",
        "state.py",
        "return self.durable_offset if was_alone else self.terms.end_offset",
        "return self.terms.end_offset",
    ),
    Mutation(
        "written for one leader, counted for the next",
        "core.py",
        "if isinstance(self.part, Following) and request.term == self.state.term:",
        "if isinstance(self.part, Following):",
    ),
)
