"""`penstock metaserver`: what is wrong is said in one sentence before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.commands.metaserver import metaserver
from penstock.model.errors import InvalidConfig


@pytest.mark.parametrize(
    ("number", "voters", "session_timeout_ms", "reason"),
    [
        (4, "1@a:1,2@b:1,3@c:1", 6_000, "--id 4 is not among the servers"),
        (1, "1@a:1,2@b:1", 6_000, "one, three or five meta servers"),
        (1, "1@a:1", 10, "--session-timeout-ms 10 is too short"),
    ],
)
def test_what_cannot_be_is_refused(
    number: int, voters: str, session_timeout_ms: int, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        metaserver(number, voters, str(tmp_path / "data"), "", session_timeout_ms)
    assert not (tmp_path / "data").exists()
