"""What brokers ask of meta servers, where one runs within this broker (R-REP-5).

Not the answers (`registry.metaserver.service`).
"""

from __future__ import annotations

from typing import Any

from penstock.broker.call import Call
from penstock.broker.ground import Ground


def meta(ground: Ground, call: Call[Any]) -> None:
    if ground.meta_server is None:
        raise ground.nobody_for(call.name)
    ground.meta_server.serve(call)
