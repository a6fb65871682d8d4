"""What a local cluster consists of: the settings of each broker, from those of all of them.

Decides and checks; starts nothing and writes nothing. The invariants: brokers of one plan share
neither a folder nor a port, and a plan made of what an earlier one kept has the same brokers in the
same folders, and the same meta servers.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from penstock.broker.config import BROKER, META, BrokerConfig
from penstock.cli.local_cluster.kept import Kept, RegistryKind, command_of, holds_broker
from penstock.model.errors import InvalidConfig
from penstock.model.limits import BROKER_ID_MAX, HOST_LENGTH_MAX
from penstock.net.address import PORT_MAX, TcpAddress, parse_address
from penstock.registry.meta_address import parse_meta

# A process each: beyond it somebody has mistaken the flag for another.
BROKERS_MAX: Final = 100
# Three survive the death of one; more make changes slower. Two would stop with the death of either,
# so that one is better.
META_VOTERS: Final = 3
ZOOKEEPER_FOLDER: Final = "zookeeper"
_ZOOKEEPER_HOST: Final = "127.0.0.1"
_ZOOKEEPER_PATH: Final = "/penstock"
_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - a name

ChoosePort = Callable[[str, Collection[int]], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start, and what to keep for the next time."""

    brokers: tuple[BrokerConfig, ...]
    zookeeper: TcpAddress | None
    """Where a ZooKeeper of our own listens."""
    kept: Kept

    @property
    def reached(self) -> dict[int, str]:
        """Where each broker is reached on this machine."""
        return {broker.broker_id: str(_reached(broker)) for broker in self.brokers}

    @property
    def addresses(self) -> list[TcpAddress]:
        """All that the children will listen on."""
        listening = [_tcp(text) for broker in self.brokers for text in broker.listen]
        return [*listening, self.zookeeper] if self.zookeeper is not None else listening


def make_plan(
    config: BrokerConfig,
    brokers: int,
    *,
    with_zookeeper: bool,
    kept: Kept | None,
    choose_port: ChoosePort,
) -> Plan:
    """A plan for so many brokers on this machine. `config` is the first one's, with `data` the
    folder of all of them, and port 0 for one that is free and then kept."""
    _check_count(config, brokers)
    kind: RegistryKind = "zookeeper" if with_zookeeper else "given" if config.registry else "meta"
    if with_zookeeper and config.registry:
        raise InvalidConfig(
            "Both --with-zookeeper and a registry are given: leave one of them out."
        )
    ids = range(config.broker_id, config.broker_id + brokers)
    if kept is not None:
        _check_kept(config, ids, kind, kept)
    ports = _Ports(config, kept, choose_port)
    members = [_member(config, broker_id, ports.of(broker_id)) for broker_id in ids]
    zookeeper = TcpAddress(_ZOOKEEPER_HOST, ports.zookeeper()) if with_zookeeper else None
    voters = kept.voters if kept is not None else _voters(ids) if kind == "meta" else ()
    known = {**(kept.ports if kept is not None else {}), **{i: ports.of(i) for i in ids}}
    keep = Kept(
        registry=kind,
        voters=voters,
        ports=known,
        zookeeper_port=zookeeper.port if zookeeper is not None else 0,
    )
    registry = config.registry
    if zookeeper is not None:
        registry = f"zookeeper://{zookeeper}{_ZOOKEEPER_PATH}"
    elif voters:
        reached = (_reached(_member(config, voter, known[voter])) for voter in voters)
        servers = zip(voters, reached, strict=True)
        registry = "meta://" + ",".join(f"{voter}@{address}" for voter, address in servers)
    plan = Plan(
        brokers=tuple(_registered(member, registry, kind) for member in members),
        zookeeper=zookeeper,
        kept=keep,
    )
    for member in plan.brokers:
        member.validate()
    return plan


def folder_of(config: BrokerConfig, broker_id: int) -> str:
    """A folder of its own for each broker. One that was there alone stays where it is."""
    if broker_id == config.broker_id and holds_broker(config.data):
        return config.data
    return os.path.join(config.data, f"broker-{broker_id}")


class _Ports:
    """The ports of each broker, by the first one's addresses."""

    def __init__(self, config: BrokerConfig, kept: Kept | None, choose: ChoosePort) -> None:
        self._config = config
        self._kept = kept
        self._choose = choose
        self._taken: set[int] = set()
        if kept is not None:
            self._taken |= {port for each in kept.ports.values() for port in each}
            self._taken.add(kept.zookeeper_port)
        self._of: dict[int, tuple[int, ...]] = {}

    def of(self, broker_id: int) -> tuple[int, ...]:
        if broker_id not in self._of:
            kept = self._kept.ports.get(broker_id, ()) if self._kept is not None else ()
            self._of[broker_id] = tuple(
                self._port(_tcp(text), broker_id, kept[place] if place < len(kept) else 0)
                for place, text in enumerate(self._config.listen)
            )
        return self._of[broker_id]

    def zookeeper(self) -> int:
        kept = self._kept.zookeeper_port if self._kept is not None else 0
        return kept or self._free(_ZOOKEEPER_HOST)

    def _port(self, first: TcpAddress, broker_id: int, kept: int) -> int:
        if not first.port:
            return kept or self._free(first.host)
        return _later(first, broker_id - self._config.broker_id).port

    def _free(self, host: str) -> int:
        port = self._choose(host, self._taken)
        self._taken.add(port)
        return port


def _voters(ids: range) -> tuple[int, ...]:
    return tuple(ids[: META_VOTERS if len(ids) >= META_VOTERS else 1])


def _check_count(config: BrokerConfig, brokers: int) -> None:
    if not 1 <= brokers <= BROKERS_MAX:
        raise InvalidConfig(f"--brokers is {brokers}: it must be from 1 to {BROKERS_MAX}.")
    if config.broker_id + brokers - 1 > BROKER_ID_MAX:
        raise InvalidConfig(f"broker_id is too high for {brokers} brokers: choose a lower one.")


def _check_kept(config: BrokerConfig, ids: range, kind: RegistryKind, kept: Kept) -> None:
    if kind != kept.registry:
        raise InvalidConfig(
            f"The cluster in {config.data} has its registry elsewhere: start it with "
            f"{command_of(kept)}, or choose another folder with --data."
        )
    first = replace(config, broker_id=kept.brokers[0])
    for broker_id in kept.brokers:
        folder = folder_of(first, broker_id)
        if broker_id not in ids and os.path.isdir(folder):
            raise InvalidConfig(
                f"The cluster in {config.data} also has broker {broker_id}: start it with "
                f"{command_of(kept)}, or drain that broker and remove its folder {folder}."
            )


def _member(config: BrokerConfig, broker_id: int, ports: tuple[int, ...]) -> BrokerConfig:
    hosts = (_tcp(text).host for text in config.listen)
    distance = broker_id - config.broker_id
    return replace(
        config,
        broker_id=broker_id,
        data=folder_of(config, broker_id),
        listen=tuple(str(TcpAddress(*place)) for place in zip(hosts, ports, strict=False)),
        advertise=str(_later(_tcp(config.advertise), distance)) if config.advertise else "",
        # All of them fail together, and placement has to know.
        host=config.host or socket.gethostname()[:HOST_LENGTH_MAX],
    )


def _registered(member: BrokerConfig, registry: str, kind: RegistryKind) -> BrokerConfig:
    roles = member.roles if kind == "given" else (BROKER, META)
    if not registry.startswith("meta://") or member.broker_id not in parse_meta(registry):
        roles = (BROKER,)
    return replace(member, registry=registry, roles=roles)


def _reached(member: BrokerConfig) -> TcpAddress:
    """Where the others, on this machine, reach it."""
    address = _tcp(member.advertise or member.listen[0])
    return TcpAddress(_LOOPBACK.get(address.host, address.host), address.port)


def _later(first: TcpAddress, distance: int) -> TcpAddress:
    port = first.port + distance
    if not 1 <= port <= PORT_MAX:
        raise InvalidConfig(
            f"{first} leaves no port for the broker {distance} after the first: choose a lower one."
        )
    return TcpAddress(first.host, port)


def _tcp(text: str) -> TcpAddress:
    address = parse_address(text)
    if not isinstance(address, TcpAddress):
        raise InvalidConfig(
            f"The brokers of a cluster listen on host:port, not on {address}: say so with --listen."
        )
    return address
