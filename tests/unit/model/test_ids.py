"""Topic names: Kafka's rules, refused with what to do."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidTopic
from penstock.model.ids import check_public, check_topic_name


@pytest.mark.parametrize("name", ["orders", "a", "A.b_c-9", "x" * 249, "...", "-"])
def test_fit_names(name: str) -> None:
    assert check_topic_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a b", "a/b", "../up", "ü", "a\n", "a\0", "a:b", "日本"]
)
def test_unfit_names(name: str) -> None:
    with pytest.raises(InvalidTopic):
        check_topic_name(name)


def test_topics_of_the_brokers_own_are_not_changed() -> None:
    check_public("orders")
    with pytest.raises(InvalidTopic):
        check_public("__offsets")
