"""Becomes another program that ends when its parent does, however the parent ends.

A file that Python runs by its path, before anything of the package is loaded: `leash.py PARENT
COMMAND...`. Not a process of its own: it asks the kernel for a signal at the parent's death, and
then executes the command, which keeps that and the process id. The invariant: the command never
runs without a parent. Only Linux has such a signal; elsewhere a killed parent leaves its children.
"""

import ctypes
import os
import signal
import sys

# From <sys/prctl.h>. It survives execve (prctl(2)).
PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        # Not SIGTERM: a program that is stopped or stuck would stay.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != int(parent):
            sys.exit("error: whoever started this is gone already.")
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command is our parent's
    except OSError as error:
        sys.exit(f"error: {command[0]} cannot be run: {error.strerror}.")


if __name__ == "__main__":
    main()
