"""What a leader knows of a follower: searching, pipelining, losing, beginning anew, keeping up."""

from __future__ import annotations

from penstock.model.limits import APPEND_REQUESTS_ON_THE_WAY_MAX
from penstock.raft.progress import Progress


def progress(next_offset: int = 100) -> Progress:
    return Progress(next_offset, now_ms=0)


def matching(offset: int = 100) -> Progress:
    known = progress(offset)
    known.sent(offset, now_ms=0)
    known.matched(offset)
    return known


def test_while_it_searches_one_request_is_on_the_way() -> None:
    follower = progress()
    assert follower.may_send(100)
    follower.sent(120, now_ms=5)
    assert not follower.may_send(200)
    assert (follower.next_offset, follower.is_waiting, follower.asked_ms) == (100, True, 5)


def test_an_answer_to_the_question_ends_the_search() -> None:
    follower = progress()
    follower.sent(120, now_ms=0)
    assert follower.matched(120)
    assert (follower.match_offset, follower.next_offset) == (120, 120)
    assert not follower.is_probing
    assert not follower.is_waiting


def test_less_than_was_asked_for_is_no_answer() -> None:
    """A follower says what it has when a flush ends, too: the search does not begin at its start,
    or the whole log would be sent again."""
    follower = progress()
    follower.sent(120, now_ms=0)
    assert follower.matched(30)
    assert (follower.is_probing, follower.next_offset, follower.match_offset) == (True, 100, 30)
    assert follower.is_waiting


def test_then_as_many_as_the_window_holds() -> None:
    follower = matching()
    for number in range(1, APPEND_REQUESTS_ON_THE_WAY_MAX + 1):
        assert follower.may_send(1_000)
        follower.sent(100 + number, now_ms=number)
    assert not follower.may_send(1_000)
    follower.matched(103)
    assert follower.may_send(1_000)
    assert not matching().may_send(100)


def test_a_match_never_goes_back() -> None:
    follower = matching()
    assert not follower.matched(50)
    assert not follower.matched(100)
    assert (follower.match_offset, follower.next_offset) == (100, 100)


def test_the_search_goes_no_further_back_than_what_matches() -> None:
    follower = matching()
    follower.look_at(40)
    assert (follower.next_offset, follower.is_probing) == (100, True)


def test_only_the_question_on_the_way_has_an_answer() -> None:
    follower = progress()
    assert follower.is_asked(100)
    assert not follower.is_asked(99)
    assert not follower.is_asked(-1)
    pipelining = matching()
    pipelining.sent(120, now_ms=0)
    assert pipelining.is_asked(120)
    assert not pipelining.is_asked(100)
    assert not pipelining.is_asked(121)


def test_what_was_lost_is_asked_again_where_it_was() -> None:
    follower = progress()
    follower.matched(30)
    follower.sent(120, now_ms=0)
    follower.start_over()
    assert (follower.next_offset, follower.is_waiting) == (100, False)


def test_what_was_lost_on_the_way_begins_where_the_logs_agree() -> None:
    follower = matching()
    follower.sent(120, now_ms=0)
    follower.sent(140, now_ms=0)
    follower.start_over()
    assert (follower.next_offset, follower.is_probing, follower.is_waiting) == (100, True, False)


def test_begun_anew_it_is_waited_for() -> None:
    follower = progress(10)
    follower.reset(500, now_ms=7)
    assert (follower.is_waiting, follower.may_send(900), follower.asked_ms) == (True, False, 7)
    follower.matched(10)
    assert follower.is_resetting
    follower.matched(500)
    assert (follower.is_waiting, follower.next_offset) == (False, 500)
    follower.reset(700, now_ms=9)
    follower.start_over()
    assert (follower.may_send(900), follower.next_offset) == (True, 700)


def test_under_load_it_keeps_up_if_it_has_what_there_was_a_moment_ago() -> None:
    """R-REP-3: a follower in sync never has everything while more keeps coming."""
    follower = matching()
    follower.compare(100, now_ms=10)
    assert follower.caught_up_ms == 10
    follower.compare(130, now_ms=20)
    assert follower.caught_up_ms == 10
    follower.matched(120)
    follower.compare(160, now_ms=30)
    assert follower.caught_up_ms == 10
    follower.matched(135)
    follower.compare(170, now_ms=40)
    assert follower.caught_up_ms == 20
    follower.matched(170)
    follower.compare(170, now_ms=50)
    assert follower.caught_up_ms == 50
