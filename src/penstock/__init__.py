"""Penstock: a durable, distributed message queue in Python, with its data pipeline on Spark."""

from __future__ import annotations

import os
import sys

__version__ = "0.1.0"

if os.environ.get("PENSTOCK_PURE"):
    # Hide the compiled codec: `import penstock.records._codec` fails as if it had not been built,
    # and the same source runs interpreted. Here, because the pure packages may not read `os`.
    sys.modules["penstock.records._codec"] = None  # type: ignore[assignment]
