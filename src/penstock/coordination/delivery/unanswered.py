"""Leases that may not have reached their member: whether it has them still, and giving them back.

Beside `shared_partition`, whose members know what they hold. The invariant: what a member has
settled, or holds no longer, is left as it is.
"""

from __future__ import annotations

from penstock.coordination.delivery.shared_partition import SharePartition
from penstock.coordination.delivery.shared_settings import Settlement
from penstock.coordination.delivery.window.message_state import Kind
from penstock.coordination.delivery.window.runs import Piece


def give_back(machine: SharePartition, member: str, first: int, last: int, now_ms: int) -> None:
    """What the member holds of these messages was never in its hands: as if not leased."""
    machine.expire(now_ms)
    for start, end, _ in _held(machine, member, first, last):
        machine.settle(member, start, end - 1, Settlement.RELEASE, now_ms)


def held_until_ms(machine: SharePartition, member: str, first: int, last: int) -> int | None:
    """When the member's lease of all of these messages ends; None if it does not hold them."""
    held = _held(machine, member, first, last)
    if sum(end - start for start, end, _ in held) < last + 1 - first:
        return None
    return min(state.until_ms for _, _, state in held)


def _held(machine: SharePartition, member: str, first: int, last: int) -> list[Piece]:
    pieces = machine.window.runs.pieces(first, last + 1)
    return [one for one in pieces if one[2].kind is Kind.LEASED and one[2].member == member]
