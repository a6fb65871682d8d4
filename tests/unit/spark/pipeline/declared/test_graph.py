"""R-SPK-4: what is right in each part of a pipeline and wrong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.pipeline.declared.load import load_text

STREAM = """
[pipeline]
name = "x"
checkpoint = "c"
[sources.a]
topic = "a"
[sinks.one]
from = "a"
topic = "b"
"""


def problems(text: str, folder: Path) -> list[str]:
    """What is said of a file, without the file's own name."""
    file = str(folder / "p.toml")
    return [str(each).removeprefix(file) for each in load_text(text, file, {}).problems]


def with_files(*paths: str) -> str:
    """A stream with Parquet sinks p0, p1…"""
    sinks = (
        f'[sinks.p{number}]\nfrom = "a"\nparquet = "{path}"\n' for number, path in enumerate(paths)
    )
    return STREAM + "".join(sinks)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("out", "./out"), "sinks.p1.parquet is the folder of sinks.p0 too: each needs its own."),
        (("out", "file:{folder}/out"), "sinks.p1.parquet is the folder of sinks.p0 too"),
        (("out", "out/inner"), "sinks.p1.parquet is inside the folder of sinks.p0"),
        (("s3a://b/out/inner", "s3a://b/out/"), "p1.parquet has inside it the folder of sinks.p0"),
        (("c/one",), "sinks.p0.parquet is the checkpoint of sinks.one too"),
        (("c/p0/out",), "sinks.p0.parquet is inside the checkpoint of sinks.p0"),
        ((".",), "sinks.p0.parquet has inside it the checkpoint of sinks.one"),
    ],
)
def test_folders_inside_each_other(paths: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    text = with_files(*paths).replace("{folder}", str(tmp_path))
    (found,) = problems(text, tmp_path)
    assert expected in found


def test_folders_beside_each_other(tmp_path: Path) -> None:
    assert problems(with_files("out", "out2", "c/out", "s3a://b/out"), tmp_path) == []
    # Readers of Parquet do not look behind a _.
    hidden = with_files("out").replace('checkpoint = "c"', 'checkpoint = "out/_checkpoint"')
    assert problems(hidden, tmp_path) == []


LOOP = """
[pipeline]
name = "x"
checkpoint = "c"
[sources.a]
topics = ["a", "b"]
[sources.retried]
pattern = "re.*"
[sinks.one]
from = "a"
topic = "retry"
[sinks.two]
from = "s"
topic = "done"
[[steps]]
name = "s"
sql = "SELECT * FROM retried"
"""


def test_a_pipeline_that_feeds_itself(tmp_path: Path) -> None:
    """Through one sink or several; not where what is read ends, nor at another broker."""
    assert problems(LOOP, tmp_path) == []
    (found,) = problems(LOOP.replace('"done"', '"retry-2"'), tmp_path)
    assert ":14: sinks.two.topic is retry-2, which leads back to it: its rows would go" in found
    one, two = problems(LOOP.replace('"done"', '"b"'), tmp_path)
    assert "sinks.one.topic is retry, which leads back to it through sinks.two: its" in one
    assert "sinks.two.topic is b, which leads back to it through sinks.one: its" in two
    ended = LOOP.replace('"re.*"', '"re.*"\nend = "latest"').replace('from = "s"', 'from = "t"')
    ended += '[[steps]]\nname = "t"\nsql = "SELECT * FROM a JOIN s"\n'
    assert problems(ended.replace('"done"', '"retry"'), tmp_path) == []
    elsewhere = LOOP.replace('"done"', '"retry"\nbootstrap = "elsewhere:1"')
    assert problems(elsewhere, tmp_path) == []
