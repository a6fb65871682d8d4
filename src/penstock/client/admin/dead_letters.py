"""A group's dead letters (R-DEL-9): listed, shown, put back, dropped.

A letter is a record of the group's dead-letter topic, which is compacted: of each id the last
record counts, and one without a value says that the letter is gone. The invariants: a letter is
marked as gone only when its message is acknowledged in the topic it was put back to, so none is
lost, and after a crash in between one may come twice; and a dry run writes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from penstock.client.admin.redriving import (
    GUARDED,
    WINDOW_BYTES,
    WINDOW_LETTERS,
    KeptLetter,
    LetterOutcome,
    LetterResult,
    LetterSummary,
    OnOutcome,
    Pace,
    Redriving,
    mark_gone,
)
from penstock.client.admin.topics import Admin
from penstock.client.concurrency.tasks import TaskScope
from penstock.client.connection.routes import Routes
from penstock.client.consuming.range_reader import RangeReader
from penstock.client.producing.producer import Producer
from penstock.model.dead_letter import (
    TOPIC_PREFIX,
    DeadLetter,
    dead_letter_topic,
    group_of_topic,
    read_dead_letter,
)
from penstock.model.errors import InvalidRequest, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.records import Message, decode_messages


class LetterFilters(TypedDict, total=False):
    """Which letters: all of what is said must hold."""

    topic: str | None
    """Where the message was."""
    reason: str | None
    """A part of the reason, in upper or lower case."""
    since: datetime | None
    """Died then, or later."""
    until: datetime | None
    """Died before then."""
    key: bytes | None
    """The message's key."""
    limit: int | None
    """So many at most, the oldest of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """A group that has dead letters."""

    group: str
    topic: str
    count: int
    oldest_at_ms: int | None
    newest_at_ms: int | None


class DeadLetters:
    """Made by `Client.dead_letters`."""

    def __init__(
        self, routes: Routes, scope: TaskScope, make_producer: Callable[[], Producer]
    ) -> None:
        self._routes = routes
        self._scope = scope
        self._make_producer = make_producer

    async def groups(self) -> list[LetterGroup]:
        """The groups that have dead letters, and how many."""
        found = []
        for summary in await Admin(self._routes).list_topics():
            if summary.name.startswith(TOPIC_PREFIX):
                group = await self._group(summary.name)
                if group is not None:
                    found.append(group)
        return sorted(found, key=lambda one: one.group)

    async def list(self, group: str, **filters: Unpack[LetterFilters]) -> AsyncIterator[DeadLetter]:
        """The dead letters that there are when this begins, oldest first:
        `async for letter in mq.dead_letters.list("billing", reason="timeout")`.

        It reads the topic twice, first for which letters are still there, and remembers an id
        of each meanwhile.
        """
        async for kept in self._letters(group, None, filters):
            yield kept.letter

    async def show(self, group: str, letter_id: str) -> DeadLetter:
        """One letter. InvalidRequest if there is none of this id."""
        async for kept in self._letters(group, [letter_id], {}):
            return kept.letter
        raise InvalidRequest(
            f"Group {group!r} has no dead letter {letter_id!r}: perhaps it was redriven or "
            "dropped; list those that there are."
        )

    async def redrive(
        self,
        group: str,
        ids: Collection[str] | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        rate_per_s: float | None = None,
        to_topic: str | None = None,
        on_outcome: OnOutcome | None = None,
        **filters: Unpack[LetterFilters],
    ) -> LetterSummary:
        """Publish messages again where they came from, and let their letters be gone: those of the
        ids, or those that the filters let through, or all.

        Into the same partition, if it is there, else by key. A message that was redriven twice
        already is left alone without `force`. A letter is gone when its message is acknowledged: a
        crash in between leaves it, so at least once. rate_per_s: messages a second at most.
        to_topic: there instead. on_outcome: told of each.
        """
        if to_topic is not None and to_topic.startswith(TOPIC_PREFIX):
            raise InvalidRequest(
                f"{to_topic} has dead letters, and what is put back is none: give another topic."
            )
        summary = LetterSummary(is_dry_run=dry_run)
        ids = _named(ids)
        missing = dict.fromkeys(ids or ())
        pace = Pace(rate_per_s)
        redriving = Redriving(self._routes, dead_letter_topic(group), to_topic)

        def tell(one: LetterOutcome) -> None:
            summary.add(one)
            if on_outcome is not None:
                on_outcome(one)

        async with self._make_producer() as producer:
            window: list[KeptLetter] = []
            size_bytes = 0
            async for kept in self._letters(group, ids, filters):
                letter = kept.letter
                missing.pop(letter.id, None)
                if not letter.may_be_redriven(force=force):
                    tell(LetterOutcome(letter=letter, outcome="guarded", problem=GUARDED))
                    continue
                problem = await redriving.problem(letter)
                if problem or dry_run:
                    outcome: LetterResult = "failed" if problem else "redriven"
                    tell(LetterOutcome(letter=letter, outcome=outcome, problem=problem))
                    continue
                window.append(kept)
                size_bytes += len(letter.value or b"")
                if len(window) >= pace.window_letters or size_bytes >= WINDOW_BYTES:
                    await redriving.put_back(producer, window, pace, tell)
                    window, size_bytes = [], 0
            await redriving.put_back(producer, window, pace, tell)
        summary.missing += missing
        return summary

    async def drop(
        self,
        group: str,
        ids: Collection[str] | None = None,
        *,
        everything: bool = False,
        dry_run: bool = False,
        on_outcome: OnOutcome | None = None,
        **filters: Unpack[LetterFilters],
    ) -> LetterSummary:
        """Let letters be gone for ever: those of the ids, or those that the filters let through;
        all only with `everything`."""
        if ids is None and not everything and all(one is None for one in filters.values()):
            raise InvalidRequest(
                "Nothing says which dead letters to drop: give ids, filters, or everything=True."
            )
        summary = LetterSummary(is_dry_run=dry_run)
        ids = _named(ids)
        missing = dict.fromkeys(ids or ())
        topic = dead_letter_topic(group)

        def tell(kept: KeptLetter) -> None:
            one = LetterOutcome(letter=kept.letter, outcome="dropped")
            summary.add(one)
            if on_outcome is not None:
                on_outcome(one)

        async with self._make_producer() as producer:
            window: list[KeptLetter] = []
            async for kept in self._letters(group, ids, filters):
                missing.pop(kept.letter.id, None)
                if dry_run:
                    tell(kept)
                    continue
                window.append(kept)
                if len(window) >= WINDOW_LETTERS:
                    await mark_gone(producer, topic, window, tell)
                    window = []
            await mark_gone(producer, topic, window, tell)
        summary.missing += missing
        return summary

    # --- reading -------------------------------------------------------------------------------

    async def _letters(
        self, group: str, ids: Collection[str] | None, filters: LetterFilters
    ) -> AsyncIterator[KeptLetter]:
        wanted = None if ids is None else {one.encode(errors="replace") for one in ids}
        matches = _Matches(filters)
        left = filters.get("limit")
        topic = dead_letter_topic(group)
        async for message, letter in self._living(topic, wanted):
            if matches(letter):
                yield KeptLetter(letter, message.partition)
                if left is not None:
                    left -= 1
                    if left <= 0:
                        return

    async def _living(
        self, topic: str, wanted: set[bytes] | None
    ) -> AsyncIterator[tuple[Message, DeadLetter]]:
        """Those of the letters that are not gone, each with its record."""
        for partition, (start, end) in (await self._ranges(topic)).items():
            last = await self._last(topic, partition, start, end, wanted)
            async for message in self._messages(topic, partition, start, end):
                if message.key is None or last.get(message.key) != message.offset:
                    continue
                letter = read_dead_letter(message.key, message.value, message.headers)
                if letter is not None:
                    yield message, letter

    async def _last(
        self, topic: str, partition: int, start: int, end: int, wanted: set[bytes] | None
    ) -> dict[bytes, int]:
        """Where the last record of each id is, of those that are not gone."""
        last: dict[bytes, int] = {}
        async for message in self._messages(topic, partition, start, end):
            key = message.key
            if key is None or (wanted is not None and key not in wanted):
                continue
            if message.value is None:
                last.pop(key, None)
            else:
                last[key] = message.offset
        return last

    async def _ranges(self, topic: str) -> dict[int, tuple[int, int]]:
        """From where to where each partition reaches now; none, if there is no such topic."""
        admin = Admin(self._routes)
        try:
            count = (await self._routes.topic(topic, refresh=True)).partition_count
        except UnknownTopic:
            return {}
        return {
            partition: (
                await admin.find_offset(topic, partition, "earliest"),
                await admin.find_offset(topic, partition, "latest"),
            )
            for partition in range(count)
        }

    async def _messages(
        self, topic: str, partition: int, start: int, end: int
    ) -> AsyncIterator[Message]:
        reader = RangeReader(
            self._routes,
            self._scope,
            TopicPartition(topic, partition),
            start,
            end,
            include_headers=True,
        )
        try:
            while (payload := await reader.next_payload()) is not None:
                for message in decode_messages(payload, topic, partition, start):
                    if message.offset < end:
                        yield message
        finally:
            reader.close()

    async def _group(self, topic: str) -> LetterGroup | None:
        """Whose letters the topic has; None if it has none, or they do not say."""
        group = group_of_topic(topic)
        count = 0
        oldest_ms: int | None = None
        newest_ms: int | None = None
        async for message, letter in self._living(topic, None):
            if group is None and dead_letter_topic(letter.group) == topic:
                group = letter.group  # too long for a topic's name: its letters have it whole
            count += 1
            at_ms = letter.dead_at_ms or message.timestamp_ms
            oldest_ms = at_ms if oldest_ms is None else min(oldest_ms, at_ms)
            newest_ms = at_ms if newest_ms is None else max(newest_ms, at_ms)
        if group is None or not count:
            return None
        return LetterGroup(
            group=group,
            topic=topic,
            count=count,
            oldest_at_ms=oldest_ms,
            newest_at_ms=newest_ms,
        )


def _named(ids: Collection[str] | None) -> Collection[str] | None:
    """One id is a collection too, of its characters."""
    return [ids] if isinstance(ids, str) else ids


class _Matches:
    """The filters, made ready for many letters."""

    def __init__(self, filters: LetterFilters) -> None:
        limit = filters.get("limit")
        if limit is not None and limit < 1:
            raise InvalidRequest(f"limit is {limit}: it must be at least 1.")
        self._topic = filters.get("topic")
        self._key = filters.get("key")
        reason = filters.get("reason")
        self._reason = None if reason is None else reason.casefold()
        since, until = filters.get("since"), filters.get("until")
        self._since_ms = None if since is None else since.timestamp() * 1000
        self._until_ms = None if until is None else until.timestamp() * 1000

    def __call__(self, letter: DeadLetter) -> bool:
        at_ms = letter.dead_at_ms or 0
        return (
            (self._topic is None or letter.topic == self._topic)
            and (self._key is None or letter.key == self._key)
            and (self._reason is None or self._reason in letter.reason.casefold())
            and (self._since_ms is None or at_ms >= self._since_ms)
            and (self._until_ms is None or at_ms < self._until_ms)
        )
