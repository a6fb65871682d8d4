"""How long does nobody get an acknowledgement after the leader of a partition was killed (SIGKILL)?
Three replicas, acks=all, a message each few milliseconds; ten kills for each client with our
brokers and, where peers are asked for, a few with Kafka's, which need ten seconds each time.

A gap is the longest time between two acknowledgements around the kill, as a client in another
process sees it, whatever it had to do in it: notice, look for the new leader, send again. Before
the next kill the dead broker is back and has everything.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing.connection import Connection
from statistics import median
from typing import Final

from benchmarks import budgets, penstock_client, servers
from benchmarks.clusters import Cluster, PenstockCluster
from benchmarks.report import Row

_QUESTION: Final = "longest time without an acknowledgement, leader killed"
_RESUME_S_MAX: Final = 2.0
_WAIT_S_MAX: Final = 60.0
# What is looked at before a kill, and after the first acknowledgement that follows it.
_AROUND_S: Final = 0.5
_KILLS: Final = 10
_KILLS_PEER: Final = 3

KeepSending = Callable[[str, str, Callable[[int, int], None]], None]


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    kills = 1 if quick else _KILLS
    with servers.scratch_folder() as folder:
        rows = []
        with PenstockCluster(folder / "penstock") as ours:
            for durability in ("os", "fsync"):
                sender = penstock_client.keep_sending
                rows += _rows(f"Penstock, {durability}", _gaps(ours, durability, sender, kills))
            if peers:
                # Only here, because it asks for packages that only the peers need.
                from benchmarks import librdkafka

                gaps = _gaps(ours, "os", librdkafka.keep_sending, kills)
                rows += _rows("confluent-kafka, Penstock, os", gaps)
        if peers:
            from benchmarks import librdkafka
            from benchmarks.kafka_cluster import KafkaCluster

            with KafkaCluster(folder / "kafka") as kafka:
                kills = min(kills, _KILLS_PEER)
                gaps = _gaps(kafka, "os", librdkafka.keep_sending, kills)
                rows += _rows("confluent-kafka, Kafka", gaps)
        return rows


def _rows(subject: str, gaps_s: list[float]) -> list[Row]:
    middle = median(gaps_s)
    if "Penstock" in subject:
        first = budgets.at_most(f"{_QUESTION}, median", subject, middle, "s", _RESUME_S_MAX)
    else:
        first = Row(f"{_QUESTION}, median", subject, middle, "s")
    note = f"of {len(gaps_s)}: " + ", ".join(f"{gap_s:.2f}" for gap_s in sorted(gaps_s))
    return [first, Row(f"{_QUESTION}, worst", subject, max(gaps_s), "s", note)]


def _gaps(cluster: Cluster, durability: str, sender: KeepSending, kills: int) -> list[float]:
    topic = f"killed-{durability}-{sender.__module__.rpartition('.')[2]}"
    cluster.create_topic(topic, durability=durability)
    found = []
    for _ in range(kills):
        [led] = cluster.wait_until_whole(topic)
        cluster.wait_until_quiet()
        with _sending(sender, cluster.bootstrap, topic) as acknowledgements:
            found.append(_gap_s(cluster, led.leader, acknowledgements))
        cluster.start([led.leader])
    return found


def _gap_s(cluster: Cluster, leader: int, acknowledgements: Connection) -> float:
    """Kill the leader in the middle of it."""
    times_s = list(_until(acknowledgements, time.monotonic() + _AROUND_S))
    assert times_s, "messages are acknowledged before the leader is killed"
    killed_s = time.monotonic()
    cluster.kill(leader)
    # The first message that was sent after the kill and acknowledged, and some more.
    while True:
        assert acknowledgements.poll(_WAIT_S_MAX), f"nothing since {leader} was killed"
        sent_s, acknowledged_s = acknowledgements.recv()
        times_s.append(acknowledged_s)
        if sent_s > killed_s:
            break
    times_s += _until(acknowledgements, acknowledged_s + _AROUND_S)
    return max(later_s - earlier_s for earlier_s, later_s in pairwise(sorted(times_s)))


def _until(acknowledgements: Connection, deadline_s: float) -> Iterator[float]:
    while (left_s := deadline_s - time.monotonic()) > 0:
        if acknowledgements.poll(left_s):
            yield acknowledgements.recv()[1]


@contextmanager
def _sending(sender: KeepSending, bootstrap: str, topic: str) -> Iterator[Connection]:
    """A process that goes on sending: what it is told comes out of the pipe, with the time at
    which the message was sent."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_send, args=(sender, bootstrap, topic, theirs))
    process.start()
    theirs.close()  # so that the end of a broken sender is the end of the pipe
    try:
        assert ours.poll(_WAIT_S_MAX), "the first message was acknowledged"
        yield ours
    finally:
        process.terminate()
        process.join()
        ours.close()


def _send(sender: KeepSending, bootstrap: str, topic: str, answers: Connection) -> None:
    """The sender's process, until it is ended."""

    def tell(sent_ns: int, acknowledged_ns: int) -> None:
        answers.send((sent_ns / 1e9, acknowledged_ns / 1e9))

    sender(bootstrap, topic, tell)
