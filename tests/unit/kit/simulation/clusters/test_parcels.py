"""A parcel is damaged where a checksum tells, and nowhere else."""

from __future__ import annotations

from random import Random

import pytest

from penstock.model.errors import BatchError
from penstock.records import build_batch
from penstock.records.header import check_batch
from tests.kit.simulation.clusters.parcels import Parcels
from tests.kit.simulation.timeline import Timeline
from tests.kit.simulation.trace import Trace

BATCH = bytes(build_batch([(None, b"value")]))


def arrived(payload: bytes, *, damage: float) -> set[bytes]:
    """What comes of a payload that is sent again and again."""
    timeline = Timeline(Random(5), Trace())
    network = Parcels(timeline)
    network.damage = damage
    payloads: set[bytes] = set()
    for _ in range(50):
        network.carry_parcel(1, 2, b"text", payload, lambda _, came: payloads.add(came))
    timeline.run_for(10_000)
    assert network.parcels == 50
    return payloads


def test_without_faults_it_comes_as_it_is() -> None:
    assert arrived(BATCH, damage=0.0) == {BATCH}


def test_damage_is_where_the_checksum_tells() -> None:
    payloads = arrived(BATCH, damage=1.0)
    assert payloads
    for payload in payloads:
        with pytest.raises(BatchError):
            check_batch(memoryview(payload))


def test_what_has_no_checksum_is_not_damaged() -> None:
    snapshot = b"0" * 200
    assert arrived(snapshot, damage=1.0) == {snapshot}
