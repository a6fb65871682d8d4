"""Messages come from outside: what no leader says is refused with a typed error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.errors import CorruptLog
from penstock.raft.messages import AppendRequest, BatchPlace, ResetRequest
from tests.kit.raft.node import THREE, A, B, batch, of

REQUEST = AppendRequest(
    term=5,
    previous_term=3,
    previous_offset=10,
    commit_offset=10,
    batches=(batch(10, 12, 3), batch(12, 13, 5), batch(13, 20, 5)),
)


def test_what_leaders_say_is_taken() -> None:
    REQUEST.check()
    replace(REQUEST, batches=()).check()
    assert REQUEST.end_offset == 20
    assert replace(REQUEST, batches=()).end_offset == 10


@pytest.mark.parametrize(
    "batches",
    [
        (batch(10, 10, 5),),
        (batch(10, 9, 5),),
        (batch(11, 12, 5),),
        (batch(9, 12, 5),),
        (batch(10, 12, 5), batch(13, 14, 5)),
        (batch(10, 12, 5), batch(11, 14, 5)),
        (batch(10, 12, 2),),
        (batch(10, 12, 6),),
        (batch(10, 12, 5), batch(12, 14, 4)),
        (batch(10, 12, 5, of()),),
        (batch(10, 12, 5, of(A, learners=(A, B))),),
    ],
    ids=[
        "empty",
        "backwards",
        "gap before",
        "before the position",
        "gap within",
        "overlap",
        "a term older than the one before",
        "a term that has not begun",
        "terms that fall",
        "nobody votes",
        "twice in one membership",
    ],
)
def test_what_is_no_log_is_refused(batches: tuple[BatchPlace, ...]) -> None:
    with pytest.raises(CorruptLog, match="The leader of term 5 sent what is no log"):
        replace(REQUEST, batches=batches).check()


@pytest.mark.parametrize("change", [{"previous_offset": -1}, {"previous_term": 6}])
def test_a_position_that_cannot_be_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(CorruptLog):
        replace(REQUEST, batches=(), **change).check()


def test_a_start_that_cannot_be_is_refused() -> None:
    request = ResetRequest(term=5, start_offset=100, start_term=4, membership=THREE)
    request.check()
    for wrong in (
        replace(request, start_offset=-1),
        replace(request, start_term=6),
        replace(request, membership=of()),
    ):
        with pytest.raises(CorruptLog, match="The leader of term 5 sent what is no start"):
            wrong.check()
