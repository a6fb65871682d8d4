"""What the groups answer, for whoever waits for it.

Not what is asked. The invariant: an answer to somebody who no longer waits goes nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from penstock.broker.groups.coordinator import FoundT, GroupCoordinator
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import AnswerT, Effects, Ticket
from penstock.model.errors import PenstockError


async def decided(
    groups: GroupCoordinator, act: Callable[[Ticket[AnswerT], Coordinator, int], Effects]
) -> AnswerT:
    """What the groups answer, once it is durable; what is refused is raised. act: what they are let
    do, with whom to answer and the time in ms."""
    waiting: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
    answer = partial(_answer, waiting)
    groups.submit(answer, partial(act, answer))
    return await waiting


async def found(groups: GroupCoordinator, question: Callable[[Coordinator], FoundT]) -> FoundT:
    """What a look at the groups finds."""
    waiting: asyncio.Future[FoundT] = asyncio.get_running_loop().create_future()
    groups.ask(partial(_answer, waiting), question)
    return await waiting


def _answer(waiting: asyncio.Future[AnswerT], what: AnswerT | PenstockError) -> None:
    if waiting.done():
        return  # whoever waited was cancelled
    if isinstance(what, PenstockError):
        waiting.set_exception(what)
    else:
        waiting.set_result(what)
