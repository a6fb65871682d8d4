"""The codec as it can run here: interpreted always, compiled where it was built.

Not a test. `PENSTOCK_PURE=1` hides the compiled one, and then the tests run interpreted alone.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from penstock import records


class Implementation(NamedTuple):
    """One way to run the codec."""

    name: str
    reading: ModuleType
    writing: ModuleType


IMPLEMENTATIONS = [
    Implementation(
        "interpreted",
        import_module("penstock.records.codec"),
        import_module("penstock.records.builder"),
    )
]
if records.COMPILED:
    IMPLEMENTATIONS.append(
        Implementation(
            "compiled",
            import_module("penstock.records._codec"),
            import_module("penstock.records._builder"),
        )
    )
