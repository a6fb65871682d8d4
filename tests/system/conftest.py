"""What tests that start Spark share, here and in commands they run."""

from __future__ import annotations

import os

import pytest

from tests.kit.spark.archive import java_options


@pytest.fixture(scope="session")
def fast_java() -> None:
    """Spark gives these options to every driver, whether it is started here or by a command."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())
