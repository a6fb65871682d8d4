"""For all tests: the signals a program started from a terminal has.

A job that a script puts in the background ignores Ctrl-C, and so would every process that a test
starts; tests of what Ctrl-C does would wait for ever.
"""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
