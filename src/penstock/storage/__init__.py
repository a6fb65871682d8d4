"""The partition's log on disk: segments, sparse indexes, recovery, retention, small journals.

Synchronous, and without clock, threads or sockets: the caller gives the time, runs the jobs, and
hands in the `Directory` that is the only way to the disk. It knows batches, not messages.
"""
