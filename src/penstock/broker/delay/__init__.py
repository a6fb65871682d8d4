"""Delayed and scheduled messages (R-DEL-13): kept in `__delayed`, brought to their partitions when
due.

The broker that leads `__delayed` accepts, cancels and delivers; every broker with a copy of it
knows what it says, so that whoever leads next goes on at once.
"""
