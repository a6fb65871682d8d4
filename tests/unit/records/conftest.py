"""Runs every test that takes `implementation` interpreted and compiled, in one run."""

from __future__ import annotations

import pytest

from tests.kit.records.implementations import IMPLEMENTATIONS, Implementation


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    assert isinstance(request.param, Implementation)
    return request.param
