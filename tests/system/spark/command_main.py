"""Runs commands of `penstock` one after another in one process: they share a JVM, which then is
warm. Whoever wants a command as a process of its own (to kill it, to see it end) starts that.

In: a line of JSON a command, its words and its environment. Out: what the command writes, and then
a line with its exit code.
"""

from __future__ import annotations

import json
import os
import sys

from penstock.cli.main import main

END = "\0ended with "


def run(words: list[str], environment: dict[str, str]) -> int:
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["penstock", *words]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    for line in sys.stdin:
        code = run(**json.loads(line))
        sys.stderr.flush()
        print(f"{END}{code}", flush=True)
