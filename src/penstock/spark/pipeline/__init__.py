"""Pipelines: sources, steps and sinks that a TOML file declares, and the built-in ones.

What a file says is read and checked by `load` (load.py) without Spark; `run` (run.py) builds it in
a Spark session; `table` keeps Parquet folders in which every reader finds each row once; `archive`
and `replay` are built on these.
"""
