"""What the groups answer, for whoever waits for it.

Not what is asked. The invariant: an answer to somebody who no longer waits goes nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.broker.groups.coordinator import Answer, FoundT, GroupCoordinator
from penstock.coordination.group.coordinator import Coordinator
from penstock.model.errors import PenstockError


async def answered(ask: Callable[[Answer], None]) -> Any:
    """The answer to what `ask` asks; what is refused is raised."""
    waiting = asyncio.get_running_loop().create_future()

    def answer(what: object) -> None:
        if waiting.done():
            return  # whoever waited was cancelled
        if isinstance(what, PenstockError):
            waiting.set_exception(what)
        else:
            waiting.set_result(what)

    ask(answer)
    return await waiting


async def found(groups: GroupCoordinator, question: Callable[[Coordinator], FoundT]) -> FoundT:
    """What a look at the groups finds."""
    what: FoundT = await answered(lambda answer: groups.ask(answer, question))
    return what
