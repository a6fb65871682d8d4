"""What is waited for is said once, and only if it lasts."""

from __future__ import annotations

import logging

import pytest

from penstock.client.concurrency.hindrance import TELL_AFTER_S, Hindrance
from penstock.model.errors import Busy

logger = logging.getLogger(__name__)


def test_what_lasts_is_said_once_and_that_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    hindrance = Hindrance(logger, "orders-0", "written")
    for now_s in (10.0, 10.0 + TELL_AFTER_S - 0.1):
        hindrance.met(now_s, 30.0, Busy("Very busy."))
    assert caplog.messages == []
    for now_s in (10.0 + TELL_AFTER_S, 20.0):
        hindrance.met(now_s, 27.6, Busy("Very busy."))
    hindrance.overcome()
    assert caplog.messages == [
        "orders-0 cannot be written, and is tried again for 28 s: Very busy.",
        "orders-0 can be written again",
    ]


def test_what_does_not_last_is_nobody_s_concern(caplog: pytest.LogCaptureFixture) -> None:
    hindrance = Hindrance(logger, "orders-0", "written")
    hindrance.met(10.0, 30.0, Busy("Very busy."))
    hindrance.overcome()
    assert caplog.messages == []
