"""Which topics a pattern names: whole names, in time linear in their length.

A consumer's pattern is an expression of RE2 (KIP-848), so RE2 reads and matches it. Python's own
expressions try one way after the other, and a pattern can be made for which they try for years.
The invariant: what one look at the topics costs is bounded, whoever wrote the pattern.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.model.errors import InvalidRegularExpression
from penstock.model.limits import (
    TOPIC_PATTERN_BYTES_MAX,
    TOPIC_PATTERN_LENGTH_MAX,
    TOPIC_PATTERN_WORK_MAX,
)


class TopicPattern:
    """One pattern, and what it said about the topics it has seen."""

    def __init__(self, text: str) -> None:
        """Raises InvalidRegularExpression."""
        if len(text) > TOPIC_PATTERN_LENGTH_MAX:
            raise InvalidRegularExpression(
                f"The topic pattern has {len(text)} characters: the limit is "
                f"{TOPIC_PATTERN_LENGTH_MAX}."
            )
        # Only here: few brokers ever see a pattern, and all of them should start at once.
        import re2

        options = re2.Options()
        options.max_mem = TOPIC_PATTERN_BYTES_MAX
        options.log_errors = False
        try:
            self._expression = re2.compile(text, options)
        except re2.error as error:
            [reason] = error.args
            said = reason.decode() if isinstance(reason, bytes) else str(reason)
            raise InvalidRegularExpression(
                f"The topic pattern {text!r} is wrong: {said}."
            ) from None
        self._verdicts: dict[str, bool] = {}

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that the pattern matches. A name is looked at once: asking again
        with more names costs what the new ones cost."""
        known, self._verdicts = self._verdicts, {}
        work_left = TOPIC_PATTERN_WORK_MAX
        for name in names:
            verdict = known.get(name)
            if verdict is None:
                # Every part of the pattern may have to be held against every letter.
                work_left -= len(name) * self._expression.programsize
                if work_left < 0:
                    self._verdicts = known | self._verdicts
                    raise InvalidRegularExpression(
                        "The topic pattern is too large for the topics there are: make it simpler, "
                        "or subscribe by name."
                    )
                verdict = self._expression.fullmatch(name) is not None
            self._verdicts[name] = verdict
        return frozenset(name for name, verdict in self._verdicts.items() if verdict)
