"""The filters that clients send, made ready once and kept while they are in use (R-DEL-12).

The invariant: at most FILTERS_KEPT_MAX of them, those that were asked for last; and none that is
wrong.
"""

from __future__ import annotations

from collections import OrderedDict

from penstock.coordination.filter.filters import CompiledFilter, Filter, parse_filter
from penstock.model.limits import FILTERS_KEPT_MAX
from penstock.protocol import penstock_pb2 as pb


class Filters:
    """One per broker."""

    def __init__(self) -> None:
        # By the bytes on the wire: a client sends the same ones with every fetch.
        self._kept: OrderedDict[bytes, CompiledFilter] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def compiled(self, message: pb.Filter) -> CompiledFilter:
        """What the message asks for, made ready; InvalidFilter if it makes no sense."""
        encoded = message.SerializeToString()
        compiled = self._kept.get(encoded)
        if compiled is not None:
            self._kept.move_to_end(encoded)
            return compiled
        compiled = parse_filter(filter_from(message))
        self._kept[encoded] = compiled
        if len(self._kept) > FILTERS_KEPT_MAX:
            self._kept.popitem(last=False)
        return compiled


def filter_from(message: pb.Filter) -> Filter:
    return Filter(
        tags=tuple(message.tags),
        key=message.key if message.HasField("key") else None,
        key_prefix=message.key_prefix if message.HasField("key_prefix") else None,
        expression=message.expression,
    )
