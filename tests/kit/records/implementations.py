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
    cursor: ModuleType
    reading: ModuleType
    writing: ModuleType
    column_reading: ModuleType
    column_writing: ModuleType
    selecting: ModuleType


def _implementation(name: str, prefix: str) -> Implementation:
    modules = ("cursor", "codec", "builder", "column_decoder", "column_encoder", "selection")
    return Implementation(
        name, *(import_module(f"penstock.records.{prefix}{module}") for module in modules)
    )


IMPLEMENTATIONS = [_implementation("interpreted", "")]
if records.COMPILED:
    IMPLEMENTATIONS.append(_implementation("compiled", "_"))
