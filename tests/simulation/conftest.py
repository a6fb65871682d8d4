"""What tests of crashes share."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What production says of thousands of crashes is not kept."""
    caplog.set_level(logging.CRITICAL)
