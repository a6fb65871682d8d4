"""How long the way of a message through the broker is: `python -m tools.flows [--json]`.

Calls of functions of Penstock, the modules they are in, changes from one module to another, the
depth of the stack, tasks and futures: of the broker's thread, for each message of a kind of flow.
Not times: those are in `benchmarks`. The invariant: nothing but the flow goes on while it is
counted, so two runs of the same code count the same, but for a timer now and then.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import confluent_kafka

import penstock
from penstock.broker.broker import Broker
from penstock.broker.config import BrokerConfig
from penstock.model.topic_config import TopicConfig
from penstock.records.builder import BatchBuilder

_SOURCE: Final = penstock.__path__[0]
_WARM_UP, _COUNTED = 20, 100
_COLUMNS: Final = ("calls", "modules", "switches", "depth", "tasks", "futures")

Flow = Callable[[int], Awaitable[object]]


@dataclass(slots=True)
class Counts:
    calls: int = 0
    switches: int = 0
    depth: int = 0
    tasks: int = 0
    futures: int = 0
    modules: set[str] = field(default_factory=set)


class CountingLoop(asyncio.SelectorEventLoop):
    """The loop of the broker's thread."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counts | None = None

    def create_future(self) -> asyncio.Future[Any]:
        if self.counts is not None:
            self.counts.futures += 1
        return super().create_future()

    def create_task(self, *args: Any, **how: Any) -> asyncio.Task[Any]:
        if self.counts is not None:
            self.counts.tasks += 1
        return super().create_task(*args, **how)

    def count(self, counts: Counts | None) -> None:
        self.counts = counts
        sys.setprofile(None if counts is None else self._profile)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or self.counts is None or not name.startswith(_SOURCE):
            return
        counts = self.counts
        counts.calls += 1
        counts.modules.add(name)
        depth, outer = 1, frame.f_back
        if outer is not None and outer.f_code.co_filename != name:
            counts.switches += outer.f_code.co_filename.startswith(_SOURCE)
        while outer is not None:
            depth += outer.f_code.co_filename.startswith(_SOURCE)
            outer = outer.f_back
        counts.depth = max(counts.depth, depth)


class RunningBroker:
    """A broker in a thread, that can be told to count."""

    def __init__(self, folder: str) -> None:
        self._config = BrokerConfig(
            listen=("127.0.0.1:0",), data=folder, topic_defaults=TopicConfig(durability="os")
        )
        self._ready: Future[str] = Future()
        self._loop = CountingLoop()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> str:
        self._thread.start()
        return self._ready.result()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def count(self, counts: Counts | None) -> None:
        done: Future[None] = Future()
        self._loop.call_soon_threadsafe(lambda: (self._loop.count(counts), done.set_result(None)))
        done.result()

    def _run(self) -> None:
        async def serve() -> None:
            async with Broker(self._config) as broker:
                self._ready.set_result(broker.addresses[0])
                await self._ending.wait()

        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(serve())


async def flows(mq: penstock.Client, address: str) -> dict[str, Flow]:
    """Each does with one message, whose number it is given, what its name says. What they open is
    closed with the client."""
    kafka = {"bootstrap.servers": address}
    kafka_producer = confluent_kafka.Producer({**kafka, "linger.ms": 0})
    for topic in ("native", "kafka", "shared", "delayed", "staged", "grouped"):
        await mq.admin.create_topic(topic, partitions=1)
    native, delayed = mq.consumer("native"), mq.consumer("delayed")
    grouped = mq.consumer("grouped", group="readers")
    shared = mq.share("shared", group="workers")
    kafka_consumer = confluent_kafka.Consumer({**kafka, "group.id": "no", "fetch.wait.max.ms": 100})
    kafka_consumer.assign([confluent_kafka.TopicPartition("kafka", 0, 0)])
    native_messages, delayed_messages = aiter(native), aiter(delayed)
    shared_messages, grouped_messages = aiter(shared), aiter(grouped)

    async def produce_kafka(_: int) -> None:
        kafka_producer.produce("native-of-kafka", b"x", partition=0)
        kafka_producer.flush()

    async def consume(_: int) -> None:
        await mq.publish("native", b"x")
        await anext(native_messages)

    async def consume_kafka(_: int) -> None:
        await mq.publish("kafka", b"x")
        while (await asyncio.to_thread(kafka_consumer.poll, 1.0)) is None:
            pass

    async def commit(_: int) -> None:
        await mq.publish("grouped", b"x")
        await (await anext(grouped_messages)).ack()
        await grouped.commit()

    async def share(_: int) -> None:
        await mq.publish("shared", b"x")
        await (await anext(shared_messages)).ack()
        await shared.commit()

    async def delay(_: int) -> None:
        await mq.publish("delayed", b"x", delay_s=0.001)
        await anext(delayed_messages)

    async def stage(number: int) -> None:
        builder = BatchBuilder(1024, 0)
        builder.append(1, None, b"x", ())
        async with mq.staged_write("w", number) as write:
            await write.stage("staged", 0, builder.build())
            attempt = await write.flush()
        await mq.commit_staged("w", number, [attempt])

    return {
        "produce": lambda _: mq.publish("native", b"x"),
        "produce by Kafka's protocol": produce_kafka,
        "publish, fetch": consume,
        "publish, fetch by Kafka's protocol": consume_kafka,
        "publish, fetch, commit": commit,
        "publish, lease, settle": share,
        "delay, fetch": delay,
        "stage, commit": stage,
    }


async def measure(broker: RunningBroker, address: str) -> dict[str, dict[str, float]]:
    found = {}
    async with penstock.connect(address) as mq:
        for name, flow in (await flows(mq, address)).items():
            for number in range(_WARM_UP):
                await flow(number)
            counts = Counts()
            broker.count(counts)
            for number in range(_WARM_UP, _WARM_UP + _COUNTED):
                await flow(number)
            broker.count(None)
            found[name] = {
                "calls": counts.calls / _COUNTED,
                "modules": len(counts.modules),
                "switches": counts.switches / _COUNTED,
                "depth": counts.depth,
                "tasks": counts.tasks / _COUNTED,
                "futures": counts.futures / _COUNTED,
            }
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = RunningBroker(folder)
        with broker as address:
            found = asyncio.run(measure(broker, address))
    if "--json" in sys.argv:
        print(json.dumps(found))
        return
    print(f"{'':36}", *(f"{column:>9}" for column in _COLUMNS))
    for name, counts in found.items():
        print(f"{name:36}", *(f"{counts[column]:9.1f}" for column in _COLUMNS))


if __name__ == "__main__":
    main()
