"""The Spark data source and pipelines, on the public client only. Its room."""
