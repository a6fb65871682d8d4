"""The results as files: one HTML page for people, Parquet for machines."""
