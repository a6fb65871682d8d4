"""What brokers are told of the facts: everything, or what is new since they last asked; and those
who have everything and wait for more.

Not whether this server may tell (`metaserver.service`). The invariant: each who waits is answered
once, by news, by the end of its time or by being sent away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.model.errors import Busy, PenstockError
from penstock.model.limits import META_CALLS_WAITING_MAX
from penstock.net.call import Call
from penstock.protocol import penstock_pb2 as pb
from penstock.registry import facts_json
from penstock.registry.metaserver.machine import MetaMachine
from penstock.registry.metaserver.state import plain_controller

# Of one of the META calls.
MetaCall = Call[Any]


class _Waiting(NamedTuple):
    """A broker that has everything."""

    call: MetaCall
    seen_version: int
    deadline_ms: int


class News:
    """Of one meta server."""

    def __init__(self, machine: MetaMachine, session_timeout_ms: int) -> None:
        self._machine = machine
        self._session_timeout_ms = session_timeout_ms
        self._waiting: list[_Waiting] = []

    def answer_whole(self, call: MetaCall) -> None:
        facts = self._machine.state.facts
        response = self._response()
        response.is_whole = True
        payload = b"" if facts is None else facts_json.encode_facts(facts)
        call.answer(response, payload)

    def answer_since(self, call: MetaCall, seen_version: int) -> None:
        """Nothing, if the time is over and nothing came."""
        response = self._response()
        entries = self._machine.feed.since(seen_version)
        if entries is None:
            # It saw more than there is here, or there came more at once than is kept.
            response.version = seen_version
        else:
            response.entries.extend(entries)
        call.answer(response)

    def wait(self, call: MetaCall, seen_version: int, deadline_ms: int) -> None:
        if len(self._waiting) >= META_CALLS_WAITING_MAX:
            raise Busy("Too many brokers wait for news here: ask again later.")
        self._waiting.append(_Waiting(call, seen_version, deadline_ms))

    def tell(self) -> None:
        """There may be some: answer whom they concern."""
        version = self._machine.state.version
        self._answer(lambda waiting: waiting.seen_version < version)

    def give_up(self, now_ms: int) -> None:
        """Answer those whose time is over."""
        self._answer(lambda waiting: waiting.deadline_ms <= now_ms)

    def send_away(self, error: PenstockError) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.call.refuse(error)

    def _answer(self, is_due: Callable[[_Waiting], bool]) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if is_due(each):
                self.answer_since(each.call, each.seen_version)
            else:
                self._waiting.append(each)

    def _response(self) -> pb.MetaFetchResponse:
        state = self._machine.state
        return pb.MetaFetchResponse(
            version=state.version,
            controller=plain_controller(state.controller),
            session_timeout_ms=self._session_timeout_ms,
        )
