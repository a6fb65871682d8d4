"""Sees to it that executors of a cluster have Penstock: theirs, or ours sent to them.

On this machine they run the same Python and have it. Elsewhere they are asked; where it is missing
or of another version, the package is sent as a zip (its compiled parts cannot be imported from one,
so the codec runs interpreted there: slower, the same results). What it needs besides must be there.
"""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, Final

import penstock
from penstock.model.errors import InvalidConfig
from penstock.spark.sessions.session import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBES: Final = 2


def reach_executors(spark: SparkSession, master: str, work_folder: str) -> bool:
    """Whether the package was sent. InvalidConfig if executors cannot use it even so."""
    from penstock.spark.source.data_source import register

    if is_local(master) or _missing_on_executors(spark) is None:
        return False
    archive = os.path.join(work_folder, "penstock.zip")
    pack(archive)
    spark.sparkContext.addPyFile(archive)
    # What is registered remembers which files go with it.
    register(spark)
    missing = _missing_on_executors(spark)
    if missing is not None:
        raise InvalidConfig(
            f"The executors at {master} cannot run Penstock ({missing}): run "
            f"`pip install 'penstock[spark]=={penstock.__version__}'` for their Python."
        )
    return True


def pack(archive: str) -> None:
    """Our Python files as a zip that Python can import from."""
    root = os.path.dirname(os.path.abspath(penstock.__file__))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                if name.endswith((".py", ".pyi")):
                    path = os.path.join(folder, name)
                    packed.write(path, os.path.join("penstock", os.path.relpath(path, root)))


def _missing_on_executors(spark: SparkSession) -> str | None:
    """What is wrong with Penstock on the executors, as the first of them says; None: nothing."""
    version = penstock.__version__

    def probe(_rows: object) -> list[str]:
        try:
            import pyarrow  # noqa: F401

            import penstock as theirs
            import penstock.client.blocking.client
        except ImportError as error:
            return [str(error)]
        return [] if theirs.__version__ == version else [f"it is {theirs.__version__} there"]

    context = spark.sparkContext
    slices = max(_PROBES, context.defaultParallelism)
    found = context.parallelize(range(slices), slices).mapPartitions(probe).take(1)
    return found[0] if found else None
