"""R-SPK-4: a pipeline's file is read into what it says, or into all that is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.declared.load import Flags, load, load_text
from penstock.spark.pipeline.declared.spec import (
    ConsoleSink,
    FunctionStep,
    ParquetSink,
    ParquetSource,
    SqlStep,
    TopicSink,
    TopicSource,
    Trigger,
    Watermark,
)

GOOD = """
[pipeline]
name = "orders"
trigger = "5 seconds"
checkpoint = "checkpoints/orders"
bootstrap = "${HOST:-10.0.0.1}:9092"

[spark]
sql.shuffle.partitions = 2
"spark.executor.memory" = "1g"
speculation = true

[sources.orders]
topics = ["orders", "orders-eu"]
value = { format = "json", schema = "id BIGINT, at TIMESTAMP" }
watermark = { column = "at", delay = "1 minute" }
start = 2026-01-31T12:00:00Z
group = "totals"
headers = true
options = { maxOffsetsPerTrigger = 1000, failOnDataLoss = false }

[sources.customers]
topic = "customers"
end = "latest"

[sources.rates]
parquet = "{folder}"

[[steps]]
name = "late"
sql = "SELECT * FROM totals JOIN rates USING (id)"

[[steps]]
name = "totals"
function = "steps_of_test:totals"
inputs = ["orders", "customers"]

[sinks.out]
from = "late"
topic = "totals"
key = "id"
value = { format = "json" }
output_mode = "update"
options = { compression = "zstd" }

[sinks.files]
from = "LATE"
parquet = "/data/out"
partition_by = ["day", "hour"]

[sinks.look]
from = "totals"
console = true
rows = 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "steps_of_test.py").write_text(
        "def totals(orders, customers):\n    return orders\n"
    )
    return tmp_path


def problems(text: str, folder: Path) -> list[str]:
    """What is said of a file, without the file's own name."""
    file = str(folder / "p.toml")
    loaded = load_text(text, file, {})
    assert (loaded.pipeline is None) == bool(loaded.problems)
    return [str(problem).removeprefix(file) for problem in loaded.problems]


def changed(old: str, new: str, folder: Path) -> list[str]:
    assert old in GOOD
    text = GOOD.replace(old, new).replace("{folder}", str(folder))
    # Sinks of one group are another test's matter.
    return problems(text.replace('group = "totals"\n', ""), folder)


def test_everything_that_a_file_can_say(folder: Path) -> None:
    text = GOOD.replace("{folder}", str(folder)).replace('group = "totals"\n', "")
    loaded = load_text(text, str(folder / "p.toml"), {"HOST": "h"})
    assert loaded.problems == ()
    pipeline = loaded.pipeline
    assert pipeline is not None
    assert pipeline.trigger == Trigger(kind="interval", interval_ms=5000)
    assert pipeline.checkpoint == str(folder / "checkpoints" / "orders")
    assert pipeline.spark == {
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.memory": "1g",
        "spark.speculation": "true",
    }
    assert not pipeline.is_batch
    orders, customers, rates = pipeline.sources
    assert orders == TopicSource(
        name="orders",
        options={
            "bootstrap": "h:9092",
            "subscribe": "orders,orders-eu",
            "startingTimestamp": "1769860800000",
            "includeHeaders": "true",
            "valueFormat": "json",
            "valueSchema": "id BIGINT, at TIMESTAMP",
            "maxOffsetsPerTrigger": "1000",
            "failOnDataLoss": "false",
        },
        is_bounded=False,
        watermark=Watermark(column="at", delay_ms=60_000),
    )
    assert isinstance(customers, TopicSource)
    assert customers.is_bounded
    assert customers.options["startingOffsets"] == "earliest"
    assert rates == ParquetSource(name="rates", path=str(folder), options={})
    totals, late = pipeline.steps
    assert isinstance(totals, FunctionStep)
    assert (totals.module, totals.function) == ("steps_of_test", "totals")
    assert isinstance(late, SqlStep)
    assert late.inputs == ("totals", "rates")
    out, files, look = pipeline.sinks
    assert isinstance(out, TopicSink)
    assert (out.key, out.is_json, out.output_mode) == ("id", True, "update")
    assert out.options == {"bootstrap": "h:9092", "topic": "totals", "compression": "zstd"}
    assert isinstance(files, ParquetSink)
    assert (files.path, files.partition_by) == ("/data/out", ("day", "hour"))
    assert isinstance(look, ConsoleSink)
    assert look.rows_max == 5
    assert pipeline.sources_of(out) == {"orders", "customers", "rates"}


MISTAKES = [
    (
        'partition_by = ["day", "hour"]',
        'partition_by = ["_day"]',
        "has '_day': give the column a name with a letter.",
    ),
    ('["day", "hour"]', '["day", " "]', "has ' ': give the column a name with a letter."),
    ('["day", "hour"]', "[]", "sinks.files.partition_by is []: it must be a list of texts."),
    ('["day", "hour"]', '["day", "Day"]', "has 'Day' twice."),
    ('name = "orders"\n', "", ":2: pipeline has no name."),
    (
        "checkpoint =",
        "checkpont =",
        ":5: pipeline.checkpont is no key of a pipeline: did you mean checkpoint?",
    ),
    (
        '"5 seconds"',
        '"often"',
        ":4: pipeline.trigger is 'often': write available-now, once, or how often",
    ),
    ('"5 seconds"', '"5"', ":4: pipeline.trigger is '5': write"),
    ('"5 seconds"', '"-5 seconds"', ":4: pipeline.trigger is '-5 seconds': write"),
    ("[spark]\n", '[spark]\nmaster = "local[2]"\n', ":9: spark.master is the command's"),
    ("[spark]\n", "[spark]\nexecutor.memory = '2g'\n", "spark.executor.memory is there twice"),
    ("speculation = true", "speculation = [1]", ":11: spark.speculation must be a text"),
    ("${HOST:-10.0.0.1}", "${HOST}", ":6: pipeline.bootstrap uses ${HOST}, which is not set."),
    (
        'topic = "customers"',
        'topik = "x"',
        ":22: sources.customers.topik is no key of a source: did you mean topic?",
    ),
    (
        'topic = "customers"',
        'topic = "a"\npattern = "b"',
        ":23: sources.customers.pattern and topic exclude each other",
    ),
    ('topic = "customers"', 'topic = "a b"', "sources.customers cannot be read: "),
    ('topic = "customers"', "topic = 5", ":22: sources.customers.topic is 5: it must be a text."),
    (
        'end = "latest"',
        'end = "soon"',
        ":23: sources.customers.end is 'soon': write earliest, latest, or a time",
    ),
    (
        'end = "latest"',
        "start = 2026-01-31T12:00:00Z\nend = 2026-01-31T13:00:00+01:00",
        ":24: sources.customers.end is not after its start",
    ),
    (
        'end = "latest"',
        'start = "latest"\nend = "latest"',
        ":24: sources.customers.end is not after its start",
    ),
    ('end = "latest"', 'end = "earliest"', ":23: sources.customers.end is not after its start"),
    (
        'column = "at"',
        'column = "att"',
        ":16: sources.orders.watermark.column is 'att', which is no column of it: did you mean at?",
    ),
    (
        'column = "at"',
        'column = "ID"',
        ":16: sources.orders.watermark.column is 'ID', which is bigint and no timestamp",
    ),
    ("failOnDataLoss", "failOnDatLoss", "did you mean failOnDataLoss?"),
    (
        "maxOffsetsPerTrigger = 1000",
        'subscribe = "x"',
        "options has subscribe, for which a source or sink has a key",
    ),
    ('"id BIGINT, at', '"id BIGNT, at', ":15: sources.orders.value is wrong: "),
    ('format = "json", schema', 'format = "xml", schema', ":15: sources.orders.value is wrong: "),
    (
        'delay = "1 minute"',
        'dely = "1 minute"',
        ":16: sources.orders.watermark.dely is no key of a watermark: did you mean delay?",
    ),
    (
        'delay = "1 minute"',
        'delay = "soon"',
        ":16: sources.orders.watermark.delay is 'soon': write a length of time",
    ),
    ('parquet = "{folder}"', 'parquet = "none"', "where there is nothing."),
    (
        "FROM totals",
        "FROM totls",
        "steps.late.sql reads totls, which is neither a source nor a step: did you mean total",
    ),
    ("USING (id)", "USING (id", ":30: steps.late.sql is no SQL: its ( is not closed."),
    (
        "steps_of_test:totals",
        "steps_of_test.totals",
        "steps.totals.function is 'steps_of_test.totals': write it as module:function.",
    ),
    (
        "steps_of_test:totals",
        "steps_of_test:total",
        "steps.totals.function is wrong: steps_of_test has no total: did you mean totals?",
    ),
    (
        "steps_of_test:totals",
        "steps_of_tst:totals",
        "there is no module steps_of_tst beside the file",
    ),
    ('inputs = ["orders", "customers"]', "", "steps.totals has no inputs"),
    (
        'inputs = ["orders", "customers"]',
        'inputs = ["late"]',
        "reads what it makes: late ← totals ← late.",
    ),
    (
        'name = "totals"\n',
        'name = "orders"\n',
        "steps.orders.name is 'orders', as another source or step is named",
    ),
    ('name = "totals"\n', "", "steps.number 2 has no name"),
    ('name = "totals"\n', 'name = "to tals"\n', "cannot be named 'to tals'"),
    (
        'from = "LATE"',
        'from = "lat"',
        "sinks.files.from is lat, which is neither a source nor a step: did you mean late?",
    ),
    ('from = "LATE"\n', "", "sinks.files has no `from`"),
    (
        'output_mode = "update"',
        'output_mode = "updat"',
        "sinks.out.output_mode is 'updat': did you mean update?",
    ),
    (
        'parquet = "/data/out"',
        'parquet = "/data/out"\noutput_mode = "update"',
        "files can only be added to",
    ),
    (
        'compression = "zstd"',
        'compression = "zip"',
        "sinks.out cannot be written: compression is 'zip'",
    ),
    ('value = { format = "json" }', "", "sinks.out.key goes with value"),
    ("console = true", "console = false", "sinks.look.console is not true"),
    ("rows = 5", "rows = 0", "sinks.look.rows is 0: it must be a whole number from 1 on."),
    (
        '[[steps]]\nname = "late"',
        '[[stebs]]\nname = "late"',
        "stebs is no key of a pipeline's file: did you mean steps?",
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES)
def test_mistakes(old: str, new: str, expected: str, folder: Path) -> None:
    found = changed(old, new, folder)
    assert any(expected in problem for problem in found), found


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(folder: Path) -> None:
    text = GOOD.replace("trigger", "triger").replace("headers = true", "headers = 1")
    found = problems(text.replace("rows = 5", "rows = -5"), folder)
    lines = [int(problem.split(":")[1]) for problem in found]
    assert lines == sorted(lines)
    assert len(found) >= 4, found


def test_a_file_that_is_no_toml_is_told_with_its_line(folder: Path) -> None:
    assert problems('[pipeline]\nname = "x\n', folder) == [
        ":2: it is no TOML: Illegal character '\\n'."
    ]


def test_what_is_missing_altogether(folder: Path) -> None:
    assert problems("", folder) == [
        ": pipeline has no name.",
        ": sources is empty: a pipeline reads something.",
        ": sinks is empty: a pipeline writes something.",
    ]
    assert any("it must be a table" in each for each in problems("sources = 5", folder))
    assert any("[[steps]]" in each for each in problems("[steps]\nname = 1", folder))
    assert ":1: spark is 5: it must be a table." in problems("spark = 5", folder)


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


def test_what_is_wrong_only_together(folder: Path) -> None:
    assert problems(STREAM, folder) == []
    (found,) = problems(STREAM.replace('checkpoint = "c"\n', ""), folder)
    assert "pipeline has no checkpoint" in found
    files = '[sinks.f]\nfrom = "a"\nparquet = "out"\nif_exists = "overwrite"\n'
    (found,) = problems(STREAM + files, folder)
    assert 'sinks.f.if_exists is "overwrite", which is for batches' in found
    group = STREAM.replace('topic = "a"', 'topic = "a"\ngroup = "g"')
    assert problems(group, folder) == []
    (found,) = problems(group + '[sinks.two]\nfrom = "a"\nconsole = true\n', folder)
    assert ":7: sources.a.group would be moved by 2 sinks (one, two)" in found
    bounded = '[sources.b]\ntopic = "b"\nend = "latest"\n[sinks.b]\nfrom = "b"\nconsole = true\n'
    (found,) = problems(STREAM + bounded, folder)
    assert "sinks.b reads only sources that end" in found


def test_a_pipeline_whose_sources_all_end_is_a_batch_and_needs_no_checkpoint(folder: Path) -> None:
    text = STREAM.replace('checkpoint = "c"\n', "").replace(
        'topic = "a"', 'topic = "a"\nend = "latest"'
    )
    loaded = load_text(text, str(folder / "p.toml"), {})
    assert loaded.pipeline is not None
    assert loaded.pipeline.is_batch


def test_flags_are_stronger_than_the_file(folder: Path) -> None:
    flags = Flags(
        assignments=[
            "sources.a.topic=other",
            "pipeline.trigger=once",
            "spark.x=5",
            "sinks.one.options.batchBytes=2000",
        ],
        checkpoint=str(folder / "elsewhere"),
    )
    pipeline = load_text(
        STREAM, str(folder / "p.toml"), {"PENSTOCK_BOOTSTRAP": "h:1"}, flags
    ).pipeline
    assert pipeline is not None
    assert pipeline.trigger.kind == "once"
    assert pipeline.checkpoint == str(folder / "elsewhere")
    assert pipeline.spark == {"spark.x": "5"}
    (source,) = pipeline.sources
    assert source.options["subscribe"] == "other"
    assert source.options["bootstrap"] == "h:1"
    assert pipeline.sinks[0].options["batchBytes"] == "2000"  # type: ignore[union-attr]
    once = load_text(STREAM, str(folder / "p.toml"), {}, Flags(is_once=True)).pipeline
    assert once is not None
    assert once.trigger.kind == "available-now"
    for empty in ("", " "):
        with pytest.raises(InvalidConfig, match=r"^--checkpoint is '.*': name a folder"):
            load_text(STREAM, str(folder / "p.toml"), {}, Flags(checkpoint=empty))


def test_a_step_is_set_by_its_name(folder: Path) -> None:
    text = STREAM + '[[steps]]\nname = "s"\nsql = "SELECT * FROM a"\n'
    flags = Flags(assignments=["steps.s.sql=SELECT 1 FROM a"])
    pipeline = load_text(text, str(folder / "p.toml"), {}, flags).pipeline
    assert pipeline is not None
    assert isinstance(pipeline.steps[0], SqlStep)
    assert pipeline.steps[0].sql == "SELECT 1 FROM a"


@pytest.mark.parametrize(
    "assignment",
    [
        *("x", "=1", "a=1", "steps.none.sql=1", "pipeline.name.x=1", "a..=1"),
        *("sources.b.topics.x=1", "sources.b.topics.x.y=1", "steps.sql=1"),
    ],
)
def test_assignments_that_set_nothing(assignment: str, folder: Path) -> None:
    text = STREAM + '[[steps]]\nname = "s"\nsql = "SELECT * FROM a"\n'
    text += '[sources.b]\ntopics = ["a", "b"]\n'
    with pytest.raises(InvalidConfig, match=r"table\.key=value"):
        load_text(text, str(folder / "p.toml"), {}, Flags(assignments=[assignment]))


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot be read: No such file"):
        load(str(tmp_path / "none.toml"), os.environ)
    (tmp_path / "binary.toml").write_bytes(b"\xff")
    with pytest.raises(InvalidConfig, match="not UTF-8"):
        load(str(tmp_path / "binary.toml"), os.environ)
