"""What a broker tells Kafka's clients of where it is."""

from __future__ import annotations

import pytest

from penstock.broker.kafka.addresses import host_and_port
from penstock.model.errors import InvalidConfig


def test_a_host_and_a_port() -> None:
    assert host_and_port("broker.example:9092") == ("broker.example", 9092)
    assert host_and_port("[::1]:9092") == ("::1", 9092)


def test_a_unix_socket_is_no_address_for_a_kafka_client() -> None:
    with pytest.raises(InvalidConfig, match="advertise"):
        host_and_port("unix:/run/penstock.sock")
