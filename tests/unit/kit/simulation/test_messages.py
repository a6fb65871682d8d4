"""Messages say where they come from."""

from __future__ import annotations

from penstock.records.header import check_produced
from penstock.records.view import batches
from tests.kit.simulation.messages import Identity, batch_of, is_message, message, origin


def test_a_message_says_who_sent_it_and_which_it_is() -> None:
    _, value = message(7, 12)
    assert is_message(value)
    assert origin(value) == (7, 12)
    assert message(7, 1)[1] not in message(7, 12)[1]
    assert message(7, 12)[1] not in message(17, 12)[1]


def test_what_leaders_write_is_no_message() -> None:
    assert not any(is_message(value) for value in (None, b"", b"[[[1, 1]], []]", b"<7/12> "))


def test_a_batch_of_an_idempotent_producer_has_its_sequence() -> None:
    batch = batch_of(7, 12, 3, 1_000, Identity(7, 0))
    header = check_produced(memoryview(batch))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 12)
    records = next(batches(batch)).records()
    assert [origin(record.value or b"") for record in records] == [(7, 12), (7, 13), (7, 14)]
    plain = check_produced(memoryview(batch_of(7, 12, 3, 1_000, None)))
    assert (plain.producer_id, plain.base_sequence) == (-1, -1)
