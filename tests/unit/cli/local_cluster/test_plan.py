"""From one configuration and a number to the brokers of a cluster."""

from __future__ import annotations

import socket
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.config import BrokerConfig
from penstock.cli.local_cluster.kept import Kept
from penstock.cli.local_cluster.plan import Plan, make_plan
from penstock.model.errors import InvalidConfig
from penstock.net.address import TcpAddress


def choose(host: str, taken: Collection[int]) -> int:
    return next(port for port in range(20_000, 30_000) if port not in taken)


def plan(
    config: BrokerConfig, brokers: int = 3, *, kept: Kept | None = None, **choices: Any
) -> Plan:
    choices = {"with_zookeeper": False, **choices}
    return make_plan(config, brokers, kept=kept, choose_port=choose, **choices)


def config_of(folder: Path, **settings: Any) -> BrokerConfig:
    return BrokerConfig(data=str(folder), **settings)


def test_three_brokers_with_the_registry_inside(tmp_path: Path) -> None:
    """R-REP-5: no other process is needed."""
    made = plan(config_of(tmp_path, partitions_default=4))
    assert [broker.broker_id for broker in made.brokers] == [1, 2, 3]
    assert [broker.listen for broker in made.brokers] == [
        ("127.0.0.1:9092",),
        ("127.0.0.1:9093",),
        ("127.0.0.1:9094",),
    ]
    assert [broker.data for broker in made.brokers] == [
        f"{tmp_path}/broker-{number}" for number in (1, 2, 3)
    ]
    registry = "meta://1@127.0.0.1:9092,2@127.0.0.1:9093,3@127.0.0.1:9094"
    assert {broker.registry for broker in made.brokers} == {registry}
    assert {broker.roles for broker in made.brokers} == {("broker", "meta")}
    assert {broker.host for broker in made.brokers} == {socket.gethostname()}
    assert {broker.partitions_default for broker in made.brokers} == {4}
    assert made.zookeeper is None
    assert made.addresses == [TcpAddress("127.0.0.1", port) for port in (9092, 9093, 9094)]


def test_the_registry_is_in_three_of_many_and_in_one_of_few(tmp_path: Path) -> None:
    """R-REP-5: as many as `penstock metaserver` takes, since two survive no more than one."""
    roles = [broker.roles for broker in plan(config_of(tmp_path), 5).brokers]
    assert roles == [("broker", "meta")] * 3 + [("broker",)] * 2
    assert plan(config_of(tmp_path), 1).kept.voters == (1,)
    two = plan(config_of(tmp_path), 2)
    assert two.kept.voters == (1,)
    assert [broker.roles for broker in two.brokers] == [("broker", "meta"), ("broker",)]


def test_free_ports_are_chosen_once_and_kept(tmp_path: Path) -> None:
    config = config_of(tmp_path, listen=("127.0.0.1:0", "127.0.0.1:0"))
    made = plan(config)
    assert made.kept.ports == {1: (20000, 20001), 2: (20002, 20003), 3: (20004, 20005)}
    assert plan(config, kept=made.kept).brokers == made.brokers
    grown = plan(config, 4, kept=made.kept)
    assert grown.brokers[:3] == made.brokers
    assert grown.brokers[3].listen == ("127.0.0.1:20006", "127.0.0.1:20007")
    assert grown.brokers[3].roles == ("broker",), "who votes does not change"


def test_named_ports_are_taken_whatever_was_kept(tmp_path: Path) -> None:
    kept = plan(config_of(tmp_path, listen=("127.0.0.1:0",))).kept
    made = plan(config_of(tmp_path), kept=kept)
    assert made.brokers[2].listen == ("127.0.0.1:9094",)
    assert made.brokers[2].registry.endswith("3@127.0.0.1:9094")
    assert made.kept.ports == {1: (9092,), 2: (9093,), 3: (9094,)}


def test_a_cluster_of_two_that_grows_keeps_its_one_voter(tmp_path: Path) -> None:
    kept = plan(config_of(tmp_path), 2).kept
    made = plan(config_of(tmp_path), 3, kept=kept)
    assert made.kept.voters == (1,)
    assert made.brokers[2].registry == "meta://1@127.0.0.1:9092"


def test_a_broker_that_was_there_alone_stays_where_it_is(tmp_path: Path) -> None:
    """R-REP-6: grown to a cluster without losing its data."""
    (tmp_path / "meta").touch()
    made = plan(config_of(tmp_path))
    assert [broker.data for broker in made.brokers] == [
        str(tmp_path),
        f"{tmp_path}/broker-2",
        f"{tmp_path}/broker-3",
    ]


def test_every_interface_is_reached_by_the_loopback(tmp_path: Path) -> None:
    for host, reached in (("0.0.0.0", "127.0.0.1"), ("", "127.0.0.1"), ("[::]", "[::1]")):
        made = plan(config_of(tmp_path, listen=(f"{host}:9092",)), 2)
        assert made.brokers[0].registry == f"meta://1@{reached}:9092"
        assert made.reached == {1: f"{reached}:9092", 2: f"{reached}:9093"}
    made = plan(config_of(tmp_path, advertise="example.org:9092", host="rack 1"), 2)
    assert [broker.advertise for broker in made.brokers] == ["example.org:9092", "example.org:9093"]
    assert made.brokers[0].registry == "meta://1@example.org:9092"
    assert made.brokers[0].host == "rack 1"


def test_a_zookeeper_of_our_own(tmp_path: Path) -> None:
    """R-REP-4."""
    made = plan(config_of(tmp_path), 2, with_zookeeper=True)
    assert made.zookeeper == TcpAddress("127.0.0.1", 20000)
    assert made.addresses[-1] == made.zookeeper
    for broker in made.brokers:
        assert (broker.registry, broker.roles) == (
            "zookeeper://127.0.0.1:20000/penstock",
            ("broker",),
        )
    again = plan(config_of(tmp_path), 2, with_zookeeper=True, kept=made.kept)
    assert again.zookeeper == made.zookeeper


def test_a_registry_that_is_named(tmp_path: Path) -> None:
    """Several machines have brokers of one cluster: DESIGN's eight brokers on eight cores."""
    config = config_of(tmp_path, registry="zookeeper://ann:secret@h1:2181/p", broker_id=9)
    made = plan(config, 2)
    assert [broker.broker_id for broker in made.brokers] == [9, 10]
    assert [broker.listen[0] for broker in made.brokers] == ["127.0.0.1:9092", "127.0.0.1:9093"]
    assert {broker.registry for broker in made.brokers} == {config.registry}
    assert {broker.roles for broker in made.brokers} == {("broker",)}
    assert "secret" not in repr(made)


def test_meta_servers_that_are_named_run_where_they_are_named(tmp_path: Path) -> None:
    config = config_of(tmp_path, registry="meta://1@h1:9092,8@h2:9092,9@h3:9092")
    assert [broker.roles for broker in plan(config, 2).brokers] == [("broker",)] * 2
    config = replace(config, roles=("broker", "meta"))
    assert [broker.roles for broker in plan(config, 2).brokers] == [("broker", "meta"), ("broker",)]


@pytest.mark.parametrize(
    ("settings", "choices", "message"),
    [
        ({}, {"brokers": 0}, "--brokers is 0"),
        ({}, {"brokers": 101}, "from 1 to 100"),
        ({"broker_id": 2**31 - 2}, {}, "broker_id is too high"),
        ({"listen": ("unix:/tmp/socket",)}, {}, r"listen on host:port, not on unix:/tmp/socket"),
        ({"listen": ("127.0.0.1:65534",)}, {}, "leaves no port for the broker 2 after"),
        ({"registry": "zookeeper://h1"}, {"with_zookeeper": True}, "leave one of them out"),
    ],
)
def test_what_cannot_be_planned(
    tmp_path: Path, settings: dict[str, Any], choices: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        plan(config_of(tmp_path, **settings), **choices)


def test_a_cluster_keeps_to_its_registry(tmp_path: Path) -> None:
    kept = plan(config_of(tmp_path)).kept
    with pytest.raises(InvalidConfig, match="start it with --brokers 3, or"):
        plan(config_of(tmp_path), kept=kept, with_zookeeper=True)
    with pytest.raises(InvalidConfig, match="start it with --brokers 3, or"):
        plan(config_of(tmp_path, registry="zookeeper://h1"), kept=kept)


def test_no_broker_is_left_out_that_may_have_data(tmp_path: Path) -> None:
    kept = plan(config_of(tmp_path)).kept
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-3").mkdir()
    with pytest.raises(InvalidConfig, match=r"also has broker 3: .* remove its folder .*/broker-3"):
        plan(config_of(tmp_path), 2, kept=kept)
    with pytest.raises(InvalidConfig, match="also has broker 1"):
        plan(config_of(tmp_path, broker_id=2), 2, kept=kept)
    (tmp_path / "broker-3").rmdir()
    shrunk = plan(config_of(tmp_path), 2, kept=kept)
    assert shrunk.kept.voters == (1, 2, 3)
    assert shrunk.brokers[0].registry.endswith("3@127.0.0.1:9094")


def test_the_broker_that_grew_is_not_left_out_either(tmp_path: Path) -> None:
    (tmp_path / "meta").touch()
    kept = plan(config_of(tmp_path)).kept
    with pytest.raises(InvalidConfig, match=f"broker 1: .* its folder {tmp_path}"):
        plan(config_of(tmp_path, broker_id=2), 2, kept=kept)
