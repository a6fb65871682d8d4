"""The command as a whole: every command explains itself, and scripts can trust its exit codes."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from penstock import __version__
from penstock.cli.main import main, make_app


def text_of(*words: str) -> str:
    run = CliRunner().invoke(make_app(words), [*words])
    assert run.exit_code == 0, run.output
    return run.stdout


def listed(*group: str) -> list[str]:
    commands = text_of(*group, "--help").partition("Commands:")[2]
    return re.findall(r"^  ([a-z]+)  ", commands, re.MULTILINE)


def test_these_are_the_commands() -> None:
    assert set(listed()) == {
        *("up", "topics", "produce", "consume", "offsets", "inspect", "pipeline", "bench"),
        *("demo", "cluster", "metaserver", "request", "clients", "groups", "subscriptions"),
        *("delayed", "schedules"),
    }
    assert set(listed("delayed")) == {"describe", "cancel"}
    assert set(listed("schedules")) == {"list", "put", "delete"}
    assert set(listed("pipeline")) == {"run", "validate", "archive", "replay", "inspect"}
    assert set(listed("topics")) == {"list", "create", "describe", "alter", "delete"}
    assert set(listed("offsets")) == {"show", "groups", "commit"}


def test_every_command_has_help_with_examples() -> None:
    for name in listed():
        for path in [[name, inner] for inner in listed(name)] or [[name]]:
            examples = text_of(*path, "--help").partition("Examples:")[2]
            assert f"penstock {' '.join(path)}" in examples, path


def test_it_says_its_version() -> None:
    assert text_of("--version") == f"penstock {__version__}\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["offsets", "commit", "t", "--group", "g", "--to", "noon"], 1, "error: 'noon' is not a"),
        (["topics", "alter", "t"], 1, "error: There is nothing to change"),
        (["consume", "t", "--timeout", "soon"], 1, "error: 'soon' is not a length of time"),
        (["topics", "create", "t", "--set", "x=1"], 1, "error: A topic has no setting 'x'"),
        (["topics", "list", "--bootstrap", "a:b:c"], 1, "error: "),
        (["consume"], 2, "Missing argument"),
        (["produce", "t", "--acks", "2"], 2, "'2' is not one of"),
        (["inspect", "/no/such/folder"], 2, "does not exist"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(
    words: list[str],
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["penstock", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    if code == 1:
        assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "commands"),
    [
        (["topics", "list"], {"topics"}),
        (["subscriptions", "--help"], {"subscriptions"}),
        (["--bootstrap", "topics"], set()),
        (["nonsense"], set()),
    ],
)
def test_only_the_command_asked_for_is_imported(words: list[str], commands: set[str]) -> None:
    """Most of what a short command costs is imports. Where none is known, all are."""
    app = make_app(words)
    known = {command.name for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    assert known == commands or (not commands and len(known) > 15)
