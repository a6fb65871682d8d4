"""Children are kept running, in stages, and none is left behind: real processes, small programs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.local_cluster.child import Child, Program
from penstock.cli.local_cluster.restarts import Restarts
from penstock.cli.local_cluster.supervisor import Supervisor
from penstock.model.errors import UnavailableError

SECONDS_MAX = 20
SERVES = "import time; print('listening on here', flush=True); time.sleep(600)"


class Household:
    """Children, what they wrote and what was told of them."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.told: list[str] = []

    def child(
        self,
        program: str,
        name: str = "broker 1",
        *,
        restarts: Restarts | None = None,
        stop_seconds_max: float = SECONDS_MAX,
        environment: dict[str, str] | None = None,
    ) -> Child:
        return Child(
            Program(
                name=name,
                command=[sys.executable, "-c", program],
                environment={**os.environ, **(environment or {})},
                stop_seconds_max=stop_seconds_max,
            ),
            self.written.append,
            self.told.append,
            restarts=restarts,
        )

    async def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not holds():
            assert time.monotonic() < deadline, (self.told, self.written)
            await asyncio.sleep(0.01)


def quick() -> Restarts:
    return Restarts(first_s=0.05, most_s=0.1)


def is_alive(process_id: int) -> bool:
    """Whether it runs: not if it is only waiting to be asked how it ended."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def process_id_of(child: Child) -> int:
    assert child.process_id is not None
    return child.process_id


async def test_one_that_dies_is_started_again_and_told_of() -> None:
    house = Household()
    child = house.child(f"import sys; print('hm', file=sys.stderr); {SERVES}", restarts=quick())
    running = asyncio.ensure_future(child.run())
    await asyncio.wait_for(child.ready.wait(), SECONDS_MAX)
    first = process_id_of(child)
    os.kill(first, signal.SIGKILL)
    await house.until(lambda: "broker 1 runs again." in house.told)
    assert house.told[0] == ("broker 1 was ended by SIGKILL (hm) and is started again in 0.05 s.")
    assert child.process_id != first
    assert house.written == ["hm", "hm"], "lines are passed on, the one that says ready is not"
    await child.stop()
    await running
    assert child.process_id is None


async def test_the_last_error_is_the_reason_and_not_the_last_line() -> None:
    house = Household()
    lines = [
        "2026-11-16 12:56:28,453 ERROR penstock.broker: The disk is gone.",
        "2026-11-16 12:56:28,454 WARNING penstock.net: Broker 3 cannot be reached",
        "2026-11-16 12:56:28,455 [myid:] - INFO  [main:Server@1] - Closed",
    ]
    program = (
        f"import sys; print('listening on x'); sys.stderr.write({chr(10).join(lines)!r}); exit(7)"
    )
    await asyncio.wait_for(house.child(program).run(), SECONDS_MAX)
    (told,) = house.told
    assert told.startswith("broker 1 ended with exit code 7 (2026-11-16 12:56:28,453 ERROR ")
    assert "The disk is gone) and" in told
    assert house.written == lines


async def test_each_further_start_waits_longer() -> None:
    house = Household()
    child = house.child("print('listening on x'); exit(7)", restarts=quick())
    running = asyncio.ensure_future(child.run())
    await house.until(lambda: len(house.told) >= 6)
    await child.stop()
    await running
    ends = [line for line in house.told if "ended" in line]
    assert ends[:3] == [
        f"broker 1 ended with exit code 7 and is started again in {wait} s."
        for wait in ("0.05", "0.1", "0.1")
    ]


async def test_without_restart_it_stays_dead() -> None:
    house = Household()
    await asyncio.wait_for(house.child("print('listening on x'); exit(7)").run(), SECONDS_MAX)
    assert house.told == ["broker 1 ended with exit code 7 and is not started again."]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("exit('error: The folder is in use.')", "broker 1 did not start: The folder is in use."),
        ("exit(3)", "broker 1 did not start: it ended with exit code 3."),
        ("1/0", "broker 1 did not start: ZeroDivisionError: division by zero"),
    ],
)
async def test_one_that_never_was_ready_is_not_tried_again(program: str, words: str) -> None:
    house = Household()
    with pytest.raises(UnavailableError) as failed:
        await asyncio.wait_for(house.child(program, restarts=quick()).run(), SECONDS_MAX)
    assert failed.value.message == words
    assert not any(line.startswith("error:") for line in house.written), "it is told once"


async def test_what_the_system_refuses_to_start_did_not_start() -> None:
    house = Household()
    child = house.child(SERVES, environment={"LONG": "x" * 200_000})
    with pytest.raises(UnavailableError, match="The system cannot start it: Argument list too"):
        await asyncio.wait_for(child.run(), SECONDS_MAX)


async def test_one_that_does_not_end_is_killed() -> None:
    house = Household()
    program = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SERVES}"
    child = house.child(program, stop_seconds_max=0.1)
    running = asyncio.ensure_future(child.run())
    await asyncio.wait_for(child.ready.wait(), SECONDS_MAX)
    await child.stop()
    await running
    assert house.told == ["broker 1 does not end and is killed."]


async def test_a_stop_while_it_waits_to_start_again_does_not_wait() -> None:
    house = Household()
    child = house.child("print('listening on x')", restarts=Restarts(first_s=600))
    running = asyncio.ensure_future(child.run())
    await house.until(lambda: house.told)
    await child.stop()
    await asyncio.wait_for(running, SECONDS_MAX)


async def test_a_stop_while_it_is_being_started_leaves_nothing() -> None:
    house = Household()
    child = house.child(SERVES)
    running = asyncio.ensure_future(child.run())
    await asyncio.sleep(0)
    await child.stop()
    await asyncio.wait_for(running, SECONDS_MAX)
    assert child.process_id is None


REPORTER = """
import os, signal, time

def note(word):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{word} {os.environ['NAME']}\\n")

def end(*_):
    note("ends")
    os._exit(0)

signal.signal(signal.SIGTERM, end)
note("begins")
print("listening on x", flush=True)
time.sleep(600)
"""


async def test_stages_start_in_order_and_end_in_reverse(tmp_path: Path) -> None:
    house = Household()
    notes_path = tmp_path / "notes"
    children = {
        name: house.child(REPORTER, name, environment={"NAME": name, "NOTES": str(notes_path)})
        for name in ("zoo", "a", "b")
    }
    supervisor = Supervisor([[children["zoo"]], [children["a"], children["b"]]])
    ending = asyncio.Event()
    assert await asyncio.wait_for(supervisor.run(ending, ending.set), SECONDS_MAX)
    notes = notes_path.read_text().splitlines()
    assert notes[0] == "begins zoo"
    assert set(notes[1:3]) == {"begins a", "begins b"}
    assert set(notes[3:5]) == {"ends a", "ends b"}
    assert notes[5] == "ends zoo"


async def test_when_one_does_not_start_the_others_are_ended() -> None:
    house = Household()
    good, bad = house.child(SERVES, "good"), house.child("exit('error: no')", "bad")
    supervisor = Supervisor([[good, bad]])
    with pytest.raises(UnavailableError, match="bad did not start: no"):
        await asyncio.wait_for(supervisor.run(asyncio.Event(), house.told.clear), SECONDS_MAX)
    assert (good.process_id, bad.process_id) == (None, None)


async def test_it_can_be_ended_before_all_are_ready() -> None:
    house = Household()
    child = house.child("import time; time.sleep(600)")
    ending = asyncio.Event()
    running = asyncio.ensure_future(Supervisor([[child]]).run(ending, lambda: None))
    await house.until(lambda: child.process_id)
    ending.set()
    assert await asyncio.wait_for(running, SECONDS_MAX)


async def test_it_is_ready_only_when_the_children_are_of_use_together() -> None:
    house = Household()
    ready, settled, ending = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def settle() -> None:
        await settled.wait()

    children = [house.child(SERVES, name) for name in ("a", "b")]
    running = asyncio.ensure_future(Supervisor([children], settle).run(ending, ready.set))
    await house.until(lambda: all(child.ready.is_set() for child in children))
    assert not ready.is_set()
    settled.set()
    await asyncio.wait_for(ready.wait(), SECONDS_MAX)
    ending.set()
    assert await asyncio.wait_for(running, SECONDS_MAX)


async def test_when_the_last_one_has_ended_it_is_over() -> None:
    house = Household()
    zoo = house.child(SERVES, "zoo")
    brokers = [house.child("print('listening on x')", name) for name in ("a", "b")]
    supervisor = Supervisor([[zoo], brokers])
    assert not await asyncio.wait_for(supervisor.run(asyncio.Event(), lambda: None), SECONDS_MAX)
    assert zoo.process_id is None


def test_no_child_outlives_a_parent_that_was_killed(tmp_path: Path) -> None:
    """Also one that is stopped, and would not notice anything else."""
    parent = f"""
import asyncio, os, sys
from penstock.cli.local_cluster.child import Child, Program
async def main():
    program = Program(name="x", command=[sys.executable, "-c", {SERVES!r}], environment=os.environ)
    child = Child(program, print, print, restarts=None)
    running = asyncio.ensure_future(child.run())
    await child.ready.wait()
    print(child.process_id, flush=True)
    await running
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        os.kill(child, signal.SIGSTOP)
        assert is_alive(child)
        process.kill()
    deadline = time.monotonic() + SECONDS_MAX
    while is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)
