"""The connections of a Python process of Spark: one client for each cluster, kept for its life.

Spark reuses its Python workers for task after task, so a task finds the connection of the task
before it. The invariant: a client is used in the process that made it only (a forked worker makes
its own), and at most CLUSTERS_MAX are open; they are closed when the process ends in order, and by
the system where Spark ends it.
"""

from __future__ import annotations

import atexit
import os
import threading
from time import monotonic, sleep
from typing import Final

from penstock.client.blocking.client import BlockingClient, connect_blocking
from penstock.model.errors import UnavailableError

# A worker serves one job after another; few of them speak to more than a source and a sink.
CLUSTERS_MAX: Final = 4
# A broker that is being restarted is back within this time; a person with a wrong address can
# wait so long for the sentence that says so.
CONNECT_PATIENCE_S: Final = 5.0
_RETRY_S: Final = 0.25

_lock = threading.Lock()
# By process and address, the last used at the end.
_clients: dict[tuple[int, str], BlockingClient] = {}


def shared_client(bootstrap: str) -> BlockingClient:
    """This process's client of the cluster, connected now if it is not yet."""
    key = (os.getpid(), bootstrap)
    with _lock:
        client = _clients.pop(key, None) or _connected(bootstrap)
        _clients[key] = client
        while len(_clients) > CLUSTERS_MAX:
            _close(next(iter(_clients)))
    return client


def close_clients() -> None:
    """Close all clients of this process."""
    with _lock:
        for key in list(_clients):
            _close(key)


def _connected(bootstrap: str) -> BlockingClient:
    deadline_s = monotonic() + CONNECT_PATIENCE_S
    while True:
        try:
            return connect_blocking(bootstrap, client_name="penstock-spark").__enter__()
        except UnavailableError:
            if monotonic() >= deadline_s:
                raise
        sleep(_RETRY_S)


def _close(key: tuple[int, str]) -> None:
    client = _clients.pop(key)
    if key[0] == os.getpid():
        # One that came along with a fork has no thread here: it is the parent's to close.
        client.__exit__(None, None, None)


atexit.register(close_clients)
