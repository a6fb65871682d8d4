"""For tests: a real broker in the process, and a simulated disk.

It imports nothing itself before something of it is used: programs import it for one name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.testing.in_process import broker

__all__ = ["broker"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from penstock.testing import in_process

        return getattr(in_process, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
