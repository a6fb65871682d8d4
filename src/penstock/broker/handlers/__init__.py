"""What each call does. A handler checks the request, asks the broker's parts, and answers.

None of them waits: one that must gives the rest to a task, or to a callback where it is hot.
"""
