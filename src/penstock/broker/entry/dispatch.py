"""From a call to its handler, by the table, and from what that returns or raises to the answer.

A handler answers the call itself, at once or by callback (the hot ones); or it returns the
response; or it is awaited in a task of its own. Not which handler it is (`table`). The invariants:
every call is answered whatever happens, or its connection is closed; and no client's call reaches
a handler before everything it may need is there. A broker of a cluster listens before it is ready,
since the others must be heard for it to become so: meta servers elect a leader, and only then is
there a registry. Until then clients are told to wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from penstock.broker.call import AnyCall, Call
from penstock.broker.clients.session import Session
from penstock.broker.context import Context
from penstock.broker.entry.columns import Handler
from penstock.broker.entry.table import KAFKA, NATIVE
from penstock.broker.ground import STARTING, Ground
from penstock.broker.kafka.call import Call as KafkaCall
from penstock.broker.turns.handler_tasks import HandlerTasks
from penstock.model.errors import Busy, InternalError, PenstockError
from penstock.net.call import NOTHING
from penstock.protocol.calls import CallType, type_name

logger = logging.getLogger(__name__)


# To a handler: what of its row is needed for each call, at hand. A plain tuple is taken apart
# faster than a named one.
_Way = tuple[type[Call[Any]], CallType[Any, Any], Handler, Ground | Context]


class Dispatcher:
    """One per broker. Owns the tasks of handlers that wait."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._context: Context | None = None
        self._native: dict[int, _Way] = {
            number: (row.call, row.kind, row.handler, ground)
            for number, row in NATIVE.items()
            if row.is_early
        }
        self.tasks = HandlerTasks(asyncio.get_running_loop())

    def let_clients(self, context: Context) -> None:
        """The broker is ready."""
        self._context = context
        self._ground.is_ready = True
        self._native |= {
            number: (row.call, row.kind, row.handler, context)
            for number, row in NATIVE.items()
            if not row.is_early
        }

    def native(
        self,
        session: Session,
        number: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        """What this raises is the answer."""
        way = self._native.get(number)
        if way is None:
            raise self._ground.nobody_for(type_name(number))
        make, kind, handler, parts = way
        call = make(session, kind, message_id, envelope, payload)
        result = handler(parts, call)
        # It lies where it was received, which is overwritten and may be large.
        call.payload = NOTHING
        if result is not None:
            self._conclude(call, result)

    def kafka(self, call: KafkaCall) -> None:
        context = self._context
        if context is None:
            # Kafka's clients go elsewhere when a connection ends, and come back.
            call.disconnect(Busy(STARTING))
            return
        try:
            result = KAFKA[call.api.key].handler(context, call)
        except PenstockError as error:
            call.refuse(error)
        except Exception:
            logger.exception("The handler of %s failed", call.name)
            call.refuse(InternalError())
        else:
            if result is not None:
                self._conclude(call, result)

    def _conclude(self, call: AnyCall, result: Any) -> None:
        if asyncio.iscoroutine(result):
            self.tasks.start(self._answer(call, result))
        else:
            call.answer(result)

    async def _answer(self, call: AnyCall, handling: Coroutine[Any, Any, Any]) -> None:
        try:
            call.answer(await handling)
        except PenstockError as error:
            call.refuse(error)
        except Exception:
            logger.exception("The handler of %s failed", call.name)
            call.refuse(InternalError())
