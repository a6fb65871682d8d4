"""A command forked from the warm process is like one that was executed: to whom it belongs, what
it is given, what it gives back and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import penstock
from tests.kit.processes.up import PENSTOCK, environment, up
from tests.kit.runs.warm_processes import MODULE, warm


@pytest.fixture(params=["forked", "executed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(warm, "is_on", warm.is_on and request.param == "forked")
    return str(request.param)


def run(command: Sequence[str], **others: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*command], capture_output=True, text=True, check=False, env=environment(**others)
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(not warm.is_on, reason="every process is executed")
def test_a_command_is_a_fork(tmp_path: Path) -> None:
    with up("--listen", "127.0.0.1:0", "--data", str(tmp_path)) as (process, _):
        executable = Path(f"/proc/{process.pid}/cmdline").read_text()
    assert "warm_main" in executable


@pytest.mark.skipif(not warm.is_on, reason="every process is executed")
def test_what_forks_has_no_threads() -> None:
    run([PENSTOCK, "--version"])
    assert warm.process is not None
    assert len(os.listdir(f"/proc/{warm.process.pid}/task")) == 1


@pytest.mark.skipif(not warm.is_on, reason="every process is executed")
def test_what_forks_is_started_again_when_it_has_ended() -> None:
    run([PENSTOCK, "--version"])
    before = warm.process
    assert before is not None
    before.kill()
    assert run([PENSTOCK, "--version"]) == (0, f"penstock {penstock.__version__}\n", "")
    assert before.poll() == -signal.SIGKILL
    assert warm.process is not before


def test_output_and_exit_code(way: str) -> None:
    assert run([PENSTOCK, "--version"]) == (0, f"penstock {penstock.__version__}\n", "")
    assert run([*MODULE, "--version"]) == (0, f"penstock {penstock.__version__}\n", "")
    code, said, complained = run([PENSTOCK, "topics", "list", "--bootstrap", "127.0.0.1:1"])
    assert (code, said, complained[:7]) == (1, "", "error: ")
    code, said, complained = run([PENSTOCK, "nonsense"])
    assert (code, said, complained[:24]) == (2, "", "Usage: penstock [OPTIONS")
    assert run([*MODULE, "x"])[2].startswith("Usage: python -m penstock.cli [OPTIONS")


def test_the_environment_and_the_folder_are_those_given(way: str, tmp_path: Path) -> None:
    assert "listen on nonsense" in run([PENSTOCK, "up"], PENSTOCK_LISTEN="nonsense")[2]
    with subprocess.Popen(
        [PENSTOCK, "up", "--listen", "127.0.0.1:0", "--data", "here"],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert (tmp_path / "here").is_dir()


def test_a_child_that_can_be_stopped_and_killed(way: str, tmp_path: Path) -> None:
    with up("--listen", "127.0.0.1:0", "--data", str(tmp_path)) as (process, line):
        assert "listening" in line
        assert f"PPid:\t{os.getpid()}\n" in Path(f"/proc/{process.pid}/status").read_text()
        process.send_signal(signal.SIGSTOP)
        assert os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        process.kill()
        assert process.wait(10) == -signal.SIGKILL


def test_it_has_no_files_but_its_own(way: str, tmp_path: Path) -> None:
    with (
        open(tmp_path / "of the test", "w"),
        up("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")) as (process, _),
    ):
        opened = [os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
    assert str(tmp_path / "of the test") not in opened


async def test_awaited(way: str) -> None:
    process = await asyncio.create_subprocess_exec(
        PENSTOCK, "--version", stdout=subprocess.PIPE, env=environment()
    )
    said, _ = await process.communicate()
    assert said == f"penstock {penstock.__version__}\n".encode()
    assert process.returncode == 0


def test_who_asks_for_more_than_a_fork_is_executed(tmp_path: Path) -> None:
    done = subprocess.run(
        [PENSTOCK, "--version"], capture_output=True, check=True, env=environment(PYTHONVERBOSE="1")
    )
    assert b"import 'penstock.cli.main'" in done.stderr
    assert subprocess.run([sys.executable, "-c", "exit(7)"], check=False).returncode == 7


def test_a_session_of_its_own(way: str) -> None:
    with subprocess.Popen(
        [PENSTOCK, "produce", "t"], stdin=subprocess.PIPE, start_new_session=True, env=environment()
    ) as process:
        assert os.getsid(process.pid) == process.pid
        process.kill()
