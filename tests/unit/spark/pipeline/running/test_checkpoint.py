"""R-SPK-4: a checkpoint goes on with what it is of, and with nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.model.errors import InvalidConfig, StorageFailed
from penstock.model.ids import TopicPartition
from penstock.spark.pipeline.declared.load import load_text
from penstock.spark.pipeline.running.checkpoint import check_streams, claim_here
from penstock.spark.planning.offsets import StreamOffset
from penstock.spark.source.options import Selection

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
AB = {"a": {"0": 5, "1": 0}, "b": {"0": 7}}


def claim(folder: Path, text: str) -> None:
    loaded = load_text(text, str(folder / "p.toml"), {})
    assert loaded.pipeline is not None, loaded.problems
    claim_here(loaded.pipeline)


def position(positions: dict[str, dict[str, int]]) -> str:
    return json.dumps({**positions, "$penstock": {"version": 1, "ids": {}}})


def read(folder: Path, sink: str, batch: int, *lines: str) -> Path:
    """As Spark notes a batch of a sink before it runs it."""
    offsets = folder / "c" / sink / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / f".{batch}.crc").write_bytes(b"crc")
    (offsets / str(batch)).write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *lines]))
    return offsets / str(batch)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A checkpoint whose sinks have both read something."""
    claim(tmp_path, TEXT)
    read(tmp_path, "one", 0, position(AB))
    read(tmp_path, "two", 0, position(AB))
    return tmp_path


def test_it_is_written_before_anything_is_read(tmp_path: Path) -> None:
    claim(tmp_path, TEXT)
    assert json.loads((tmp_path / "c" / "pipeline.json").read_text()) == {
        "version": 1,
        "pipeline": "x",
    }
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["pipeline.json"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ('name = "x"', 'name = "x"\nbootstrap = "elsewhere:1"'),
        ('["a", "b"]', '["b", "c", "a"]'),  # another topic is read from its start
        ('topics = ["a", "b"]', 'pattern = "[ab]"'),
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
        ('topics = ["a", "b"]', 'pattern = "a.*"', r"sinks\.one read b before"),
    ],
)
def test_what_may_not(old: str, new: str, expected: str, begun: Path) -> None:
    """Positions of a topic that a run does not read are dropped, and one after it would read the
    topic from its start again: rows twice."""
    before = (begun / "c" / "pipeline.json").read_bytes()
    with pytest.raises(InvalidConfig, match=f"{expected}.*--checkpoint"):
        claim(begun, TEXT.replace(old, new))
    assert (begun / "c" / "pipeline.json").read_bytes() == before


def test_a_mistake_that_comes_to_no_batch_leaves_nothing_behind(begun: Path) -> None:
    """A topic that does not exist was never read."""
    claim(begun, TEXT.replace('["a", "b"]', '["a", "b", "bb"]'))
    claim(begun, TEXT)


def test_what_was_read_is_where_the_newest_batch_ends(begun: Path) -> None:
    read(begun, "one", 9, position({**AB, "c": {"0": 1}}))
    read(begun, "one", 10, position({"a": {"0": 6}}))  # b was deleted, and is left out of it
    read(begun, "two", 1, "-", '{"0": 5}', "5", position({"a": {"0": 5}}))
    claim(begun, TEXT.replace('["a", "b"]', '["a"]'))


def test_a_sink_that_was_left_out_for_a_while_is_remembered(begun: Path) -> None:
    claim(begun, TEXT.replace("[sinks.one]", "[sinks.new]"))
    with pytest.raises(InvalidConfig, match=r"sinks\.one read b before"):
        claim(begun, TEXT.replace('["a", "b"]', '["a"]'))
    others = TEXT.replace("sinks.one", "sinks.new").replace("sinks.two", "sinks.newer")
    with pytest.raises(InvalidConfig, match="of the pipeline x, and this is y"):
        claim(begun, others.replace('"x"', '"y"'))


def test_a_function_may_read_topics_that_the_file_does_not_name(begun: Path) -> None:
    (begun / "own_streams.py").write_text("def f(a):\n    return a\n")
    step = '[[steps]]\nname = "f"\nfunction = "own_streams:f"\ninputs = ["a"]\n'
    claim(begun, TEXT.replace('["a", "b"]', '["a"]') + step)


def test_whoever_corrects_a_mistake_before_the_first_batch_needs_no_other_checkpoint(
    tmp_path: Path,
) -> None:
    claim(tmp_path, TEXT)
    (tmp_path / "c" / "one" / "offsets").mkdir(parents=True)
    claim(tmp_path, TEXT.replace('["a", "b"]', '["corrected"]').replace('"x"', '"renamed"'))
    record = json.loads((tmp_path / "c" / "pipeline.json").read_text())
    assert record["pipeline"] == "renamed"


A, B, C = (Selection(topics=(topic,)) for topic in "abc")
BOTH = Selection(pattern="[ab]")
AT_A = StreamOffset(positions={TopicPartition("a", 0): 5})
AT_B = StreamOffset(positions={TopicPartition("b", 0): 0})


@pytest.mark.parametrize("streams", [[A, B], [BOTH, BOTH], [BOTH, B]])
def test_positions_go_to_streams_that_select_their_topics(streams: list[Selection]) -> None:
    check_streams("one", "/c", [AT_A, AT_B], streams)


def test_a_stream_without_a_position_and_one_of_another_data_source() -> None:
    check_streams("one", "/c", [None, AT_B, None], [A, B, None])


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ([A], "had 2 streams before, by the checkpoint /c, and has 1 now"),
        ([A, B, C], "had 2 streams before, by the checkpoint /c, and has 3 now"),
        ([B, A], "read a before"),
        ([A, C], "read b before"),
        ([BOTH, A], "read b before"),
        ([A, None], "read b before"),
    ],
)
def test_streams_stay_as_many_and_in_their_order(
    streams: list[Selection | None], expected: str
) -> None:
    """Spark keeps positions by the order of streams: one that gets another's would drop it, and
    read its topics again."""
    with pytest.raises(InvalidConfig, match=rf"^sinks\.one {expected}.*--checkpoint"):
        check_streams("one", "/c", [AT_A, AT_B], streams)


@pytest.mark.parametrize("content", [b"", b"v1", b"v2\n{}\n{}", b"\xff\n"])
def test_damaged_positions_are_one_sentence(content: bytes, begun: Path) -> None:
    read(begun, "two", 1).write_bytes(content)
    with pytest.raises(StorageFailed, match=r"two/offsets/1 is damaged.*take another checkpoint"):
        claim(begun, TEXT)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"version": 1}', b"5"],
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
