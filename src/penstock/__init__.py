"""Penstock: a durable, distributed message queue in Python, with its data pipeline on Spark.

    import penstock

    async with penstock.connect("127.0.0.1:9092") as mq:
        await mq.publish("orders", b"...", key=b"alice")
        async for message in mq.subscribe("orders", group="billing"):
            await message.ack()

`penstock.connect_blocking` is the same for scripts without asyncio; `penstock.testing.broker()` is
a real broker inside a test; `penstock.errors` has what a program may want to catch. Names are
loaded when they are first used, so that `import penstock` costs nothing; their types are in
`__init__.pyi`.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

__version__ = "0.1.0"

if os.environ.get("PENSTOCK_PURE"):
    # Hide the compiled codec: importing it fails as if it had not been built, and the same source
    # runs interpreted. Here, because the pure packages may not read `os`.
    for _name in ("builder", "codec", "column_decoder", "column_encoder", "cursor", "selection"):
        sys.modules[f"penstock.records._{_name}"] = None  # type: ignore[assignment]


_MODULES = {
    "BlockingClient": "penstock.client.blocking.client",
    "Client": "penstock.client.client",
    "Consumer": "penstock.client.consuming.consumer",
    "DamagedBatch": "penstock.client.errors",
    "DeliveryFailed": "penstock.client.errors",
    "Message": "penstock.records",
    "PartitionColumns": "penstock.client.consuming.reader",
    "PenstockError": "penstock.model.errors",
    "Producer": "penstock.client.producing.producer",
    "Receipt": "penstock.client.producing.receipts",
    "connect": "penstock.client.client",
    "connect_blocking": "penstock.client.blocking.client",
}
_PACKAGES = ("errors", "spark", "testing")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"penstock.{name}")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_PACKAGES])
