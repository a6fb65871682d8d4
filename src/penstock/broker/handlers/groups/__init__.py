"""Calls about groups of every kind, and who looks after them."""
