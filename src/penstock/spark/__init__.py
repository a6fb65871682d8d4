"""Topics as tables of Spark: `format("penstock")`, on the public client only.

    import penstock.spark

    spark = penstock.spark.session()                     # or penstock.spark.register(your_session)
    orders = spark.read.format("penstock").option("bootstrap", "127.0.0.1:9092")
    orders.option("subscribe", "orders").load().show()

Names are loaded when they are first used, so importing this needs neither Spark nor Arrow; their
types are in `__init__.pyi`.
"""

from __future__ import annotations

import importlib
from typing import Any

from penstock.model.errors import InvalidConfig
from penstock.spark.errors import NOT_INSTALLED, is_not_installed

_MODULES = {
    "PenstockDataSource": "penstock.spark.source.data_source",
    "register": "penstock.spark.source.data_source",
    "session": "penstock.spark.sessions.session",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")
    try:
        module = importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        if not is_not_installed(error):
            raise
        raise InvalidConfig(NOT_INSTALLED) from None
    return getattr(module, name)
