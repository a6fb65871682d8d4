"""Makes a class for code without an event loop of one of the asyncio client: a line for each verb.

    class BlockingSchedules(Facade[Schedules]):
        put = waits(Schedules.put)

Parameters, types and docstring, its own or inherited, are those of the verb. Not what differs
between the two sides: that is written out where it does. The invariant: what a verb does happens in
the loop's thread, and has ended, or is being cancelled, when the call returns or raises.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from penstock.client.concurrency.loop_thread import LoopThread

P = ParamSpec("P")
AskedT = TypeVar("AskedT")
ResultT = TypeVar("ResultT")
# Covariant: a verb may come from a base class of what is asked.
AskedT_co = TypeVar("AskedT_co", covariant=True)

Verb = Callable[Concatenate[AskedT, P], ResultT]
"""A method, as its class has it: the object it is called for, what it is given, what it returns."""


class Facade(Generic[AskedT_co]):
    """The blocking side of an object that lives on the thread's loop."""

    def __init__(self, thread: LoopThread, asked: AskedT_co) -> None:
        self._thread = thread
        self._asked = asked

    def _open_thread(self) -> LoopThread:
        """Where verbs happen; ClientClosed where they cannot any more."""
        return self._thread


ScopeT_co = TypeVar("ScopeT_co", bound=AbstractAsyncContextManager[object], covariant=True)


class ScopeFacade(Facade[ScopeT_co]):
    """The same, of what is used in an `async with`: here in a `with`."""

    @property
    def asked(self) -> ScopeT_co:
        """The one on the loop."""
        return self._asked

    def __enter__(self) -> Self:
        self._thread.run(self._asked.__aenter__())
        return self

    def __exit__(self, *left: Any) -> None:
        self._thread.run(self._asked.__aexit__(*left))


def waits(
    verb: Verb[AskedT, P, Coroutine[Any, Any, ResultT]],
) -> Verb[Facade[AskedT], P, ResultT]:
    """A coroutine; the call returns when it has ended."""

    @wraps(verb)
    def waiting(self: Facade[AskedT], /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        thread = self._open_thread()
        return thread.run(verb(self._asked, *args, **kwargs))

    waiting.__doc__ = inspect.getdoc(verb)
    return waiting


def waits_unless_on_loop(
    verb: Verb[AskedT, P, Coroutine[Any, Any, ResultT]],
) -> Verb[Facade[AskedT], P, ResultT | Coroutine[Any, Any, ResultT]]:
    """The same; for the loop itself, where `serve` may run a handler, what is to be awaited."""

    @wraps(verb)
    def waiting(
        self: Facade[AskedT], /, *args: P.args, **kwargs: P.kwargs
    ) -> ResultT | Coroutine[Any, Any, ResultT]:
        thread = self._open_thread()
        return thread.run_from_anywhere(verb(self._asked, *args, **kwargs))

    waiting.__doc__ = inspect.getdoc(verb)
    return waiting


def iterates(
    verb: Verb[AskedT, P, AsyncIterator[ResultT]],
) -> Verb[Facade[AskedT], P, Iterator[ResultT]]:
    """An asynchronous iterator; it reads on as it is iterated."""

    @wraps(verb)
    def iterating(self: Facade[AskedT], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[ResultT]:
        thread = self._open_thread()
        items = verb(self._asked, *args, **kwargs)

        async def following() -> ResultT:
            return await anext(items)

        while True:
            try:
                item = thread.run(following())
            except StopAsyncIteration:
                return
            yield item

    # A coroutine's annotation is what the call returns here; only an iterator's has to be mended.
    told = inspect.signature(verb)
    returned = str(told.return_annotation).removeprefix("Async")
    vars(iterating)["__signature__"] = told.replace(return_annotation=returned)
    iterating.__doc__ = (inspect.getdoc(verb) or "").replace("async for", "for")
    return iterating


def calls(verb: Verb[AskedT, P, ResultT]) -> Verb[Facade[AskedT], P, ResultT]:
    """No coroutine, but a method that only the loop may call: it does."""

    @wraps(verb)
    def calling(self: Facade[AskedT], /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return self._open_thread().call(lambda: verb(self._asked, *args, **kwargs))

    calling.__doc__ = inspect.getdoc(verb)
    return calling


def tells(
    verb: Verb[AskedT, P, Awaitable[None]],
) -> Verb[Facade[AskedT], P, Awaitable[None] | None]:
    """The same of a method that has done its work when it returns: what it returns is for the loop
    itself, where `serve` may run a handler."""

    @wraps(verb)
    def telling(
        self: Facade[AskedT], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[None] | None:
        thread = self._open_thread()
        if thread.is_current:
            return verb(self._asked, *args, **kwargs)
        thread.call(lambda: verb(self._asked, *args, **kwargs))
        return None

    telling.__doc__ = inspect.getdoc(verb)
    return telling


def passes(verb: Verb[AskedT, P, ResultT]) -> Verb[Facade[AskedT], P, ResultT]:
    """A method that any thread may call as it is."""

    @wraps(verb)
    def passing(self: Facade[AskedT], /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        return verb(self._asked, *args, **kwargs)

    passing.__doc__ = inspect.getdoc(verb)
    return passing
