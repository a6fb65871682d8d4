"""How a child's end is told. Its life is in tests/system/test_local_cluster.py."""

from __future__ import annotations

import signal

from penstock.cli.local_cluster.child import how


def test_an_end_has_a_name() -> None:
    assert how(3) == "ended with exit code 3"
    assert how(-signal.SIGKILL) == "was ended by SIGKILL"
    assert how(-63) == "was ended by signal 63"
