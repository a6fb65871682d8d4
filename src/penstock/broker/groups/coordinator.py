"""The groups, on the broker that looks after them: their machines decide, the internal topic keeps
it, then they answer.

That broker is the leader of the topic: it reads the groups when it begins to lead, and throws them
away when it no longer does. One write is on its way at a time; what is asked meanwhile travels
together in the next. The invariants: an answer leaves only when everything that was decided before
it is durable; and the state in memory is what reading the topic would give, so when a write fails
it is thrown away and read again.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from penstock.broker.config import BrokerConfig
from penstock.broker.groups.log import GroupLog
from penstock.broker.turns.in_turns import InTurns
from penstock.coordination.group.classic.messages import GroupConfig
from penstock.coordination.group.consumer.messages import ConsumerGroupConfig, TopicFacts
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.records import CONFIRMATION, OFFSETS_TOPIC
from penstock.coordination.group.shared.messages import ShareGroupConfig
from penstock.coordination.group.table import CoordinatorConfig
from penstock.model.errors import (
    CoordinatorLoading,
    InternalError,
    NotCoordinator,
    NotLeader,
    PenstockError,
    ShuttingDown,
    StorageError,
    StorageFailed,
)
from penstock.net.clock import Clock, steady_ms
from penstock.registry.api import Registry
from penstock.registry.image import TopicImage

logger = logging.getLogger(__name__)

FoundT = TypeVar("FoundT")
Act = Callable[[Coordinator, int], Effects]
"""What somebody asks of the groups, and the time in ms."""

# Reading all groups again after a failed write holds up the others, so not more often than this.
_RELOAD_INTERVAL_S: Final = 1.0
# With a UUID it is a name of a member, and well below MEMBER_NAME_LENGTH_MAX.
_CLIENT_NAME_LENGTH_MAX: Final = 255
# The loop's timers need not reach further.
_TIMER_S_MAX: Final = 60 * 60.0


def coordinator_config(config: BrokerConfig) -> CoordinatorConfig:
    """What the operator decided about groups."""
    return CoordinatorConfig(
        classic=GroupConfig(
            session_timeout_ms_min=config.group_session_timeout_ms_min,
            session_timeout_ms_max=config.group_session_timeout_ms_max,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            members_max=config.group_members_max,
        ),
        consumer=ConsumerGroupConfig(
            session_timeout_ms=config.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            members_max=config.group_members_max,
        ),
        share=ShareGroupConfig(
            session_timeout_ms=config.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            members_max=config.group_members_max,
        ),
        offsets_retention_ms=config.offsets_retention_ms,
    )


def new_member_id(client_id: str) -> str:
    """Unique, and it tells people whose it is, as Kafka's do; not longer than it needs to be for
    that, since it is kept before its client is a member."""
    return f"{client_id[:_CLIENT_NAME_LENGTH_MAX]}-{uuid.uuid4()}"


class GroupCoordinator:
    """One per broker; it has groups where that leads their topic. All calls come from the loop."""

    def __init__(
        self, config: CoordinatorConfig, log: GroupLog, *, registry: Registry, clock: Clock
    ) -> None:
        self._config = config
        self.log = log
        self._registry = registry
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._now_ms = steady_ms(clock)
        self._groups: Coordinator | None = None
        self._loading: InTurns[Coordinator] | None = None
        # Why there are no groups; None while they are yet to be read, or are another broker's.
        self._failure: PenstockError | None = None
        # Why they are read again, where it is the disk.
        self._unwritten: StorageError | None = None
        self._queue: list[Effects] = []
        self._writing: list[Effects] = []
        # Everybody who has asked and was not answered yet.
        self._unanswered: set[Ticket[Any]] = set()
        self._timer: asyncio.Handle | None = None
        # When it wakes. The handle does not say it on every loop: uvloop's has no `when` for now.
        self._timer_at_s = 0.0
        self._reloaded_at_s = float("-inf")
        self._is_closing = False
        self._facts: dict[str, TopicFacts] = {}
        self._facts_of: Mapping[str, TopicImage] | None = None

    # --- the coordinator's life ----------------------------------------------------------------

    async def start(self) -> None:
        """Read the groups if they are this broker's to look after, now and whenever they are. If
        the topic is damaged, the broker serves everything but groups."""
        await self.log.start()
        self.log.watch(self._on_leadership)
        self._load()
        if self._loading is not None:
            await self._loading.ended.wait()

    def begin_closing(self) -> None:
        """From now on nobody waits for what other members may do."""
        self._is_closing = True
        self._release_parked()

    async def stop(self) -> None:
        self._rest()
        groups, self._groups = self._groups, None
        self._failure = ShuttingDown()
        if groups is not None:
            await self.log.stop(groups.table.checkpoint)

    # --- what handlers ask for -----------------------------------------------------------------

    def submit(self, answer: Ticket[Any], act: Act) -> None:
        """Let the groups do something; `answer` is called once, perhaps much later."""
        groups = self._groups
        if groups is None or not self.log.is_current or self.log.failure is not None:
            answer(self._refusal())
            return
        self._unanswered.add(answer)
        try:
            effects = act(groups, self._now_ms())
        except PenstockError as error:
            effects = Effects(answers=[(answer, error)])
        except Exception:
            # A bug of ours, and nobody knows how far it came.
            logger.exception("What was asked of the groups failed in a way nobody foresaw")
            self._discard(InternalError())
            return
        self._enqueue(effects)
        self._set_timer()
        if self._is_closing:
            self._release_parked()

    def ask(
        self,
        answer: Ticket[FoundT],
        question: Callable[[Coordinator], FoundT],
    ) -> None:
        """Look at the groups; answered when all that was decided before is durable."""
        if self._groups is None or not self.log.is_current:
            answer(self._refusal())
            return
        found: FoundT | PenstockError
        try:
            found = question(self._groups)
        except PenstockError as error:
            found = error
        self._unanswered.add(answer)
        self._enqueue(Effects(answers=[(answer, found)]))

    def topic_facts(self) -> dict[str, TopicFacts]:
        """The topics that there are, as consumer groups see them."""
        topics = self._registry.image.topics
        if topics is not self._facts_of:
            self._facts_of = topics
            self._facts = {
                topic.name: TopicFacts(topic.id, len(topic.partitions))
                for topic in topics.values()
                if not topic.deleting
            }
            if self._groups is not None:
                self._groups.on_topics_changed()
        return self._facts

    def topic_id(self, name: str) -> str | None:
        """The id of the topic that has the name now."""
        topic = self._registry.image.topics.get(name)
        return None if topic is None or topic.deleting else topic.id

    # --- decided, durable, answered ------------------------------------------------------------

    def _enqueue(self, effects: Effects) -> None:
        # While answers are given nothing is being written, but what waits comes first all the same.
        is_written = effects.records or (effects.confirms and not self.log.is_alone)
        if is_written or self._writing or self._queue:
            self._queue.append(effects)
            if not self._writing:
                self._write()
        else:
            self._give(effects)

    def _write(self) -> None:
        """Everything that was decided while the last write was on its way."""
        assert self._groups is not None
        self._writing, self._queue = self._queue, []
        records = [record for effects in self._writing for record in effects.records]
        if not records and any(effects.confirms for effects in self._writing):
            records = [CONFIRMATION]
        if records:
            self.log.append(records, self._written, self._groups.table.checkpoint)
        else:
            self._written(None)

    def _written(self, error: PenstockError | None) -> None:
        if error is not None:
            self._writing = []
            self._discard(error)
            return
        written, self._writing = self._writing, []
        if self._groups is None:
            if self._failure is None:
                self._reload()  # thrown away meanwhile
            return
        for effects in written:
            self._give(effects)
        if self._queue and not self._writing:
            self._write()

    def _give(self, effects: Effects) -> None:
        for ticket, what in effects.answers:
            self._tell(ticket, what)

    def _tell(self, ticket: Ticket[Any], what: object) -> None:
        if ticket not in self._unanswered:
            return  # was told something else, when all was thrown away or the broker closed
        self._unanswered.remove(ticket)
        try:
            ticket(what)
        except Exception:
            # A bug of ours in one answer must not cost the others theirs.
            logger.exception("An answer of the groups could not be given")

    def _release_parked(self) -> None:
        """Answer those whose answer depends on what others do."""
        coming = {
            ticket for effects in (*self._writing, *self._queue) for ticket, _ in effects.answers
        }
        for ticket in self._unanswered - coming:
            self._tell(ticket, ShuttingDown())

    # --- what is thrown away and read again ----------------------------------------------------

    def _on_leadership(self) -> None:
        """This broker may have begun or ceased to lead."""
        if self.log.is_current or self.log.is_making or isinstance(self._failure, ShuttingDown):
            return
        self._failure = None
        self._reloaded_at_s = float("-inf")  # everybody waits for it
        self._discard(NotCoordinator())

    def _discard(self, error: PenstockError) -> None:
        """What is in memory is not, or may not be, what the topic says."""
        self._groups = None
        self._unwritten = error if isinstance(error, StorageError) else None
        self._queue = []
        self._rest()
        if not self._writing and self._failure is None:
            self._reload()
        if isinstance(error, NotLeader):
            error = NotCoordinator()
        for ticket in list(self._unanswered):
            self._tell(ticket, error)

    def _reload(self) -> None:
        if not self.log.is_led:
            return
        now_s = self._clock.monotonic()
        wait_s = self._reloaded_at_s + _RELOAD_INTERVAL_S - now_s
        if wait_s > 0:
            self._timer = self._loop.call_later(wait_s, self._load)
        else:
            self._load()
        self._reloaded_at_s = now_s + max(wait_s, 0)

    def _load(self) -> None:
        self._timer = None
        if self.log.is_led:
            reading = self.log.read(lambda: Coordinator(self._config, self.topic_id))
            self._loading = InTurns(reading, self._loaded, self._not_loaded)

    def _not_loaded(self, error: PenstockError) -> None:
        # Else it was cut or closed while it was read: somebody else leads.
        if self.log.is_led:
            logger.error("Groups cannot be served: %s", error)
            self._failure = StorageFailed(f"Groups cannot be served: {error}")

    def _loaded(self, groups: Coordinator) -> None:
        if not self.log.is_current:
            return  # and `_on_leadership` is about to be called
        for problem in groups.table.restored(self._now_ms()):
            logger.error("The members of a group are forgotten: %s", problem)
        self._groups = groups
        self._set_timer()

    def _refusal(self) -> PenstockError:
        if self._failure is not None:
            return self._failure
        if not self.log.is_led:
            return NotCoordinator("The groups are looked after by another broker: ask which one.")
        if self._unwritten is not None and self._groups is None:
            return CoordinatorLoading(
                f"The groups are being read again, since they could not be written: "
                f"{self._unwritten}"
            )
        if self._groups is None or not self.log.is_current:
            return CoordinatorLoading("The groups are being read: try again.")
        return StorageFailed(f"{OFFSETS_TOPIC} is read-only: {self.log.failure}")

    # --- time ----------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Wake up for what is due next. One that wakes too early sleeps again."""
        if self._groups is None:
            return
        wait_s = (self._groups.deadline_ms - self._now_ms()) / 1000
        at_s = self._loop.time() + min(max(wait_s, 0.0), _TIMER_S_MAX)
        if self._timer is not None:
            if self._timer_at_s <= at_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at_s, self._expire)
        self._timer_at_s = at_s

    def _rest(self) -> None:
        """Neither read on nor wake up."""
        if self._loading is not None:
            self._loading.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self._groups is None or not self.log.is_current or self.log.failure is not None:
            return
        try:
            effects = self._groups.expire(self._now_ms(), self._clock.now_ms())
        except Exception:
            logger.exception("The groups' time could not go on")
            self._discard(InternalError())
            return
        self._enqueue(effects)
        self._set_timer()
