"""The data source: what Spark calls, on its driver and in its tasks."""
