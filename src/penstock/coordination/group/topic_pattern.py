"""Which topics a pattern names: whole names, in time linear in their length.

Not the syntax. Python's own expressions try one way after the other, and a pattern can be made
for which they try for years; here all ways are followed at once (Thompson 1968, as in RE2). The
invariant: what one look at the topics costs is bounded, whoever wrote the pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from penstock.coordination.group.pattern_syntax import (
    ALPHABET,
    Chars,
    Choice,
    Edge,
    Node,
    Repeat,
    Sequence,
    parse,
)
from penstock.model.errors import InvalidRegularExpression
from penstock.model.limits import (
    TOPIC_PATTERN_STATES_MAX,
    TOPIC_PATTERN_STEPS_MAX,
    TOPIC_PATTERN_WORK_MAX,
)

_ACCEPT = 0  # the number of the state in which the whole name has matched


class TopicPattern:
    """One pattern, and what it said about the topics it has seen."""

    def __init__(self, text: str) -> None:
        """Raises InvalidRegularExpression."""
        self._automaton = _Automaton(text)
        self._verdicts: dict[str, bool] = {}

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that the pattern matches. A name is looked at once: asking again
        with more names costs what the new ones cost."""
        known, self._verdicts = self._verdicts, {}
        budget = TOPIC_PATTERN_WORK_MAX
        for name in names:
            verdict = known.get(name)
            if verdict is None:
                verdict, work = self._automaton.matches(name)
                budget -= work
            self._verdicts[name] = verdict
            if budget < 0:
                self._verdicts = known | self._verdicts
                raise InvalidRegularExpression(
                    "The topic pattern takes too long to compare with the topics there are: make "
                    "it simpler, or subscribe by name."
                )
        return frozenset(name for name, verdict in self._verdicts.items() if verdict)


class _Automaton:
    """The states a pattern can be in, sets of which are the bits of a number. A state takes a
    character of its set, or is a fork, or an edge of the name, or the end of the pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._nodes_left = TOPIC_PATTERN_STATES_MAX
        self._nodes: list[Chars | Edge | None] = [None]
        self._followers: list[tuple[int, ...]] = [()]
        entry = self._build(parse(text), _ACCEPT)
        self._takers = dict.fromkeys(ALPHABET, 0)
        for state, node in enumerate(self._nodes):
            if isinstance(node, Chars):
                for character in node.members:
                    self._takers[character] |= 1 << state
        self._initial = self._reachable(entry, at_start=True)
        self._accepting = self._states_before_accept()
        self._reachable_later: dict[int, int] = {}
        self._steps: dict[tuple[int, str], int] = {}

    def matches(self, name: str) -> tuple[bool, int]:
        """Whether the whole name matches, and how many states were followed to find out."""
        states = self._initial
        work = 0
        for character in name:
            following = self._steps.get((states, character))
            if following is None:
                following, cost = self._step(states, character)
                work += cost
            if not following:
                return False, work
            states = following
        return bool(states & self._accepting), work

    def _step(self, states: int, character: str) -> tuple[int, int]:
        moving = states & self._takers.get(character, 0)
        cost = 1
        following = 0
        while moving:
            lowest = moving & -moving
            moving ^= lowest
            follower = self._followers[lowest.bit_length() - 1][0]
            reachable = self._reachable_later.get(follower)
            if reachable is None:
                reachable = self._reachable(follower, at_start=False)
                self._reachable_later[follower] = reachable
                cost += reachable.bit_count()
            following |= reachable
            cost += 1
        if len(self._steps) >= TOPIC_PATTERN_STEPS_MAX:
            self._steps.clear()
        self._steps[states, character] = following
        return following, cost

    def _build(self, node: Node, following: int) -> int:
        """Add states for the node, after which `following` comes; the state to enter it by."""
        self._nodes_left -= 1
        if self._nodes_left < 0:
            raise InvalidRegularExpression(
                f"The topic pattern {self._text[:80]!r} is too large with its repetitions written "
                f"out: {TOPIC_PATTERN_STATES_MAX} parts are the limit."
            )
        match node:
            case Chars() | Edge():
                return self._add(node, (following,))
            case Sequence(parts):
                for part in reversed(parts):
                    following = self._build(part, following)
                return following
            case Choice(options):
                return self._add(None, tuple(self._build(one, following) for one in options))
            case Repeat():
                return self._build_repeat(node, following)
            case _:
                assert_never(node)

    def _build_repeat(self, repeat: Repeat, following: int) -> int:
        entry = following
        if repeat.most is None:
            entry = self._add(None, ())
            self._followers[entry] = (self._build(repeat.part, entry), following)
        else:
            for _ in range(repeat.most - repeat.least):
                entry = self._add(None, (self._build(repeat.part, entry), following))
        for _ in range(repeat.least):
            entry = self._build(repeat.part, entry)
        return entry

    def _add(self, node: Chars | Edge | None, followers: tuple[int, ...]) -> int:
        self._nodes.append(node)
        self._followers.append(followers)
        return len(self._nodes) - 1

    def _reachable(self, entry: int, *, at_start: bool) -> int:
        """The states one is in, having come to `entry`, before the next character."""
        states = 0
        waiting = [entry]
        while waiting:
            state = waiting.pop()
            if states >> state & 1:
                continue
            states |= 1 << state
            node = self._nodes[state]
            if node is None or (at_start and isinstance(node, Edge) and node.is_start):
                waiting.extend(self._followers[state])
        return states

    def _states_before_accept(self) -> int:
        """The states in which a name may end."""
        leading_to: dict[int, list[int]] = {}
        for state, node in enumerate(self._nodes):
            if node is None or (isinstance(node, Edge) and not node.is_start):
                for follower in self._followers[state]:
                    leading_to.setdefault(follower, []).append(state)
        states = 0
        waiting = [_ACCEPT]
        while waiting:
            state = waiting.pop()
            if not states >> state & 1:
                states |= 1 << state
                waiting.extend(leading_to.get(state, ()))
        return states
