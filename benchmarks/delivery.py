"""How many messages a second does a group of consumers take, each message leased to one of them and
acknowledged, with 1, 2, 4 and 8 consumers, which do nothing else or work on each for a millisecond;
and how long from the call that publishes a message until its handler has it, at 1,000 and 10,000
messages a second. If asked for, beside NATS JetStream and Redis Streams, each by its own Python
client.

Fair means: one topic in files, written before the clock starts; as many messages in a request;
every message acknowledged, and the last acknowledgement confirmed. The notes say what each has done
when it confirms: ours flushes what became of messages, the others flush later.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import budgets, delivery_clients, paced, servers, sharing
from benchmarks.load import percentile
from benchmarks.pairs import PacedClient
from benchmarks.report import Row
from benchmarks.servers import Server
from benchmarks.sharing import Shared, SharingClient, Work

PENSTOCK: Final = "Penstock"
NATS: Final = "NATS JetStream"
REDIS: Final = "Redis Streams"
PUSHED: Final = "Penstock, subscribe(push=True)"
SERVED: Final = "Penstock, serve with 8 handlers"
LEASED: Final = "Penstock, share"
_NOTES: Final = {
    PENSTOCK: "topic os; outcomes flushed before they are confirmed",
    NATS: "in files, flushed every 2 min; acknowledgements are not answered",
    REDIS: "append-only file, flushed every second; one XACK for each read",
}
_ONE_CONSUMER_PER_S_MIN: Final = 150_000
# Rounds that do not count: they start connections, files and code.
_WARM_UP_ROUNDS: Final = 1


@dataclass(frozen=True, slots=True)
class _Load:
    """A topic, and what its consumers do with it."""

    name: str
    topic: str
    value_bytes: int
    count: int
    work: Work = field(default_factory=Work)


_LOADS: Final = (
    _Load("100 B", "shared-100", 100, 100_000),
    _Load("1 kB", "shared-1000", 1000, 100_000),
    # Where consumers wait for something else, as most do, more of them take more.
    _Load("1 ms of work each", "shared-work", 100, 4_000, Work(batch=20, message_s=0.001)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A server, who takes messages from it together with others, and who has them pushed."""

    name: str
    server: Server
    create_topic: Callable[[str], None]
    sharing: SharingClient
    pushed: dict[str, PacedClient]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """One way of being told of messages, as `paced` measures it."""

    client: PacedClient
    server: Server
    create_topic: Callable[[str], None]


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    missing: list[Row] = []
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(servers.scratch_folder())
        subjects = [_penstock(stack, folder)]
        for name, start in ((NATS, _nats), (REDIS, _redis)) if peers else ():
            try:
                subjects.append(start(stack, folder))
            except ModuleNotFoundError as error:
                note = f"it needs the package {error.name}: install `penstock[peers]`"
                missing.append(Row("delivery", name, 0.0, "not measured", note))
            except servers.PeerMissing as error:
                missing.append(Row("delivery", name, 0.0, "not measured", str(error)))
        return [*missing, *_share(subjects, quick=quick), *_push(subjects, quick=quick)]


def _share(subjects: Sequence[Subject], *, quick: bool) -> list[Row]:
    rounds = 1 if quick else 3
    consumers_of = (1, 2) if quick else (1, 2, 4, 8)
    rows: list[Row] = []
    for load in _LOADS:
        count = load.count // 20 if quick else load.count
        runs: dict[int, dict[str, list[Shared]]] = defaultdict(lambda: defaultdict(list))
        for subject in subjects:
            subject.create_topic(load.topic)
            value = bytes(load.value_bytes)
            subject.sharing.produce(subject.server.bootstrap, load.topic, value, count)
        for number in range(_WARM_UP_ROUNDS + rounds):
            for consumers in consumers_of if number >= _WARM_UP_ROUNDS else consumers_of[:1]:
                for subject in subjects:
                    found = sharing.measure(
                        subject.sharing.share,
                        subject.server,
                        load.topic,
                        f"group-{load.topic}-{number}-{consumers}",
                        load.work,
                        consumers,
                        (count, count * load.value_bytes),
                    )
                    if number >= _WARM_UP_ROUNDS:
                        runs[consumers][subject.name].append(found)
        for consumers, of in runs.items():
            rows += _shared_rows(load, consumers, of)
    return rows


def _shared_rows(load: _Load, consumers: int, of: Mapping[str, Sequence[Shared]]) -> list[Row]:
    question = f"shared, {load.name}, {consumers} consumer{'s' * (consumers > 1)}"
    values = {name: median(one.per_s for one in found) for name, found in of.items()}
    rows: list[Row] = []
    for name, value in values.items():
        row = Row(question, name, value, "messages/s", _note(name, of[name]))
        if (name, load, consumers) == (PENSTOCK, _LOADS[0], 1):
            limit = _ONE_CONSUMER_PER_S_MIN
            row = replace(row, budget=f"≥ {limit:,} messages/s", met=value >= limit)
        rows.append(row)
    return rows + budgets.ratios(question, values, {(PENSTOCK, one): None for one in (NATS, REDIS)})


def _note(name: str, found: Sequence[Shared]) -> str:
    """How far the rounds were apart, what a message costs in CPU time, what was promised for it."""
    rates = [one.per_s for one in found]
    server_us = median(one.server_us for one in found)
    consumer_us = median(one.consumer_us for one in found)
    return (
        f"{min(rates):,.0f} to {max(rates):,.0f}; CPU {server_us:.1f} µs server, "
        f"{consumer_us:.1f} µs consumer; {_NOTES[name]}"
    )


def _push(subjects: Sequence[Subject], *, quick: bool) -> list[Row]:
    rounds, ticks = (1, 100) if quick else (3, 3_000)
    rows: list[Row] = []
    for per_tick in (1, 10):
        times_ns: dict[str, list[int]] = defaultdict(list)
        rates: dict[str, list[float]] = defaultdict(list)
        for number in range(_WARM_UP_ROUNDS + rounds):
            for position, (name, pace) in enumerate(_paces(subjects)):
                topic = f"push-{per_tick}-{position}-{number}"
                found = paced.measure(pace, topic, ticks, per_tick)
                if number >= _WARM_UP_ROUNDS:
                    times_ns[name] += found.latencies_ns
                    rates[name].append(found.per_s)
        for share in (0.5, 0.99):
            question = f"publish to handler, {per_tick * 1000:,} of 1 kB a second, p{share * 100:g}"
            for name, times in times_ns.items():
                note = f"at {median(rates[name]):,.0f} messages/s"
                rows.append(Row(question, name, percentile(times, share) / 1e6, "ms", note))
    return rows


def _paces(subjects: Sequence[Subject]) -> list[tuple[str, _Pace]]:
    return [
        (name, _Pace(client=client, server=one.server, create_topic=one.create_topic))
        for one in subjects
        for name, client in one.pushed.items()
    ]


def _penstock(stack: contextlib.ExitStack, folder: Path) -> Subject:
    server = stack.enter_context(servers.start_penstock(folder / "penstock"))
    return Subject(
        name=PENSTOCK,
        server=server,
        create_topic=lambda topic: servers.create_topic(server, topic, 1, "os"),
        sharing=delivery_clients,
        pushed={
            PUSHED: delivery_clients.Pushed(),
            SERVED: delivery_clients.Served(),
            LEASED: delivery_clients.Leased(),
        },
    )


def _nats(stack: contextlib.ExitStack, folder: Path) -> Subject:
    # Only here, because it asks for packages and programs that only the peer needs.
    from benchmarks import nats_peer

    server = stack.enter_context(nats_peer.start(folder / "nats"))
    return Subject(
        name=NATS,
        server=server,
        create_topic=lambda topic: nats_peer.create_topic(server, topic),
        sharing=nats_peer,
        pushed={f"{NATS}, push consumer": nats_peer},
    )


def _redis(stack: contextlib.ExitStack, folder: Path) -> Subject:
    from benchmarks import redis_peer

    server = stack.enter_context(redis_peer.start(folder / "redis"))
    return Subject(
        name=REDIS,
        server=server,
        create_topic=lambda topic: redis_peer.create_topic(server, topic),
        sharing=redis_peer,
        pushed={f"{REDIS}, XREADGROUP BLOCK": redis_peer},
    )
