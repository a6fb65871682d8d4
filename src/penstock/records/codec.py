"""Placeholder replaced by the codec."""
