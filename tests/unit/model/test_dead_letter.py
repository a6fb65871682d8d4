"""Dead letters: built, read back, put back; and what others write in their place."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from penstock.model.dead_letter import (
    DeadLetter,
    Headers,
    SourceMessage,
    dead_letter_topic,
    group_of_topic,
    read_dead_letter,
    redrive_headers,
    write_dead_letter,
)
from penstock.model.ids import check_topic_name
from penstock.model.message_headers import (
    DEAD_OFFSET,
    DEAD_PARTITION,
    DEAD_REASON,
    DEAD_TOPIC,
    EXPIRES_MS,
    REDRIVES,
)

NOW_MS = 1_700_000_000_000


def source(
    headers: Headers = (), key: bytes | None = b"alice", value: bytes | None = b"100"
) -> SourceMessage:
    return SourceMessage(
        topic="orders",
        partition=3,
        offset=1024,
        timestamp_ms=NOW_MS - 5,
        key=key,
        value=value,
        headers=headers,
    )


def dead(
    headers: Headers = (),
    key: bytes | None = b"alice",
    reason: str = "no!",
    value: bytes | None = b"100",
) -> DeadLetter:
    record = write_dead_letter(source(headers, key, value), "g", reason, 5, NOW_MS)
    letter = read_dead_letter(*record)
    assert letter is not None
    return letter


# --- topics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "topic"),
    [
        ("billing", "dead-letters.billing"),
        ("my_team.billing-2", "dead-letters.my_team.billing-2"),
        ("a/b c", "dead-letters.a..2fb..20c"),
        ("a..b", "dead-letters.a...2eb"),
        ("a...b", "dead-letters.a...2e.b"),
        ("grün", "dead-letters.gr..c3..bcn"),
    ],
)
def test_the_topic_of_a_group(group: str, topic: str) -> None:
    """R-DEL-9."""
    assert dead_letter_topic(group) == topic
    assert group_of_topic(topic) == group


@given(st.text(min_size=1, max_size=80))
def test_every_group_has_a_topic_that_tells_its_name(group: str) -> None:
    topic = dead_letter_topic(group)
    check_topic_name(topic)
    assert group_of_topic(topic) in (group, None)
    if len(group.encode(errors="surrogatepass")) <= 59:
        assert group_of_topic(topic) == group


@given(st.text(alphabet="ab./2efh", min_size=1, max_size=12), st.text("ab./2efh", max_size=12))
def test_different_groups_have_different_topics(one: str, other: str) -> None:
    assert (dead_letter_topic(one) == dead_letter_topic(other)) is (one == other)


def test_long_names_are_shortened_and_stay_apart() -> None:
    names = ["ü" * 200 + end for end in ("", "a", "b")] + ["." * 255, "x" * 236, "x" * 237]
    topics = [dead_letter_topic(name) for name in names]
    assert len(set(topics)) == len(names)
    assert all(len(check_topic_name(topic)) <= 249 for topic in topics)
    assert [group_of_topic(topic) for topic in topics] == [None] * 4 + ["x" * 236, None]


@given(st.text(max_size=80))
def test_other_topics_are_of_no_group(name: str) -> None:
    assert group_of_topic("orders." + name) is None
    group = group_of_topic("dead-letters." + name)
    assert group is None or dead_letter_topic(group) == "dead-letters." + name


@pytest.mark.parametrize("rest", ["", "a..b", "a..2Fb", "a..61", "..c3", "a..h" + "0" * 32])
def test_names_that_we_would_not_write_are_of_no_group(rest: str) -> None:
    assert group_of_topic("dead-letters." + rest) is None


# --- letters -----------------------------------------------------------------------------------


def test_a_letter_tells_all_of_its_message() -> None:
    """R-DEL-9: the reason, the original topic, partition, offset and headers."""
    headers: Headers = (("trace", b"\x00\xff"), ("trace", None), ("penstock-tag", b"new"))
    assert dead(headers) == DeadLetter(
        topic="orders",
        partition=3,
        offset=1024,
        timestamp_ms=NOW_MS - 5,
        key=b"alice",
        value=b"100",
        group="g",
        reason="no!",
        attempts=5,
        dead_at_ms=NOW_MS,
        redrives=0,
        headers=headers,
    )
    assert dead(key=None).key is None
    assert dead(key=b"\xff\x00").key == b"\xff\x00"
    assert dead().id == "orders/3/1024"
    assert write_dead_letter(source(), "g", "no!", 5, NOW_MS).key == b"orders/3/1024"


def test_a_message_without_a_value_is_a_letter_with_one() -> None:
    """R-DEL-9: a record without a value is the mark that a letter is gone."""
    assert write_dead_letter(source(value=None), "g", "no!", 5, NOW_MS).value == b""
    assert dead(value=None).value is None
    assert dead(value=None).headers == ()
    assert dead(value=b"").value == b""


def test_a_letter_is_kept_under_its_own_key_and_has_a_value() -> None:
    key, value, headers = write_dead_letter(source(), "g", "no!", 5, NOW_MS)
    assert read_dead_letter(key, None, headers) is None
    assert read_dead_letter(b"orders/3/1025", value, headers) is None
    assert read_dead_letter(None, value, headers) is None


def test_a_reason_is_cut_between_characters() -> None:
    assert dead(reason="é" * 2_000).reason == "é" * 512
    assert dead(reason="x" + "é" * 2_000).reason == "x" + "é" * 511
    assert dead(reason="\ud800?").reason == "??"


def test_a_message_that_is_redriven_and_dies_again_counts_up_to_the_guard() -> None:
    """R-DEL-9: redriven twice, it is not redriven again unless somebody insists."""
    letter = dead((("mine", b"1"),))
    for redrives in (1, 2):
        assert letter.may_be_redriven(force=False)
        headers = redrive_headers(letter, NOW_MS)
        assert headers == (("mine", b"1"), (REDRIVES, str(redrives).encode()))
        letter = dead(headers)
        assert letter.redrives == redrives
    assert not letter.may_be_redriven(force=False)
    assert letter.may_be_redriven(force=True)


def test_a_message_goes_back_without_an_expiry_that_has_passed() -> None:
    headers: Headers = ((EXPIRES_MS, str(NOW_MS).encode()),)
    letter = dead(headers)
    assert redrive_headers(letter, NOW_MS - 1)[:1] == headers
    assert redrive_headers(letter, NOW_MS) == ((REDRIVES, b"1"),)


def test_what_a_producer_wrote_in_our_name_is_not_taken_for_ours() -> None:
    forged: Headers = ((DEAD_TOPIC, b"payroll"), (DEAD_OFFSET, b"1"), (DEAD_REASON, b"mine"))
    letter = dead(forged)
    assert (letter.topic, letter.offset, letter.reason) == ("orders", 1024, "no!")
    assert letter.headers == ()


def test_a_letter_that_dies_is_the_same_letter_when_it_goes_back() -> None:
    """R-DEL-9: of those who work on dead letters, one by one, some fail too."""
    for value in (b"100", None):
        first = write_dead_letter(source((("mine", b"1"),), value=value), "g", "no!", 5, NOW_MS)
        buried = SourceMessage(
            topic=dead_letter_topic("g"),
            partition=0,
            offset=7,
            timestamp_ms=NOW_MS,
            key=first.key,
            value=first.value,
            headers=first.headers,
        )
        second = read_dead_letter(*write_dead_letter(buried, "fixers", "never", 1, NOW_MS + 9))
        assert second is not None
        assert (second.id, second.group, second.reason) == ("dead-letters.g/0/7", "fixers", "never")
        assert (second.key, second.value) == (first.key, first.value)
        assert second.headers == first.headers
        back = read_dead_letter(second.key, second.value, redrive_headers(second, NOW_MS))
        assert back is not None
        assert (back.id, back.group, back.reason) == ("orders/3/1024", "g", "no!")
        assert (back.value, back.dead_at_ms, back.attempts) == (value, NOW_MS, 5)
        assert back.headers == (("mine", b"1"), (REDRIVES, b"1"))


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((DEAD_TOPIC, b"orders"), (DEAD_PARTITION, b"0")),
        ((DEAD_TOPIC, b"orders"), (DEAD_PARTITION, b"-1"), (DEAD_OFFSET, b"1")),
        ((DEAD_TOPIC, b"orders"), (DEAD_PARTITION, b"2147483648"), (DEAD_OFFSET, b"1")),
        ((DEAD_TOPIC, b"orders"), (DEAD_PARTITION, b"0"), (DEAD_OFFSET, b"9" * 19)),
        ((DEAD_TOPIC, b"__offsets"), (DEAD_PARTITION, b"0"), (DEAD_OFFSET, b"1")),
        ((DEAD_TOPIC, b"../etc"), (DEAD_PARTITION, b"0"), (DEAD_OFFSET, b"1")),
        ((DEAD_TOPIC, b"\xff"), (DEAD_PARTITION, b"0"), (DEAD_OFFSET, b"1")),
        ((DEAD_TOPIC, None), (DEAD_PARTITION, b"0"), (DEAD_OFFSET, b"1")),
    ],
)
def test_records_that_belong_nowhere_are_no_letters(headers: Headers) -> None:
    found = dict(headers)
    key = b"%s/%s/%s" % tuple(
        found.get(name) or b"" for name in (DEAD_TOPIC, DEAD_PARTITION, DEAD_OFFSET)
    )
    assert read_dead_letter(key, b"", headers) is None


HOSTILE = st.lists(
    st.tuples(
        st.one_of(st.sampled_from((DEAD_TOPIC, DEAD_OFFSET, REDRIVES, EXPIRES_MS)), st.text()),
        st.one_of(st.none(), st.binary(), st.integers().map(lambda number: str(number).encode())),
    ),
    max_size=8,
)


@given(HOSTILE)
def test_headers_of_strangers_never_raise(headers: list[tuple[str, bytes | None]]) -> None:
    placed: Headers = ((DEAD_TOPIC, b"t"), (DEAD_PARTITION, b"0"), (DEAD_OFFSET, b"1"))
    for given_headers in (tuple(headers), (*placed, *headers), (*headers, *placed)):
        letter = read_dead_letter(b"t/0/1", b"", given_headers)
        if letter is not None:
            again = read_dead_letter(b"t/0/1", b"", (*redrive_headers(letter, NOW_MS), *placed))
            assert again is not None
            assert again.redrives == min(letter.redrives + 1, 1_000_000)
