"""Consensus as a pure state machine: terms, membership and messages; the state of a node; the parts
it plays (following, campaign, leadership with progress); and the node as a whole (core)."""
