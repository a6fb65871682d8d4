"""What a person reads when messages were not delivered."""

from __future__ import annotations

from penstock.client.errors import DeliveryFailed, FailedDelivery
from penstock.model.errors import TimedOut


def failure(partition: int, count: int) -> FailedDelivery:
    return FailedDelivery(
        topic="orders", partition=partition, message_count=count, cause=TimedOut("Too late.")
    )


def test_one_sentence_with_the_numbers() -> None:
    error = DeliveryFailed([failure(0, 2), failure(1, 1)])
    assert str(error) == (
        "3 messages were not delivered (2 messages of orders-0: Too late.; "
        "1 message of orders-1: Too late.)."
    )
    assert error.failures[0].message_count == 2


def test_many_partitions_are_summed_up() -> None:
    error = DeliveryFailed([failure(number, 1) for number in range(10)])
    assert "10 messages" in str(error)
    assert "and 7 more partitions" in str(error)
