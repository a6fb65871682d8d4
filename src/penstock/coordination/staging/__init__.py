"""Staged writes: what many tasks stage appears at one decision, exactly once. Pure."""
