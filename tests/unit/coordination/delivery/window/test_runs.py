"""Runs of equal state, held against a dictionary with a state for each offset."""

from __future__ import annotations

import random

from penstock.coordination.delivery.window.message_state import DONE, Kind, State
from penstock.coordination.delivery.window.runs import Runs

STATES = [
    DONE,
    State(Kind.AVAILABLE),
    State(Kind.AVAILABLE, 1),
    State(Kind.LEASED, 0, "a", 5),
    State(Kind.LEASED, 0, "b", 5),
]


def test_runs_are_what_a_dictionary_would_be() -> None:
    for seed in range(200):
        lot = random.Random(seed)
        runs, expected = Runs(100), dict[int, State]()
        for _ in range(40):
            if not expected or lot.random() < 0.2:
                end, state = runs.end + lot.randint(1, 5), lot.choice(STATES)
                begins = not expected or expected[runs.end - 1] != state
                expected.update((offset, state) for offset in range(runs.end, end))
                assert runs.append(end, state) is begins
            elif lot.random() < 0.1:
                moved = runs.drop_done()
                assert moved is (expected[min(expected)] == DONE)
                while expected and expected[min(expected)] == DONE:
                    del expected[min(expected)]
            else:
                first = lot.choice(sorted(expected))
                end, state = lot.randint(first + 1, runs.end), lot.choice(STATES)
                was_one_run = end in expected and expected[end] == expected[end - 1]
                expected.update((offset, state) for offset in range(first, end))
                # Whether a run begins behind that did not before.
                is_cut = was_one_run and expected[end] != state
                assert runs.put(first, end, state) is is_cut
            runs.check()
            told = {o: state for first, end, state in runs for o in range(first, end)}
            assert told == expected
            assert all(runs.state_at(offset) == state for offset, state in expected.items())


def test_pieces_are_cut_to_the_range_and_to_the_window() -> None:
    runs = Runs(10)
    runs.append(20, STATES[1])
    runs.append(30, STATES[3])
    assert runs.pieces(15, 25) == [(15, 20, STATES[1]), (20, 25, STATES[3])]
    assert runs.pieces(0, 100) == [(10, 20, STATES[1]), (20, 30, STATES[3])]
    assert runs.pieces(30, 40) == []
    assert runs.run_from(25) == (25, 30, STATES[3])
    assert runs.held == {"a": 10}


def test_an_empty_window_may_begin_elsewhere() -> None:
    runs = Runs(10)
    runs.begin_at(20)
    assert (runs.start, runs.end, list(runs)) == (20, 20, [])
    assert not runs.drop_done()
