"""Every client that we are tested with, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.system.kafka.drivers.aio import AiokafkaDriver
from tests.system.kafka.drivers.confluent import ConfluentDriver
from tests.system.kafka.drivers.driver import Driver
from tests.system.kafka.drivers.kafka_python import KafkaPythonDriver
from tests.system.kafka.drivers.kcat import KcatDriver
from tests.system.kafka.drivers.remote import JavaDriver, KafkajsDriver, PlatformaticDriver

DRIVERS: Final[dict[str, Callable[[str], Driver]]] = {
    "confluent-kafka": ConfluentDriver,
    "aiokafka": AiokafkaDriver,
    "kafka-python": KafkaPythonDriver,
    "kcat": KcatDriver,
    "kafkajs": KafkajsDriver,
    "platformatic": PlatformaticDriver,
    "java": JavaDriver,
}
NAMES: Final = tuple(DRIVERS)


class Clients:
    """The clients of one broker, each started when it is first asked for."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._started: dict[str, Driver] = {}

    def __getitem__(self, name: str) -> Driver:
        if name not in self._started:
            self._started[name] = DRIVERS[name](self._bootstrap)
        return self._started[name]

    def close(self) -> None:
        for driver in self._started.values():
            driver.close()
