"""Losses end a query, or are told and counted."""

from __future__ import annotations

import pytest

from penstock.model.ids import TopicPartition
from penstock.spark.errors import DataLoss
from penstock.spark.planning.loss import Loss
from penstock.spark.planning.loss_policy import OTHER_CHECKPOINT, settle
from tests.unit.spark.planning.test_loss import ZERO, Known, cut, deletion, removed, retention

KNOWN = Known([retention(0, 100)], [deletion("old", 100)])


def test_a_loss_is_an_error_that_says_how_to_go_on() -> None:
    with pytest.raises(DataLoss) as raised:
        settle([removed(0, 100)], KNOWN, fail=True, otherwise=OTHER_CHECKPOINT)
    assert str(raised.value).endswith(
        "at 2026-11-16 02:00:00 UTC. Start the query with failOnDataLoss=false to go on at offset "
        "100, or with a new checkpoint."
    )
    losses = [removed(0, 100), removed(0, 50)]
    with pytest.raises(DataLoss, match="to go on with what is there, or with a new checkpoint"):
        settle(losses, KNOWN, fail=True, otherwise=OTHER_CHECKPOINT)


def test_or_it_is_told_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    other = TopicPartition("orders", 1)
    read = Loss(kind="cut", partition=other, first=5, end=9, was_read=True)
    losses = [removed(0, 100), cut(120, 130), read]
    lost = settle(losses, KNOWN, fail=False, otherwise=OTHER_CHECKPOINT)
    assert lost == {ZERO: 110}, "what had been read is not missing"
    assert "Offsets 0 to 99 of orders[0] (100 messages) are gone" in caplog.text
    assert "orders[1]" in caplog.text


def test_a_topic_read_to_its_end_does_not_end_the_query(caplog: pytest.LogCaptureFixture) -> None:
    loss = Loss(kind="made anew", partition=ZERO, first=100, end=None, topic_id="old")
    assert settle([loss], KNOWN, fail=True, otherwise=OTHER_CHECKPOINT) == {}
    assert "had been read" in caplog.text
