"""The words every other package speaks: ids, errors, limits, settings. No I/O, no dependencies."""
