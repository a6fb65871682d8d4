"""confluent-kafka, the client in C that a Python program would use otherwise, doing what
`penstock_client.py` does with ours.

Tuned in its favour, with large queues and batches, where ours has its defaults. Invariant: a
message counts as produced when its delivery has been confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import confluent_kafka

from benchmarks.pace import LINGER_MS, PROBE_S, TICK_S

_CONSUME_COUNT: Final = 10_000
_SILENCE_S_MAX: Final = 30.0


def produce(bootstrap: str, topic: str, value: bytes, count: int) -> float:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    start_s = time.perf_counter()
    send = producer.produce
    for number in range(count):
        while True:
            try:
                send(topic, value)
                break
            except BufferError:  # the queue is full: let deliveries go out
                producer.poll(0.01)
        if number % 10_000 == 0:
            producer.poll(0)
    _flush(producer)
    return time.perf_counter() - start_s


def consume(bootstrap: str, topic: str, value_bytes: int, count: int) -> float:
    start_s = time.perf_counter()
    consumer = _consumer(bootstrap, topic)
    try:
        seen = seen_bytes = 0
        while seen < count:
            wanted = min(_CONSUME_COUNT, count - seen)
            messages = consumer.consume(wanted, timeout=_SILENCE_S_MAX)
            assert messages, f"silence after {seen} of {count} messages"
            seen += len(messages)
            seen_bytes += sum(len(message.value()) for message in messages)
        assert (seen, seen_bytes) == (count, count * value_bytes)
        return time.perf_counter() - start_s
    finally:
        consumer.close()


def send_paced(
    bootstrap: str,
    topic: str,
    value_bytes: int,
    ticks: int,
    per_tick: int,
    wait_for_consumer: Callable[[], None],
) -> None:
    filling = bytes(value_bytes - 8)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": LINGER_MS}
    )
    producer.produce(topic, bytes(value_bytes))
    _flush(producer)
    wait_for_consumer()
    next_s = time.monotonic()
    for _ in range(ticks):
        for _ in range(per_tick):
            producer.produce(topic, time.monotonic_ns().to_bytes(8, "big") + filling)
        next_s += TICK_S
        producer.poll(0)
        time.sleep(max(0.0, next_s - time.monotonic()))
    _flush(producer)


def latencies_ns(
    bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
) -> list[int]:
    consumer = _consumer(bootstrap, topic)
    try:
        times: list[int] = []
        while len(times) < count:
            # One at a time: consume(n) waits until it has n.
            message = consumer.poll(_SILENCE_S_MAX)
            assert message is not None, f"silence after {len(times)} of {count} messages"
            value = message.value()
            assert value is not None, message.error()
            sent_ns = int.from_bytes(value[:8], "big")
            if sent_ns:
                times.append(time.monotonic_ns() - sent_ns)
            else:
                say_ready()
        return times
    finally:
        consumer.close()


def keep_sending(bootstrap: str, topic: str, tell: Callable[[int, int], None]) -> None:
    """A message each PROBE_S, until the process is ended; `tell` when each was sent, and when it
    was acknowledged."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": LINGER_MS, "log_level": 0}
    )
    while True:
        sent_ns = time.monotonic_ns()

        def acknowledged(
            error: confluent_kafka.KafkaError | None,
            _message: confluent_kafka.Message,
            sent_ns: int = sent_ns,
        ) -> None:
            assert error is None, error
            tell(sent_ns, time.monotonic_ns())

        producer.produce(topic, bytes(100), on_delivery=acknowledged)
        # One poll serves what is there; the time is for the next to come.
        producer.poll(0)
        time.sleep(PROBE_S)


def _consumer(bootstrap: str, topic: str) -> confluent_kafka.Consumer:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            # By default it stops fetching for a second when 100,000 messages are queued, and gets
            # a quarter of the speed it has with a larger queue.
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_000_000,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    return consumer


def _flush(producer: confluent_kafka.Producer) -> None:
    left = producer.flush(_SILENCE_S_MAX)
    assert left == 0, f"{left} messages were not delivered"
