"""`penstock`, whose broker is killed when a dead letter is written and its message not yet done."""

from __future__ import annotations

import os
import signal

from penstock.cli.main import main
from penstock.coordination.delivery.shared_partition import SharePartition


def die(machine: SharePartition, offset: int) -> None:
    del machine, offset
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    SharePartition.buried = die  # type: ignore[assignment,method-assign]
    main()
