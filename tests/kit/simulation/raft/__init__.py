"""Consensus alone: production's `Raft` in a shell for tests, on a log that is only numbers."""
