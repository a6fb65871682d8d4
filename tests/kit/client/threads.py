"""Which threads are Penstock's: other libraries begin and end theirs when they like."""

from __future__ import annotations

import threading


def own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("penstock-")}
