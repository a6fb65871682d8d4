"""R-SPK-4: a checkpoint goes on with what it is of, and with nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.model.errors import InvalidConfig, StorageFailed
from penstock.spark.pipeline.checkpoint import claim_here
from penstock.spark.pipeline.load import load_text

TEXT = """
[pipeline]
name = "x"
checkpoint = "c"
[sources.a]
topics = ["a", "b"]
[sources.table]
topic = "rates"
end = "latest"
[sinks.one]
from = "a"
topic = "out"
[sinks.two]
from = "s"
console = true
[[steps]]
name = "s"
sql = "SELECT * FROM a JOIN table"
"""
FURTHER = '[sources.other]\ntopic = "z"\n[sinks.three]\nfrom = "other"\nconsole = true\n'


def claim(folder: Path, text: str) -> None:
    loaded = load_text(text, str(folder / "p.toml"), {})
    assert loaded.pipeline is not None, loaded.problems
    claim_here(loaded.pipeline)


def begin(folder: Path, sink: str) -> None:
    """As Spark does with a sink's first batch."""
    (folder / "c" / sink / "offsets").mkdir(parents=True)
    (folder / "c" / sink / "offsets" / "0").touch()


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A checkpoint whose sinks have both read something."""
    claim(tmp_path, TEXT)
    begin(tmp_path, "one")
    begin(tmp_path, "two")
    return tmp_path


def test_it_is_written_before_anything_is_read(tmp_path: Path) -> None:
    claim(tmp_path, TEXT)
    assert json.loads((tmp_path / "c" / "pipeline.json").read_text()) == {
        "version": 1,
        "pipeline": "x",
        "sinks": {
            "one": {"topics": ["a", "b"], "patterns": []},
            "two": {"topics": ["a", "b"], "patterns": []},
        },
    }
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["pipeline.json"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ('name = "x"', 'name = "x"\nbootstrap = "elsewhere:1"'),
        ('["a", "b"]', '["b", "c", "a"]'),  # another topic is read from its start
        ('topic = "rates"', 'topic = "other"'),  # a table, read anew by each run
        ("sources.a]", "sources.renamed]"),
        ('topic = "out"', 'topic = "elsewhere"'),
        ("\n[sources.table]", f"\n{FURTHER}[sources.table]"),
        ("[sinks.one]", "[sinks.new]"),
    ],
)
def test_what_may_change(old: str, new: str, begun: Path) -> None:
    text = TEXT.replace(old, new)
    if "renamed" in new:
        text = text.replace('from = "a"', 'from = "renamed"').replace("FROM a", "FROM renamed")
    claim(begun, text)
    claim(begun, text)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('name = "x"', 'name = "y"', "of the pipeline x, and this is y"),
        ('["a", "b"]', '["a"]', r"sinks\.one read b before"),
        ('topics = ["a", "b"]', 'topic = "test"', r"sinks\.one read a, b before"),
        ('topics = ["a", "b"]', 'pattern = "[ab]"', r"sinks\.one read a, b before"),
    ],
)
def test_what_may_not(old: str, new: str, expected: str, begun: Path) -> None:
    """Positions of a topic that a run does not read are dropped, and one after it would read the
    topic from its start again: rows twice."""
    before = (begun / "c" / "pipeline.json").read_bytes()
    with pytest.raises(InvalidConfig, match=f"{expected}.*--checkpoint"):
        claim(begun, TEXT.replace(old, new))
    assert (begun / "c" / "pipeline.json").read_bytes() == before


def test_a_pattern_stays_as_it_is(tmp_path: Path) -> None:
    text = TEXT.replace('topics = ["a", "b"]', 'pattern = "a.*"')
    claim(tmp_path, text)
    begin(tmp_path, "two")
    claim(tmp_path, text)
    with pytest.raises(InvalidConfig, match=r"sinks\.two read names like a\.\* before"):
        claim(tmp_path, text.replace("a.*", "b.*"))


def test_a_sink_that_was_left_out_for_a_while_is_remembered(begun: Path) -> None:
    claim(begun, TEXT.replace("[sinks.one]", "[sinks.new]"))
    with pytest.raises(InvalidConfig, match=r"sinks\.one read b before"):
        claim(begun, TEXT.replace('["a", "b"]', '["a"]'))


def test_whoever_corrects_a_mistake_before_the_first_batch_needs_no_other_checkpoint(
    tmp_path: Path,
) -> None:
    claim(tmp_path, TEXT)
    (tmp_path / "c" / "one" / "offsets").mkdir(parents=True)
    claim(tmp_path, TEXT.replace('["a", "b"]', '["corrected"]').replace('"x"', '"renamed"'))
    record = json.loads((tmp_path / "c" / "pipeline.json").read_text())
    assert record["pipeline"] == "renamed"
    assert record["sinks"]["one"] == {"topics": ["corrected"], "patterns": []}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"version": 1}', b'{"version": 1, "pipeline": 5, "sinks": 5}'],
)
def test_a_damaged_record_is_one_sentence(content: bytes, begun: Path) -> None:
    (begun / "c" / "pipeline.json").write_bytes(content)
    with pytest.raises(StorageFailed, match=r"pipeline\.json is damaged.*take another checkpoint"):
        claim(begun, TEXT)


def test_a_record_of_a_later_version_and_a_folder_that_is_none(begun: Path) -> None:
    (begun / "c" / "pipeline.json").write_text('{"version": 2}')
    with pytest.raises(StorageFailed, match="newer Penstock"):
        claim(begun, TEXT)
    (begun / "file").touch()
    with pytest.raises(InvalidConfig, match="file cannot be a checkpoint: Not a directory"):
        claim(begun, TEXT.replace('checkpoint = "c"', 'checkpoint = "file"'))


def test_a_batch_has_no_checkpoint(tmp_path: Path) -> None:
    claim(tmp_path, TEXT.replace('"b"]\n', '"b"]\nend = "latest"\n'))
    assert list(tmp_path.iterdir()) == []
