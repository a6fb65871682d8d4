"""`mq.serve`: handlers for messages, and when a program that serves is to end."""
