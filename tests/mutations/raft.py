"""Known bugs of consensus, one text for another: see `tests.mutations.mutation`."""

from __future__ import annotations

from tests.mutations.mutation import one

RAFT = (
    one(
        "a copy that was let go votes as soon as it is made again",
        "raft/core.py",
        "is_behind = state.is_whole and state.terms",
        "is_behind = state.terms",
    ),
    one(
        "vote in a known term not saved",
        "raft/core.py",
        "state.vote = sender\n                state.is_unsaved = True",
        "state.vote = sender",
    ),
    one(
        "term not saved",
        "raft/state.py",
        "term=self.term,",
        "term=self.terms.last_term,",
    ),
    one(
        "vote for a shorter log",
        "raft/terms.py",
        "return (self.last_term, self.end_offset) <= (last_term, end_offset)",
        "return self.last_term <= last_term",
    ),
    one(
        "vote for the longer log, whatever its term",
        "raft/terms.py",
        "return (self.last_term, self.end_offset) <= (last_term, end_offset)",
        "return self.end_offset <= end_offset",
    ),
    one(
        "a heartbeat's commit taken without looking",
        "raft/following.py",
        "self._state.commit(min(offset, self._verified_offset))",
        "self._state.commit(min(offset, self._state.terms.end_offset))",
    ),
    one(
        "an answer of another term counted",
        "raft/core.py",
        "elif answer.term == self.state.term and isinstance(self.part, Leadership):",
        "elif isinstance(self.part, Leadership):",
    ),
    one(
        "acknowledged before it is durable",
        "raft/state.py",
        "self.terms.extend(batch.term, batch.end_offset):",
        "self.terms.extend(batch.term, batch.end_offset) or self.durable(batch.end_offset):",
    ),
    one(
        "all acknowledged when a part is durable",
        "raft/following.py",
        "end_offset = min(self._verified_offset, state.durable_offset)",
        "end_offset = self._verified_offset",
    ),
    one(
        "the leader's own copy counted before it is durable",
        "raft/leadership.py",
        "state.durable_offset if node == state.me",
        "state.terms.end_offset if node == state.me",
    ),
    one(
        "what is committed may be cut",
        "raft/following.py",
        "if offset < self._verified_offset:",
        "if offset < 0:",
    ),
    one(
        "verified by another leader",
        "raft/following.py",
        "self._verified_offset = state.commit_offset",
        "self._verified_offset = state.terms.end_offset",
    ),
    one(
        "verified in another term",
        "raft/following.py",
        "if verified_term == state.term:",
        "if verified_term >= 0:",
    ),
    one(
        "logs taken for equal by the offset alone",
        "raft/following.py",
        "if is_there and state.terms.term_before(offset) == request.previous_term:",
        "if is_there:",
    ),
    one(
        "a batch taken for equal by the offset alone",
        "raft/following.py",
        "return is_there and terms.term_before(batch.end_offset) == batch.term",
        "return is_there",
    ),
    one(
        "nobody is true to a leader",
        "raft/core.py",
        "if not request.is_transfer and _has_leader(self.part, now_ms - state.timing.election_ms):",
        "if False:",
    ),
    one(
        "no trial before a campaign",
        "raft/core.py",
        "self._campaign(now_ms, is_trial=True)",
        "self._campaign(now_ms, is_trial=False)",
    ),
    one(
        "a vote of a trial counted as a vote",
        "raft/campaign.py",
        "if answer.is_trial != self.is_trial or (answer.is_granted and answer.term != self.term):",
        "if answer.is_granted and answer.term != self.term:",
    ),
    one(
        "votes of learners counted",
        "raft/campaign.py",
        "for node in membership.voters)",
        "for node in self._votes)",
    ),
    one(
        "copies of learners counted",
        "raft/leadership.py",
        "for node in state.membership.voters\n        )",
        "for node in state.membership.nodes\n        )",
    ),
    one(
        "a leader that nobody hears goes on",
        "raft/core.py",
        "if self.part.has_quorum(now_ms - state.timing.election_ms):",
        "if self.part:",
    ),
    one(
        "the back-off stays where it was",
        "raft/leadership.py",
        "progress.look_at(min(ours.offset, answer.end_offset))",
        "progress.look_at(answer.asked_offset)",
    ),
    one(
        "the back-off lands within a batch",
        "raft/leadership.py",
        "progress.look_at(ours.offset)",
        "progress.look_at(min(ours.offset, answer.end_offset))",
    ),
    one(
        "a lost request is not sent again",
        "raft/leadership.py",
        "if progress.is_waiting and waited_ms >= self._state.timing.retry_ms:",
        "if False:",
    ),
    one(
        "an old answer ends the search",
        "raft/progress.py",
        "if self.is_probing and end_offset >= self.next_offset:",
        "if self.is_probing:\n            self.next_offset = self.match_offset",
    ),
    one(
        "a membership changed before a record of the term is committed",
        "raft/leadership.py",
        "            and state.terms.term_before(state.commit_offset) == state.term\n",
        "",
    ),
    one(
        "a membership changed before the one before is committed",
        "raft/leadership.py",
        "            and state.members.latest.offset < state.commit_offset\n",
        "",
    ),
    one(
        "two voters changed at once",
        "raft/membership.py",
        "len(self.voters ^ other.voters) <= 1",
        "len(self.voters ^ other.voters) <= 2",
    ),
    one(
        "a membership that was cut stays",
        "raft/state.py",
        "        self.members.truncate(offset)\n",
        "",
    ),
    one(
        "a membership forgotten that a crash brings back",
        "raft/state.py",
        "self.members.settle(settled_offset)",
        "self.members.settle(self.commit_offset)",
    ),
    one(
        "a membership believed that was never written",
        "raft/state.py",
        "self.is_unsaved = max(told) >= terms.end_offset",
        "self.is_unsaved = False",
    ),
    one(
        "who is to leave cannot lead until it has",
        "raft/state.py",
        "any(self.me in at.membership.voters for at in self.members.known)",
        "self.me in self.membership.voters",
    ),
    one(
        "who has left goes on leading",
        "raft/leadership.py",
        "return state.me not in latest.membership.voters and latest.offset < state.commit_offset",
        "return False",
    ),
    one(
        "a log emptied that has the leader's start",
        "raft/following.py",
        "is_needed = offset > self._verified_offset and not (\n"
        "            is_there and state.terms.term_before(offset) == request.start_term\n"
        "        )",
        "is_needed = offset > self._verified_offset",
    ),
    one(
        "the term before the start forgotten",
        "raft/terms.py",
        "if self.start_offset == 0:",
        "if self.start_offset >= 0:",
    ),
    one(
        "a lone voter leads in a term that another may have led",
        "raft/state.py",
        "return self.is_alone and self.vote == self.me and is_older",
        "return self.is_alone and self.vote == self.me",
    ),
    one(
        "a lone voter sends what it may forget",
        "raft/state.py",
        "return self.durable_offset if was_alone else self.terms.end_offset",
        "return self.terms.end_offset",
    ),
    one(
        "written for one leader, counted for the next",
        "raft/core.py",
        "if isinstance(self.part, Following) and request.term == self.state.term:",
        "if isinstance(self.part, Following):",
    ),
)
