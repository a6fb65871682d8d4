"""Who waits is told once and in order."""

from __future__ import annotations

from penstock.model.errors import NotLeader, PenstockError
from penstock.records.header import read_header
from penstock.replication.disk.waiting import ACKS_ALL, Done, Waiting
from tests.kit.replication.replica import One, made


class Log:
    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def done(self, name: str) -> Done:
        def done(error: PenstockError | None) -> None:
            self.told.append((name, error is None))

        return done


def test_alone_all_wait_for_the_same() -> None:
    waiting, log = Waiting(), Log()
    waiting.share(is_alone=True)
    for name, acks in (("a", 1), ("b", ACKS_ALL), ("c", 0)):
        waiting.by_acks[acks].append((ord(name), log.done(name)))
    waiting.committed(ord("b"))
    assert log.told == [("a", True), ("b", True)]


def test_in_company_each_waits_for_its_own() -> None:
    waiting, log = Waiting(), Log()
    for end_offset, (name, acks) in enumerate((("a", ACKS_ALL), ("b", 1), ("c", 0)), 1):
        waiting.by_acks[acks].append((end_offset, log.done(name)))
    waiting.durable(3)
    assert log.told == [("b", True), ("c", True)]
    waiting.committed(1)
    assert log.told[2:] == [("a", True)]


def test_what_is_gone_fails_and_the_rest_waits_on() -> None:
    waiting, log = Waiting(), Log()

    def again(error: PenstockError | None) -> None:
        log.told.append(("again", error is None))
        waiting.by_commit.append((4, log.done("after")))

    waiting.by_commit.extend([(2, log.done("a")), (5, again)])
    waiting.by_durable.append((7, log.done("b")))
    waiting.fail_after(2, NotLeader())
    assert log.told == [("b", False), ("again", False)]
    waiting.committed(4)
    assert log.told[2:] == [("a", True), ("after", True)]


def test_producers_are_told_of_a_commit_before_those_who_read() -> None:
    """Also where others have a copy: how long publishing takes does not depend on who reads."""
    one = One()
    one.lead()
    batch = memoryview(made(0, 2))
    one.replica.propose(read_header(batch), batch, lambda _: one.heard.append("answered"))
    one.driver.end_turn()
    one.flusher.run_all()
    one.heard.clear()
    one.answer(3)
    assert one.heard == ["answered", ("high watermark", 3)]
