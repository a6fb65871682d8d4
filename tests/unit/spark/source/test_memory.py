"""Memory that is let go and needed again."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from penstock.spark.source.memory import keep_freed_memory

_FAULTS = """
import resource
from penstock.spark.source.memory import keep_freed_memory
keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    answer, columns = bytearray(4 << 20), bytearray(12 << 20)
    del answer, columns
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_the_same_memory_serves_again() -> None:
    """In a process of its own, since it is for ever."""
    done = subprocess.run([sys.executable, "-c", _FAULTS], capture_output=True, check=True)
    pages = (16 << 20) // 4096
    if hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        assert int(done.stdout) < 2 * pages, "of twenty times as many that are touched"


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    keep_freed_memory.__wrapped__()
