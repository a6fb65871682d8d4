"""The registry of a broker on its own (R-REP-6): one journal in the data folder, nothing to start.

The journal is written whole at every change: new file, flush, rename. It has no placement in it,
since there is one place. The invariant: the image is replaced only after the journal that holds it
is durable, so what was answered survives a crash.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any, Final

from penstock.model.errors import CorruptLog, InvalidRequest, PenstockError, StorageError
from penstock.model.ids import BrokerId, TopicId
from penstock.registry.api import Registry
from penstock.registry.facts import (
    Adopt,
    Change,
    DrainBroker,
    Facts,
    RegisterBroker,
    apply,
)
from penstock.registry.facts_json import (
    broker_settings_fields,
    deletion_fields,
    first_term_fields,
    read_broker_settings,
    read_deletion,
    read_first_term,
)
from penstock.registry.image import BrokerImage, PartitionImage, TopicImage, placed
from penstock.registry.quorum import Quorum, Voter
from penstock.storage.files.files import Directory, typed
from penstock.storage.files.journal import read_journal, write_journal

logger = logging.getLogger(__name__)

_JOURNAL: Final = "registry.journal"


class EmbeddedRegistry(Registry):
    """Of one broker."""

    def __init__(
        self, data: Directory, broker_id: BrokerId, cluster_id: str, *, directory: int = 0
    ) -> None:
        """directory: which data folder this is, as `BrokerImage` has it."""
        self._data = data
        # Topics are placed on it before it knows where clients reach it.
        here = BrokerImage(id=broker_id, address="", directory=directory)
        self._here = placed((here.id,), (here.node,))
        self._changing = asyncio.Lock()
        facts = Facts(cluster_id=cluster_id, brokers={here.id: here})
        self._written = read_journal(data, _JOURNAL)
        if self._written is not None:
            facts = self._loaded(facts, self._written)
        self._facts = facts
        super().__init__(facts.image(controller=here.id))

    @property
    def facts(self) -> Facts:
        """All that is kept, for the registry of a cluster to adopt."""
        return self._facts

    @property
    def is_controller(self) -> bool:
        return True

    async def register_broker(self, broker: BrokerImage) -> None:
        # Not in the journal: where the broker is reached is told anew at every start. Nor where its
        # folder is: nobody else is told of it.
        async with self._changing:
            self._keep(apply(self._facts, RegisterBroker(broker=replace(broker, place=0))))

    async def catch_up(self) -> None:
        """Every change is made here."""

    async def describe_quorum(self) -> Quorum:
        """It alone, with as many changes as it has made since its start."""
        me, end_offset = self._here.replicas[0], self._facts.version
        address = self._facts.brokers[me].address
        voters = (Voter(me, address, end_offset),)
        return Quorum(leader=me, term=0, commit_offset=end_offset, voters=voters)

    async def close(self) -> None:
        """There is nobody to leave."""

    async def change(self, change: Change) -> Facts:
        if isinstance(change, Adopt | DrainBroker):
            raise InvalidRequest("This broker is on its own: that is for brokers of a cluster.")
        async with self._changing:
            before = self._facts
            await self._write(apply(before, change))
            return before

    def _keep(self, facts: Facts) -> None:
        self._facts = facts
        self._install(facts.image(controller=self._image.controller))

    async def _write(self, facts: Facts) -> None:
        payload = _encoded(facts)
        # Off the loop, because it flushes; under the lock, so that journals keep their order.
        writing = asyncio.ensure_future(asyncio.to_thread(self._replace_journal, payload))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # A thread cannot be cancelled, and must not write when others think it is over.
            await asyncio.wait([writing])
            raise
        except StorageError:
            if self._written == payload:
                # It could not be undone: what was refused is what a restart will find.
                self._keep(facts)
            raise
        self._keep(facts)

    def _replace_journal(self, payload: bytes) -> None:
        try:
            write_journal(self._data, _JOURNAL, payload)
            self._written = payload
        except StorageError:
            self._put_back(payload)
            raise

    def _put_back(self, refused: bytes) -> None:
        """If what was refused is in place all the same, put back what still holds: or it would be
        true after a restart. If that fails too, it is what holds from now on."""
        try:
            if self._written is not None and read_journal(self._data, _JOURNAL) == refused:
                write_journal(self._data, _JOURNAL, self._written)
        except StorageError as error:
            logger.error("%s could not be put back as it was: %s", _JOURNAL, error)
            self._written = refused

    def _loaded(self, facts: Facts, data: bytes) -> Facts:
        try:
            fields: dict[str, Any] = json.loads(data)
            return replace(
                facts,
                next_producer_id=int(fields["next_producer_id"]),
                topics={
                    topic.name: topic
                    for topic in (_topic(entry, self._here) for entry in fields["topics"])
                },
                # Earlier versions did not remember them.
                deleted_topics=tuple(map(read_deletion, fields.get("deleted_topics", ()))),
                first_term=read_first_term(fields),
                broker_settings=read_broker_settings(fields),
            )
        except (ValueError, KeyError, TypeError, AttributeError, PenstockError) as error:
            raise CorruptLog(
                f"{_JOURNAL} cannot be understood ({error!r}): it was written by another version."
            ) from error


def retire(data: Directory) -> None:
    """A cluster has adopted the facts: they are kept aside, and never read again."""
    try:
        if data.exists(_JOURNAL):
            data.rename(_JOURNAL, f"{_JOURNAL}.adopted")
            data.flush()
    except OSError as error:
        raise typed(error, f"setting {_JOURNAL} aside") from error


def _encoded(facts: Facts) -> bytes:
    return json.dumps(
        {
            "next_producer_id": facts.next_producer_id,
            "topics": [
                {
                    "name": topic.name,
                    "id": topic.id,
                    "partitions": len(topic.partitions),
                    "settings": dict(topic.settings),
                    "deleting": topic.deleting,
                    **first_term_fields(topic.first_term),
                }
                for topic in facts.topics.values()
            ],
            "deleted_topics": [deletion_fields(each) for each in facts.deleted_topics],
            **first_term_fields(facts.first_term),
            **broker_settings_fields(facts.broker_settings),
        }
    ).encode()


def _topic(entry: dict[str, Any], here: PartitionImage) -> TopicImage:
    return TopicImage(
        name=str(entry["name"]),
        id=TopicId(str(entry["id"])),
        partitions=(here,) * int(entry["partitions"]),
        settings={str(key): str(value) for key, value in entry["settings"].items()},
        deleting=bool(entry["deleting"]),
        first_term=read_first_term(entry),
    )
