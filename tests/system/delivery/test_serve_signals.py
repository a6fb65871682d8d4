"""A worker that is asked to end: what is under way is finished, the rest is for others at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
import penstock.testing

SCRIPT = Path(__file__).parent / "serving_script.py"
SECONDS_MAX = 60
MESSAGES = 12
# What a shell without job control starts with & begins like this, as in many an entrypoint.
WITHOUT_INTERRUPTS = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with penstock.testing.broker() as address:
        yield address


@pytest.fixture(params=["shared", "exclusive"])
def mode(request: pytest.FixtureRequest) -> str:
    """Whether members share messages or partitions."""
    return str(request.param)


@pytest.fixture
def left(address: str) -> Iterator[list[int]]:
    """Attempts of what another member of the group gets within a moment after the worker."""
    with penstock.connect_blocking(address) as mq:
        mq.admin.create_topic("idle", 1)
        mq.admin.create_topic("jobs", 1)
        for _ in range(MESSAGES):
            mq.publish("jobs", b"work")
        found: list[int] = []
        yield found
        for topic in ("idle", "jobs"):
            mq.admin.delete_topic(topic)
        for group in mq.admin.list_groups():
            mq.groups.delete(group)


def ended(
    address: str, kind: str, mode: str, number: int | None, under: tuple[str, ...] = ()
) -> tuple[int, str, str]:
    """Exit code, output and errors of a worker that was sent the signal at its first message."""
    command = [*under, sys.executable, str(SCRIPT), address, kind, mode]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stderr is not None
        late = threading.Timer(SECONDS_MAX, worker.kill)
        late.start()
        first = worker.stdout.readline()
        if number is not None:
            worker.send_signal(number)
        output, errors = worker.stdout.read(), worker.stderr.read()
    late.cancel()
    return worker.returncode, first + output, errors


def take_over(address: str, mode: str, left: list[int]) -> None:
    with penstock.connect_blocking(address) as mq:
        make = mq.share if mode == "shared" else mq.consumer
        with make("jobs", group="workers") as consumer:
            messages = consumer.fetch(timeout_s=10)
            while messages:
                left += [message.attempt for message in messages]
                for message in messages:
                    message.ack()
                messages = consumer.fetch(timeout_s=0.3)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("main", signal.SIGTERM),
        ("main", signal.SIGINT),
        ("beside a loop", signal.SIGTERM),
        ("blocking", signal.SIGTERM),
    ],
)
def test_it_finishes_what_is_under_way_and_returns(
    address: str, left: list[int], kind: str, mode: str, number: int
) -> None:
    """R-DEL-3: nothing is handled twice, and no attempt is lost."""
    code, output, errors = ended(address, kind, mode, number)
    assert (code, errors) == (0, "")
    assert output.endswith("returned\n")
    assert output.count("begun") == output.count("done") <= MESSAGES - 3
    take_over(address, mode, left)
    assert left == [1] * (MESSAGES - output.count("done"))


@pytest.mark.parametrize("kind", ["main", "main, uvloop"])
def test_it_does_so_too_where_interrupts_are_ignored(
    address: str, left: list[int], kind: str, mode: str
) -> None:
    """R-DEL-3: asyncio does not handle SIGINT then; the program has its end all the same."""
    code, output, errors = ended(address, kind, mode, signal.SIGTERM, WITHOUT_INTERRUPTS)
    assert (code, errors) == (0, "")
    assert output.endswith("returned\n")
    assert output.count("begun") == output.count("done") <= MESSAGES - 3
    take_over(address, mode, left)
    assert left == [1] * (MESSAGES - output.count("done"))


def test_beside_other_tasks_the_signal_ends_the_program_afterwards(
    address: str, left: list[int], mode: str
) -> None:
    """R-DEL-3: returning would not: what runs beside it may run for ever."""
    code, output, errors = ended(address, "child", mode, signal.SIGTERM)
    assert (code, errors) == (-signal.SIGTERM, "")
    assert output.count("begun") == output.count("done") <= MESSAGES - 3
    take_over(address, mode, left)
    assert left == [1] * (MESSAGES - output.count("done"))


@pytest.mark.parametrize("mode", ["shared"])
@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("again", signal.SIGTERM),
        ("again", signal.SIGINT),
        ("children, again", signal.SIGTERM),
        ("blocking, again", signal.SIGTERM),
    ],
)
def test_one_signal_ends_a_program_that_serves_again_and_again(
    address: str, left: list[int], kind: str, mode: str, number: int
) -> None:
    """R-DEL-3: a loop that goes on after errors is no way to outlive a signal."""
    code, output, _ = ended(address, kind, mode, number)
    assert code == -number
    assert output.count("begun") == output.count("done") <= MESSAGES - 3
    take_over(address, mode, left)
    assert left == [1] * (MESSAGES - output.count("done"))


@pytest.mark.parametrize("mode", ["shared"])
def test_an_interrupt_ends_no_more_than_what_was_running(
    address: str, left: list[int], mode: str
) -> None:
    """R-OPS-5: an interactive interpreter is interrupted, and runs the next thing."""
    code, output, errors = ended(address, "runs", mode, signal.SIGINT)
    assert (code, errors, output.count("returned")) == (0, "", 2)
    take_over(address, mode, left)
    assert left == [1] * (MESSAGES - output.count("done"))


@pytest.mark.parametrize("kind", ["hangs", "blocking, hangs"])
def test_a_plain_function_that_hangs_does_not_keep_the_process(
    address: str, left: list[int], kind: str, mode: str
) -> None:
    """R-DEL-3: it has its time; then the program goes on to its end, and its messages to others."""
    code, output, errors = ended(address, kind, mode, signal.SIGTERM)
    assert (code, errors) == (0, "")
    assert output.endswith("returned\n")
    take_over(address, mode, left)
    assert left == [1] * MESSAGES


@pytest.mark.usefixtures("left")
def test_one_that_is_cancelled_says_nothing(address: str, mode: str) -> None:
    """R-OPS-5: errors that are none would hide those that are."""
    code, output, errors = ended(address, "leave", mode, None)
    assert (code, output, errors) == (0, "begun\n", "")
