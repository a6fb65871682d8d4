"""Found by Spark itself: it looks for `DefaultSource` in every package named `pyspark_…`.

So `format("penstock")` works in any session where penstock is installed. Nothing else is here.
"""

from penstock.spark.source.data_source import DefaultSource

__all__ = ["DefaultSource"]
