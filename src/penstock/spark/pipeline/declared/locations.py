"""Where files of a pipeline are: a path of this machine, or a URL that only Spark reaches.

The invariant: one rule for all parts, so that no part takes for a folder what another gives to
Spark. `file:` is a folder like any other. Nothing here looks at what is there.
"""

from __future__ import annotations

import os
import re
from typing import Final

# As Hadoop takes them: `hdfs:/x` has a scheme as well as `hdfs://host/x`.
_SCHEME: Final = re.compile(r"(?P<name>[a-z][a-z0-9+.-]*):/", re.IGNORECASE)
# With a host it is no path of this machine's: Spark says what it thinks of it.
_FILE: Final = re.compile(r"file:(//)?(?P<path>/(?!/).*)", re.IGNORECASE | re.DOTALL)


def is_url(text: str) -> bool:
    """Whether it has a scheme, and not `file:`."""
    return _SCHEME.match(text) is not None and _FILE.fullmatch(text) is None


def local_path(text: str, folder: str = os.curdir) -> str:
    """The absolute path of what is no URL; a relative one is relative to the folder."""
    assert not is_url(text), text
    found = _FILE.fullmatch(text)
    path = text if found is None else found["path"]
    return os.path.abspath(os.path.join(folder, os.path.expanduser(path)))


def located(text: str, folder: str = os.curdir) -> str:
    """A URL as it is, anything else as an absolute path."""
    return text if is_url(text) else local_path(text, folder)


def beneath(location: str, name: str) -> str:
    """A name in a folder or URL."""
    return f"{location.rstrip('/')}/{name}"


def for_spark(location: str) -> str:
    """So that Spark takes it for the same place: without a scheme it would look where its own
    default is, which may be no file system of a machine."""
    return location if is_url(location) else f"file://{local_path(location)}"
