"""Bugs that shared delivery could have, planted in production's code for a test.

Not changes of the source, as in `tests.mutations`: these are small enough to be put in its place
while a test runs. The invariant: each breaks a promise that members rely on.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from penstock.broker.delivery.shared import partitions as shares
from penstock.broker.delivery.shared.partition import Holder, Share
from penstock.coordination.delivery import shared_partition as share_partition
from penstock.coordination.delivery import takeover
from penstock.coordination.delivery.shared_partition import SharePartition
from penstock.coordination.delivery.window.deviations import Deviations
from penstock.coordination.delivery.window.message_state import Kind, State
from penstock.coordination.group.shared.states import ShareStates


def leases_above_the_durable_ceiling(patch: pytest.MonkeyPatch) -> None:
    snapshot = SharePartition.snapshot

    def without_ceiling(self: SharePartition) -> Any:
        return snapshot(self)._replace(state=self.state(self.start))

    patch.setattr(SharePartition, "snapshot", without_ceiling)


def answers_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    go_on = Share.go_on

    def eagerly(self: Share) -> None:
        unsaved, self._unsaved = self._unsaved, []
        self._tell(unsaved)
        go_on(self)

    patch.setattr(Share, "go_on", eagerly)


def nothing_is_in_doubt(patch: pytest.MonkeyPatch) -> None:
    take_over = takeover.take_over

    def at_once(window: Any, dying: Any, saved: Any, doubt_ms: int, log_end: int) -> None:
        del doubt_ms
        take_over(window, dying, saved, 1, log_end)

    patch.setattr(share_partition, "take_over", at_once)


def a_former_leader_is_not_thought_of(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shares, "_FORMER_LEADER_MS", 0)


def a_former_leader_may_write(patch: pytest.MonkeyPatch) -> None:
    def find(self: ShareStates, group: str, place: Any) -> Any:
        kept = self._groups.get(group, {}).get((place.topic, place.partition))
        return None if kept is None else kept._replace(leader_term=place.leader_term)

    patch.setattr(ShareStates, "_find", find)


def an_overtaken_write_is_kept(patch: pytest.MonkeyPatch) -> None:
    find = ShareStates._find

    def forgetful(self: ShareStates, group: str, place: Any) -> Any:
        kept = find(self, group, place)
        return None if kept is None else kept._replace(sequence=0)

    patch.setattr(ShareStates, "_find", forgetful)


def what_is_done_is_not_saved(patch: pytest.MonkeyPatch) -> None:
    kinds = {kind: saved for kind, saved in takeover._SAVED_KINDS.items() if kind is not Kind.DONE}
    patch.setattr(takeover, "_SAVED_KINDS", kinds)


def anybody_settles_anything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "is_settled_by", lambda self, _: self.kind in (Kind.LEASED, Kind.IN_DOUBT))


def a_lease_runs_out_early(patch: pytest.MonkeyPatch) -> None:
    expire = SharePartition.expire
    patch.setattr(SharePartition, "expire", lambda self, now_ms: expire(self, now_ms + 300))


def a_member_is_dropped_with_its_old_connection(patch: pytest.MonkeyPatch) -> None:
    def hold(self: Any, share: Share, holder: Holder) -> bool:
        share.holders.add(holder)

        def gone() -> None:
            share.holders.discard(holder)
            share.drop_member(holder.member)

        holder.connection.on_close((holder, share), gone)
        return True

    patch.setattr(shares.Shares, "_hold", hold)


def who_gave_up_is_leased_to(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shares.Shares, "give_up", lambda *_: None)


def a_key_goes_on_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deviations, "priority_in_line", lambda self, offset: 4)


def dead_letters_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    def bury(self: Share) -> None:
        if not self._is_burying and (dead := self.machine.take_dead()):
            self._is_burying = True
            self._burying = self._around.loop.create_task(self._carry(dead))

    patch.setattr(Share, "_bury", bury)


BUGS: Final = (
    leases_above_the_durable_ceiling,
    answers_before_it_is_durable,
    nothing_is_in_doubt,
    a_former_leader_may_write,
    an_overtaken_write_is_kept,
    what_is_done_is_not_saved,
    anybody_settles_anything,
    a_lease_runs_out_early,
    a_member_is_dropped_with_its_old_connection,
    who_gave_up_is_leased_to,
    a_key_goes_on_too_early,
    dead_letters_before_it_is_durable,
)
