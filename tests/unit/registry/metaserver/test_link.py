"""The way to the meta server that leads: found, lost, waited for no longer than asked."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from penstock.model.errors import InvalidRequest, RegistryUnavailable
from penstock.net.clock import SystemClock
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.facts import ReserveProducerIds
from penstock.registry.metaserver.entries import new_entry
from penstock.registry.metaserver.link import MetaLink
from tests.kit.registry.lone_meta_server import config, server
from tests.kit.simulated_disk import SimulatedDisk

FETCH = pb.MetaFetchRequest(seen_version=-1)


async def test_the_leader_is_asked() -> None:
    where = config()
    async with server(where, SimulatedDisk()):
        link = MetaLink(where, SystemClock())
        response, _ = await link.call(calls.META_FETCH, FETCH, patience_s=1, answer_s=1)
        assert response.version == -1
        await link.close()


async def test_a_refusal_is_the_answer_and_is_not_asked_for_again() -> None:
    where = config()
    async with server(where, SimulatedDisk()):
        link = MetaLink(where, SystemClock())
        request = pb.MetaChangeRequest(entry=new_entry(ReserveProducerIds(count=1)))
        with pytest.raises(InvalidRequest, match="no cluster yet"):
            await link.call(calls.META_CHANGE, request, patience_s=60, answer_s=1)
        await link.close()


async def test_where_nobody_is_whoever_has_no_patience_is_told_at_once() -> None:
    link = MetaLink(config(), SystemClock())
    with pytest.raises(RegistryUnavailable, match=r"do not serve .*Cannot connect"):
        await link.call(calls.META_FETCH, FETCH, patience_s=0, answer_s=1)
    await link.close()
    with pytest.raises(RegistryUnavailable, match="closed"):
        await link.call(calls.META_FETCH, FETCH, patience_s=60, answer_s=1)


async def test_servers_that_are_gone_do_not_hide_the_one_that_leads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    where = config()
    with_others = replace(where, servers={**where.servers, 8: "127.0.0.1:1", 9: "127.0.0.1:2"})
    async with server(where, SimulatedDisk()):
        link = MetaLink(with_others, SystemClock())
        for _ in range(50):
            # Its connection is there, so its answer may come in the same turn as their refusals.
            link._leader = None
            await link.call(calls.META_FETCH, FETCH, patience_s=1, answer_s=1)
        await link.close()
    gc.collect()
    assert "never retrieved" not in caplog.text
