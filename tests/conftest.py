"""For all tests: the signals a program started from a terminal has, and no haste.

A job that a script puts in the background ignores Ctrl-C, and so would every process that a test
starts; tests of what Ctrl-C does would wait for ever. And an example of a property may take as long
as a loaded machine lets it: how fast something is, benchmarks say.
"""

from __future__ import annotations

import signal

from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("without haste", deadline=None)
settings.load_profile("without haste")
