"""What goes wrong in Spark with us: the loss of messages, and the way back from Spark's errors.

Our errors are raised in Spark's Python workers; what the user catches is Spark's own error around
the text of a traceback. `sentence` finds our sentence in there.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.model.errors import PenstockError

# How a traceback ends: the error's class with its module, and its message.
_RAISED: Final = re.compile(r"^\s*penstock(?:\.\w+)+: (?P<sentence>\S.*)$", re.MULTILINE)

NOT_INSTALLED: Final = "Spark is not installed: pip install 'penstock[spark]'."
# What the extra `spark` brings, without which nothing here can be imported.
_PACKAGES: Final = ("pyspark", "py4j", "pyarrow")


class DataLoss(PenstockError):
    """Messages were gone before the query could read them."""


def is_not_installed(error: BaseException) -> bool:
    """Whether an import failed because the extra `spark` is not there."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return False
    return error.name.partition(".")[0] in _PACKAGES


def sentence(error: BaseException) -> str | None:
    """Our sentence in an error that Spark raised, or None if it is not about us."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, PenstockError):
            return str(seen)
        if raised := _RAISED.findall(str(seen)):
            # Of several, as where one error led to another, the last is what stopped the job.
            return str(raised[-1]).strip()
        seen = seen.__cause__ or seen.__context__
    return None
