"""Producers: the numbers of those that retry, and those that have a topic for themselves."""
