"""Pipelines as they are declared: from a TOML file to what is to run."""
