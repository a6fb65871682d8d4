"""Fixtures for the tests of programs that use Penstock; pytest finds them by itself.

pytest loads this module in every run of every project that has Penstock installed, so importing
it costs nothing: everything that a broker needs is imported when a fixture is first used.

It stands beside the package because pytest prepares the asserts of the package that a plugin is in
for its reports: those of Penstock are not the tests' own.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def penstock_broker() -> Iterator[str]:
    """The address of a real broker that lives as long as the test session."""
    from penstock.testing.in_process import broker

    with broker() as address:
        yield address


@pytest.fixture
def penstock_topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has; the topic is created when it is first used."""
    test = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)
    return f"{test[:80]}-{uuid.uuid4().hex[:8]}"
