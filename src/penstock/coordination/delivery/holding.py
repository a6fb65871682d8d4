"""What a member holds of certain messages, for who sends them to it by push.

Not the leases themselves (`share_partition`). The invariant: nothing of another member is touched.
"""

from __future__ import annotations

from penstock.coordination.delivery.message_state import Kind
from penstock.coordination.delivery.runs import Piece
from penstock.coordination.delivery.share_partition import SharePartition
from penstock.coordination.delivery.share_settings import Settlement


def give_back(machine: SharePartition, member: str, first: int, last: int, now_ms: int) -> None:
    """What of these messages the member holds was never in its hands: as if not leased."""
    machine.expire(now_ms)
    for low, high, _ in _held(machine, member, first, last):
        machine.settle(member, low, high - 1, Settlement.RELEASE, now_ms)


def held_until_ms(machine: SharePartition, member: str, first: int, last: int) -> int | None:
    """When the member's lease of all of these messages ends; None if it does not hold them."""
    held = _held(machine, member, first, last)
    if sum(high - low for low, high, _ in held) < last + 1 - first:
        return None
    return min(state.until_ms for _, _, state in held)


def _held(machine: SharePartition, member: str, first: int, last: int) -> list[Piece]:
    return [
        piece
        for piece in machine.window.runs.pieces(first, last + 1)
        if piece[2].kind is Kind.LEASED and piece[2].member == member
    ]
