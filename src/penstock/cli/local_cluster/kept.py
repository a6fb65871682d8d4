"""What a local cluster keeps in its data folder beside its brokers: `cluster.journal`.

Not the cluster's facts, which the registry has: only what its command has to know before any of
its brokers runs. The invariants: who votes in the registry's meta servers never changes once it is
written, since servers that disagree about it could form two majorities; and where there is a
journal, no broker is started on its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, get_args

from penstock.broker.config import BrokerConfig
from penstock.broker.data_folder import check_ours
from penstock.model.errors import CorruptLog, InvalidConfig
from penstock.model.limits import BROKER_ID_MAX, META_SERVERS_MAX
from penstock.net.address import PORT_MAX
from penstock.storage.files.files import typed
from penstock.storage.files.journal import read_journal, write_journal
from penstock.storage.files.os_files import OsDirectory, make_folder

_JOURNAL: Final = "cluster.journal"
# The stamp of a broker's own folder, as `broker.data_folder` writes it.
_BROKER_META: Final = "meta"

RegistryKind = Literal["meta", "zookeeper", "given"]
"""Meta servers inside the brokers; a ZooKeeper that is started with them; one that was named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the next start of the cluster needs."""

    registry: RegistryKind
    voters: tuple[int, ...] = ()
    """The brokers that have a meta server in them."""
    ports: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Of each broker that there has been, one for each address it listened on."""
    zookeeper_port: int = 0

    @property
    def brokers(self) -> list[int]:
        return sorted(self.ports)


def read_kept(data: str) -> Kept | None:
    """What is kept in the folder; None if it holds no cluster."""
    payload = read_journal(OsDirectory(data), _JOURNAL)
    if payload is None:
        return None
    try:
        return _decoded(json.loads(payload))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(
            f"{data}/{_JOURNAL} cannot be understood ({error!r}): another version wrote it."
        ) from error


def write_kept(data: str, kept: Kept) -> None:
    """Make the folder if it is missing; durable when this returns. InvalidConfig if it is somebody
    else's."""
    check_ours(data)
    try:
        make_folder(data)
    except OSError as error:
        raise typed(error, f"making the data folder {data}") from error
    write_journal(OsDirectory(data), _JOURNAL, json.dumps(asdict(kept)).encode())


def holds_broker(data: str) -> bool:
    """Whether the folder itself is a broker's."""
    return os.path.exists(os.path.join(data, _BROKER_META))


def check_single(config: BrokerConfig) -> None:
    """InvalidConfig if a broker that is started by itself would split a cluster that the folder
    holds: the broker that was there first may be in it, but only as a member."""
    kept = read_kept(config.data)
    if kept is None or (config.registry and holds_broker(config.data)):
        return
    raise InvalidConfig(
        f"The data folder {config.data} holds a cluster: start all of it with "
        f"{command_of(kept)}, or choose another folder with --data."
    )


def command_of(kept: Kept) -> str:
    """The flags that start it again."""
    flags = f"--brokers {len(kept.ports)}"
    if kept.brokers[0] != BrokerConfig().broker_id:
        flags += f" --broker-id {kept.brokers[0]}"
    match kept.registry:
        case "meta":
            return flags
        case "zookeeper":
            return f"{flags} --with-zookeeper"
        case "given":
            return f"{flags} and its --registry"


def _decoded(fields: Mapping[str, Any]) -> Kept:
    registry = fields["registry"]
    if registry not in get_args(RegistryKind):
        raise ValueError(f"registry {registry!r}")
    voters = tuple(_number(voter, BROKER_ID_MAX) for voter in fields["voters"])
    ports = {
        _number(int(broker), BROKER_ID_MAX): tuple(_number(port, PORT_MAX) for port in each)
        for broker, each in fields["ports"].items()
    }
    if len(voters) > META_SERVERS_MAX or not set(voters) <= set(ports) or not ports:
        raise ValueError(f"voters {voters} among brokers {list(ports)}")
    return Kept(
        registry=registry,
        voters=voters,
        ports=ports,
        zookeeper_port=_number(fields["zookeeper_port"], PORT_MAX),
    )


def _number(value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no number up to {most}")
    return value
