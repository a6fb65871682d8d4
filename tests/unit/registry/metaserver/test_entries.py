"""Entries of the meta servers' log: read back as written, anything else refused."""

from __future__ import annotations

import pytest

from penstock.model.errors import CorruptFacts
from penstock.model.ids import TopicId
from penstock.registry.facts import CreateTopic
from penstock.registry.metaserver.entries import (
    Action,
    Confirm,
    Entry,
    MakeCluster,
    decode_entry,
    encode_entry,
    new_entry,
)
from tests.kit.registry.facts import ids

CREATION = CreateTopic(name="orders", id=TopicId("a" * 32), settings={}, placement=(ids(1),))


@pytest.mark.parametrize("action", [MakeCluster(cluster_id="cluster"), Confirm(), CREATION])
def test_an_entry_reads_back(action: Action) -> None:
    entry = Entry(b"0123456789abcdef", action)
    assert decode_entry(encode_entry(entry), "it") == entry


def test_each_has_an_id_of_its_own() -> None:
    assert decode_entry(new_entry(CREATION), "it").id != decode_entry(new_entry(CREATION), "it").id


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"format":1}',
        b'{"format":1,"id":"00","kind":"confirm"}',
        b'{"format":1,"id":"%s","kind":"nothing"}' % (b"0" * 32),
        b'{"format":1,"id":"%s","kind":"make_cluster","cluster_id":7}' % (b"0" * 32),
        b'{"format":2,"id":"%s","kind":"confirm"}' % (b"0" * 32),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFacts, match="it cannot be understood"):
        decode_entry(data, "it")
