"""Where shared groups stand: told to the latest leader, changed by it alone, bounded, kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.coordination.group.records import read_key
from penstock.coordination.group.shared import states as share_states
from penstock.coordination.group.shared.messages import SharePlace
from penstock.coordination.group.shared.states import ShareStates
from penstock.model.errors import Busy, CorruptLog, InvalidRequest, StaleTerm

PLACE = SharePlace(topic="orders", topic_id="0a" * 16, partition=1, leader_term=3)


def led_in(term: int) -> SharePlace:
    return replace(PLACE, leader_term=term)


def test_the_leader_reads_and_writes() -> None:
    states = ShareStates()
    assert "g" not in states
    found, [taken] = states.take_over("g", PLACE)
    assert found.state == b""
    assert states.write("g", PLACE, b"one").key == taken.key
    found, records = states.take_over("g", PLACE)
    assert (found.state, records) == (b"one", []), "nothing to write down twice"


def test_after_the_next_leader_has_read_the_former_one_is_shut_out() -> None:
    """What one leader was told is settled is never undone by another one's write."""
    states = ShareStates()
    states.take_over("g", PLACE)
    states.write("g", PLACE, b"one")
    found, [record] = states.take_over("g", led_in(4))
    assert found.state == b"one"
    for act in (lambda: states.write("g", PLACE, b"two"), lambda: states.take_over("g", PLACE)):
        with pytest.raises(StaleTerm):
            act()
    again = ShareStates()
    again.apply(read_key(record.key), record.value)
    with pytest.raises(StaleTerm):
        again.write("g", PLACE, b"two")


def test_a_write_that_was_overtaken_is_refused() -> None:
    """Of one leader: it gave up on the first, and the second is what it goes by. Also after a
    restart of the coordinator. The next leader begins anew."""
    states = ShareStates()
    states.take_over("g", PLACE)
    record = states.write("g", replace(PLACE, sequence=8), b"second")
    assert states.take_over("g", PLACE)[0].sequence == 8
    again = ShareStates()
    again.apply(read_key(record.key), record.value)
    for each in (states, again):
        with pytest.raises(StaleTerm, match="number 8"):
            each.write("g", replace(PLACE, sequence=7), b"first")
        each.write("g", replace(PLACE, sequence=8), b"second")
        assert each.take_over("g", led_in(4))[0].sequence == 0
        each.write("g", replace(led_in(4), sequence=1), b"third")


def test_who_has_not_read_does_not_write() -> None:
    states = ShareStates()
    with pytest.raises(StaleTerm, match="read it first"):
        states.write("g", PLACE, b"state")
    states.take_over("g", PLACE)
    with pytest.raises(StaleTerm, match="read it first"):
        states.write("g", led_in(4), b"state")


def test_a_topic_that_was_made_again_is_another() -> None:
    states = ShareStates()
    states.take_over("g", led_in(9))
    states.write("g", led_in(9), b"of the first")
    other = replace(PLACE, topic_id="0b" * 16, leader_term=1)
    found, records = states.take_over("g", other)
    assert (found.state, len(records)) == (b"", 1)
    states.write("g", other, b"of the second")
    assert [one.state for one in states.of("g")] == [b"of the second"]


@pytest.mark.parametrize("state", [b"", bytes(65_537)])
def test_a_state_is_bounded(state: bytes) -> None:
    states = ShareStates()
    states.take_over("g", PLACE)
    with pytest.raises(InvalidRequest):
        states.write("g", PLACE, state)


def test_all_states_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_states, "SHARE_STATES_BYTES_MAX", 1_200)
    states = ShareStates()
    states.take_over("g", PLACE)
    states.write("g", PLACE, bytes(150))
    states.take_over("h", PLACE)
    with pytest.raises(Busy):
        states.write("h", PLACE, bytes(100))
    with pytest.raises(Busy):
        states.take_over("i", PLACE)
    states.write("g", PLACE, bytes(100))
    states.take_over("h", led_in(4))
    assert states.size_bytes == 2 * 512 + 100
    states.remove_group("g")
    states.take_over("i", PLACE)


def test_records_lead_to_the_same_states() -> None:
    states = ShareStates()
    states.take_over("g", PLACE)
    records = [states.write("g", PLACE, b"\x00\xff")]
    states.take_over("g", replace(PLACE, partition=2))
    removed = states.remove("g", "orders", 2)
    assert removed is not None
    assert states.remove("g", "orders", 2) is None
    again = ShareStates()
    for record in (*records, removed):
        again.apply(read_key(record.key), record.value)
    assert list(again) == list(states)
    assert again.size_bytes == states.size_bytes
    for record in states.remove_group("g"):
        again.apply(read_key(record.key), record.value)
    assert list(again) == []
    assert ("g" in again, again.size_bytes) == (False, 0)


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"[]", b'{"topic_id":"","leader_term":1,"state":"?"}', b'{"topic_id":"x"}'],
)
def test_what_cannot_be_read_is_told(value: bytes) -> None:
    states = ShareStates()
    states.take_over("g", PLACE)
    key = read_key(states.write("g", PLACE, b"state").key)
    with pytest.raises(CorruptLog, match="'g' stands in orders-1"):
        states.apply(key, value)
