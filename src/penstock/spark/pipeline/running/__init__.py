"""Pipelines at work: queries started, watched, stopped, and told of."""
