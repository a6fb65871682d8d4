"""Which term an offset has: written, cut, dropped, saved and found again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import CorruptLog
from penstock.raft.terms import TermHistory, TermStart


def history(*ends: tuple[int, int], start_offset: int = 0, start_term: int = 0) -> TermHistory:
    """Of a log with batches of (term, end offset)."""
    terms = TermHistory(start_offset, start_term)
    for term, end_offset in ends:
        terms.extend(term, end_offset)
    return terms


def test_a_position_has_the_term_of_the_record_before_it() -> None:
    terms = history((1, 10), (1, 15), (3, 20))
    assert [terms.term_before(offset) for offset in (0, 1, 10, 15, 16, 20)] == [0, 1, 1, 1, 3, 3]
    assert terms.last_term == 3
    assert terms.begun == (TermStart(1, 0), TermStart(3, 15))


def test_only_a_new_term_is_news() -> None:
    terms = TermHistory()
    assert terms.extend(1, 10)
    assert not terms.extend(1, 20)
    assert terms.extend(2, 30)


def test_what_is_cut_is_forgotten() -> None:
    terms = history((1, 10), (2, 20), (3, 30))
    terms.truncate(20)
    assert (terms.last_term, terms.end_offset) == (2, 20)
    terms.truncate(5)
    assert (terms.last_term, terms.end_offset) == (1, 5)
    terms.truncate(0)
    assert (terms.last_term, terms.end_offset) == (0, 0)


def test_the_term_before_the_start_is_remembered() -> None:
    terms = history((1, 10), (2, 20))
    terms.drop_before(10)
    assert (terms.start_term, terms.term_before(10), terms.term_before(11)) == (1, 1, 2)
    terms.drop_before(20)
    assert (terms.start_term, terms.last_term) == (2, 2)
    terms.drop_before(15)
    assert terms.start_offset == 20


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (0, TermStart(1, 5)),
        (1, TermStart(1, 5)),
        (2, TermStart(2, 20)),
        (3, TermStart(2, 20)),
        (9, TermStart(4, 30)),
    ],
)
def test_the_furthest_place_that_a_term_allows(term: int, expected: TermStart) -> None:
    """KRaft: the largest term up to the one asked for, and where it ends."""
    terms = history((2, 20), (4, 30), start_offset=5, start_term=1)
    assert terms.last_place_of(term) == expected


def test_what_was_saved_before_it_was_written_is_left_out() -> None:
    begun = (TermStart(1, 0), TermStart(2, 10), TermStart(3, 20))
    terms = TermHistory.found(begun, 0, 20)
    assert (terms.last_term, terms.begun) == (2, begun[:2])


def test_a_start_that_moved_since_it_was_saved() -> None:
    begun = (TermStart(1, 0), TermStart(2, 10))
    terms = TermHistory.found(begun, 12, 20)
    assert (terms.start_term, terms.last_term) == (2, 2)
    assert TermHistory.found(begun, 10, 20).start_term == 1


def test_an_empty_log_knows_the_term_before_it() -> None:
    """After a reset: nothing is there, and what is missing was of term 5."""
    terms = TermHistory.found(TermHistory(100, 5).begun, 100, 100)
    assert (terms.start_term, terms.last_term, terms.term_before(100)) == (5, 5, 5)


def test_what_a_crash_brought_back_is_dropped_again() -> None:
    """A removed file may be there again after a power failure; its terms are forgotten."""
    terms = history((1, 10), (2, 20))
    terms.drop_before(10)
    for start_offset in (0, 5, 9):
        found = TermHistory.found(terms.begun, start_offset, 20)
        assert (found.start_offset, found.start_term, found.last_term) == (10, 1, 2)


def test_a_log_without_terms_is_refused() -> None:
    with pytest.raises(CorruptLog, match="Nobody knows the terms of a log from 5 to 9"):
        TermHistory.found((), 5, 9)


batches = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(steps=batches, data=st.data())
def test_saved_and_found_again_it_is_the_same(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Also where the log lost its end, and its start moved, since it was saved."""
    terms, term = TermHistory(), 1
    truth = [0]
    for more_terms, size in steps:
        term += more_terms
        terms.extend(term, terms.end_offset + size)
        truth += [term] * size
    terms.drop_before(data.draw(st.integers(0, terms.end_offset)))
    saved = terms.begun
    start_offset = data.draw(st.integers(terms.start_offset, terms.end_offset))
    end_offset = data.draw(st.integers(start_offset, terms.end_offset))
    found = TermHistory.found(saved, start_offset, end_offset)
    assert (found.start_offset, found.end_offset) == (start_offset, end_offset)
    for offset in range(start_offset, end_offset + 1):
        assert found.term_before(offset) == truth[offset], offset
    assert TermHistory.found(found.begun, start_offset, end_offset).begun == found.begun
