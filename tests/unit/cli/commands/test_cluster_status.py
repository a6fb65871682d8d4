"""`penstock cluster status`: what is wrong with partitions and brokers, and what to do about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.cli.commands.cluster_status import advice, show_status, status_json, troubles
from penstock.client.admin.cluster import (
    BrokerStatus,
    ClusterStatus,
    OfflineCopy,
    PartitionStatus,
)
from tests.kit.broker.statuses import COPYING, WELL

LEADERLESS = replace(WELL, leader=None, voters=(), in_sync=(), is_reached=False)
OFFLINE = OfflineCopy(broker=3, reason="Its files are gone.")


def status(*partitions: PartitionStatus, dead: tuple[int, ...] = ()) -> ClusterStatus:
    return ClusterStatus(
        cluster_id="cluster",
        is_alone=False,
        brokers=tuple(
            BrokerStatus(
                broker=number,
                address="",
                host="",
                is_alive=number not in dead,
                is_drained=False,
                is_controller=number == 1,
                leaders=0,
                replicas=len(partitions),
                size_bytes=0,
            )
            for number in (1, 2, 3)
        ),
        partitions=partitions,
    )


def test_a_disk_that_refuses_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    found = status(WELL)
    full = replace(found.brokers[1], disk="The disk is full.")
    found = replace(found, brokers=(found.brokers[0], full, found.brokers[2]))
    assert list(advice(found)) == ["Broker 2 cannot write: The disk is full."]
    show_status(found, everything=False)
    assert "alive, cannot write" in capsys.readouterr().out
    brokers = status_json(found)["brokers"]
    assert isinstance(brokers, list)
    assert [each["disk"] for each in brokers] == [None, "The disk is full.", None]


@pytest.mark.parametrize(
    ("partition", "dead", "text"),
    [
        (WELL, (), ""),
        (replace(WELL, in_sync=(1, 2)), (), "3 behind"),
        (replace(WELL, in_sync=(1,)), (3,), "2 behind, 3 dead"),
        (replace(WELL, in_sync=(1, 2), offline=(OFFLINE,)), (), "3 offline"),
        (replace(WELL, is_reached=False), (), "moving"),
        (replace(WELL, voters=(1, 2), in_sync=(1, 2), is_reached=False), (3,), "moving, 3 dead"),
        (LEADERLESS, (), "no leader"),
        (replace(LEADERLESS, target=(1,), voters=(3,)), (3,), "no leader: 3 dead"),
        (LEADERLESS, (2,), "no leader: 2 dead"),
        (LEADERLESS, (2, 3), "no majority: 2 dead, 3 dead"),
        (replace(LEADERLESS, offline=(OFFLINE,)), (2,), "no majority: 2 dead, 3 offline"),
        (COPYING, (), "copied to 4 (2.0 KiB left), 5 (0 B left)"),
    ],
)
def test_what_is_wrong_with_a_partition(
    partition: PartitionStatus, dead: tuple[int, ...], text: str
) -> None:
    """R-REP-3: which copies are missing, of no use or behind is shown."""
    assert troubles(status(partition, dead=dead), partition) == text


def test_what_is_to_be_done() -> None:
    assert list(advice(status(WELL))) == []
    behind = replace(WELL, in_sync=(1, 3))
    assert list(advice(status(behind, dead=(2,)))) == [
        "Broker 2 is dead and has 1 copy: start it again, or let others have them with "
        "`penstock cluster drain 2`."
    ]
    first = next(iter(advice(status(LEADERLESS, WELL, dead=(2, 3)))))
    assert first == (
        "1 partition can be neither written nor read, most copies being away: start broker 2 or 3 "
        "with its folder; nothing else brings back all that was acknowledged."
    )
    offline = replace(WELL, in_sync=(1, 2), offline=(OFFLINE,))
    assert list(advice(status(offline))) == ["Broker 3 has 1 copy offline: Its files are gone."]


def test_it_is_shown_to_people_and_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    found = status(LEADERLESS, replace(WELL, topic="events"), dead=(2, 3))
    show_status(found, everything=False)
    shown = capsys.readouterr()
    assert "no majority: 2 dead, 3 dead" in shown.out
    assert "start broker 2 or 3" in shown.err
    partitions = status_json(found)["partitions"]
    assert isinstance(partitions, list)
    assert [each["majority"] for each in partitions] == [False, True]
    assert partitions[0]["troubles"] == "no majority: 2 dead, 3 dead"
    assert status_json(found)["advice"] == list(advice(found))
