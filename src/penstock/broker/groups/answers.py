"""What the groups answer, for whoever waits for it.

Not what is asked. The invariant: an answer to somebody who no longer waits goes nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.broker.groups.coordinator import FoundT, GroupCoordinator
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import AnswerT, Effects, Ticket
from penstock.model.errors import PenstockError


async def decided(
    groups: GroupCoordinator, act: Callable[[Coordinator, Ticket[AnswerT], int], Effects]
) -> AnswerT:
    """What the groups decide, when it is durable; what is refused is raised."""
    waiting: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
    answer = _answer_to(waiting)
    groups.submit(answer, lambda coordinator, now_ms: act(coordinator, answer, now_ms))
    return await waiting


async def found(groups: GroupCoordinator, question: Callable[[Coordinator], FoundT]) -> FoundT:
    """What a look at the groups finds."""
    waiting: asyncio.Future[FoundT] = asyncio.get_running_loop().create_future()
    groups.ask(_answer_to(waiting), question)
    return await waiting


def _answer_to(waiting: asyncio.Future[AnswerT]) -> Ticket[AnswerT]:
    def answer(what: AnswerT | PenstockError) -> None:
        if waiting.done():
            return  # whoever waited was cancelled
        if isinstance(what, PenstockError):
            waiting.set_exception(what)
        else:
            waiting.set_result(what)

    return answer
