"""R-SPK-4, R-SPK-2: a declared pipeline, by the command, through kills and restarts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.declared.load import Flags, load_text
from penstock.spark.pipeline.declared.spec import Pipeline
from penstock.spark.pipeline.running.checkpoint import HadoopFiles, claim_here, claim_there
from penstock.spark.pipeline.running.frames import Frames, build_frames
from penstock.spark.pipeline.running.sinks import Opened, start_query
from tests.kit.processes.brokers import BrokerProcess
from tests.system.spark.pipeline_support import Pipelines, kill, next_json, parquet_rows

BEGIN = datetime(2026, 11, 16, 2, 0, tzinfo=UTC)
ORDERS = """
[pipeline]
name = "totals"
trigger = "200ms"
checkpoint = "checkpoint"

[spark]
sql.shuffle.partitions = 2

[sources.orders]
topic = "orders"
value = { format = "json", schema = "id BIGINT, amount BIGINT, at TIMESTAMP" }
watermark = { column = "at", delay = "0 seconds" }
options = { maxOffsetsPerTrigger = 300 }

[[steps]]
name = "totals"
sql = '''
SELECT window.start AS minute, count(*) AS orders, sum(amount) AS amount
FROM orders GROUP BY window(at, '1 minute')
'''

[sinks.totals]
from = "totals"
topic = "totals"
key = "minute"
value = { format = "json" }

[sinks.files]
from = "orders"
parquet = "out"
partition_by = "partition"
"""


def order(number: int) -> tuple[bytes, bytes]:
    """One a second, of 1."""
    at = (BEGIN + timedelta(seconds=number)).isoformat()
    value = json.dumps({"id": number, "amount": 1, "at": at})
    return f"customer {number % 7}".encode(), value.encode()


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipelines]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), "topic_defaults.durability=os") as broker:
        yield Pipelines(broker.address)


@pytest.mark.soak
def test_orders_to_totals_through_kills_and_restarts(pipelines: Pipelines, tmp_path: Path) -> None:
    """Killed with SIGKILL in the middle, ended by Ctrl-C in the middle, run to the end: every order
    is in the files once, and every minute's total in the topic once."""
    file = tmp_path / "orders.toml"
    file.write_text(ORDERS)
    pipelines.publish("orders", [order(number) for number in range(1, 900)])

    first = pipelines.start("run", str(file), "--json")
    seen: set[object] = set()
    while len(seen) < 2:
        seen.add((progress := next_json(first.stdout))["batch"])
        assert progress["query"] in ("totals", "files")
        assert int(str(progress["rows"])) <= 300
    kill(first)

    pipelines.publish("orders", [order(number) for number in range(900, 1200)])
    pipelines.interrupt("run", str(file), "--json")

    # The last ones close every minute's window of those before.
    pipelines.publish("orders", [order(number) for number in range(1200, 1500)])
    output, _ = pipelines.run("run", str(file), "--once", "--json")
    last = {row["query"]: row for row in map(json.loads, output.splitlines())}
    assert last["files"]["lag"] == 0
    assert last["totals"]["state_rows"] >= 1

    ids = [row[0] for row in parquet_rows(tmp_path / "out", ["id"])]
    assert sorted(ids) == list(range(1, 1500)), "each order once"  # type: ignore[type-var]
    totals = [json.loads(message.value or b"") for message in pipelines.messages("totals")]
    assert max(Counter(total["minute"] for total in totals).values()) == 1, "each minute once"
    by_minute = sorted((total["minute"], total["orders"]) for total in totals)
    assert len(by_minute) >= 20
    assert by_minute[0][1] == 59
    assert {orders for _, orders in by_minute[1:]} == {60}

    # With another topic it would forget how far it has come: refused before Spark starts.
    other = pipelines.refusal("run", str(file), "--set", "sources.orders.topic=other")
    assert other.startswith("sinks.totals read orders before")
    assert "--checkpoint" in other


def test_a_checkpoint_that_only_spark_reaches(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(f"file://{tmp_path}/checkpoint", spark)
    assert (files.read("pipeline.json"), files.names("sink/offsets")) == (None, [])
    for content in (b"longer than the next", b'{"version": 1}'):
        files.write("pipeline.json", content)
        assert files.read("pipeline.json") == content
    files.write("sink/offsets/0", b"")
    assert files.names("sink/offsets") == ["0"]
    assert files.names("pipeline.json/offsets") == []
    assert sorted(files.names(".")) == ["pipeline.json", "sink"]


TWO = """
[pipeline]
name = "two"
checkpoint = "checkpoint"
trigger = "available-now"
[sources.ones]
topic = "ones"
[sources.twos]
topics = ["twos"]
[sinks.both]
from = "both"
console = true
[[steps]]
name = "both"
sql = "WITH c AS (SELECT value FROM ones) SELECT * FROM c UNION ALL SELECT value FROM twos"
"""
TURNED = "SELECT value FROM twos UNION ALL SELECT value FROM ones"
THREE = f"{TURNED} UNION ALL SELECT value FROM ones"


def test_positions_are_kept_by_the_order_of_streams(
    pipelines: Pipelines, spark: SparkSession, tmp_path: Path
) -> None:
    """More streams, and streams in another order, are refused before a query starts."""
    for topic in ("ones", "twos"):
        pipelines.publish(topic, [(None, topic.encode())])

    def claimed(*assignments: str) -> tuple[Pipeline, Frames]:
        environment = {"PENSTOCK_BOOTSTRAP": pipelines.address}
        flags = Flags(assignments=assignments)
        pipeline = load_text(TWO, str(tmp_path / "p.toml"), environment, flags).pipeline
        assert pipeline is not None
        claim_here(pipeline)
        frames = build_frames(spark, pipeline, str(tmp_path))
        claim_there(pipeline, spark, frames)
        return pipeline, frames

    pipeline, frames = claimed()
    (sink,) = pipeline.sinks
    start_query(pipeline, sink, frames, Opened(), lambda *_: None).awaitTermination()
    with pytest.raises(InvalidConfig, match=r"sinks\.both read ones before.*order of its streams"):
        claimed(f"steps.both.sql={TURNED}")
    with pytest.raises(InvalidConfig, match=r"sinks\.both had 2 streams before.*and has 3 now"):
        claimed(f"steps.both.sql={THREE}")
    claimed('sources.twos.topics=["twos", "more"]')


BATCH = """
[pipeline]
name = "batch"

[sources.sales]
parquet = "sales"

[[steps]]
name = "doubled"
function = "steps_of_batch:doubled"
inputs = ["sales"]

[[steps]]
name = "best"
sql = "SELECT shop, sum(amount) AS amount FROM doubled GROUP BY shop"

[sinks.files]
from = "best"
parquet = "best"

[sinks.topic]
from = "best"
topic = "best"
key = "shop"
value = { format = "json" }

[sinks.look]
from = "best"
console = true
"""
STEPS = """
from pyspark.sql.functions import udf


def twice(amount):
    return amount * 2


def doubled(sales):
    return sales.withColumn("amount", udf(twice, "bigint")("amount"))
"""


def test_a_batch_of_files_through_a_function_and_sql(pipelines: Pipelines, tmp_path: Path) -> None:
    (tmp_path / "batch.toml").write_text(BATCH)
    (tmp_path / "steps_of_batch.py").write_text(STEPS)
    (tmp_path / "sales").mkdir()
    sales = pa.table({"shop": ["a", "b", "a"], "amount": [1, 2, 3]})
    pq.write_table(sales, tmp_path / "sales" / "0.parquet")
    output, error = pipelines.run("run", str(tmp_path / "batch.toml"))
    assert "batch: running, 3 sinks." in error
    lines = [line.split() for line in output.splitlines()]
    assert lines[:2] == [["look:"], ["shop", "amount"]]
    assert sorted(lines[2:]) == [["a", "8"], ["b", "4"]]
    assert parquet_rows(tmp_path / "best", ["shop", "amount"]) == [("a", 8), ("b", 4)]
    best = {message.key: json.loads(message.value or b"") for message in pipelines.messages("best")}
    assert best == {b"a": {"shop": "a", "amount": 8}, b"b": {"shop": "b", "amount": 4}}
    # Again it would add the same rows: refused before Spark starts.
    assert "set if_exists" in pipelines.refusal("run", str(tmp_path / "batch.toml"))


def test_the_examples_run(pipelines: Pipelines, tmp_path: Path) -> None:
    examples = Path(__file__).parents[3] / "examples" / "pipelines"
    broker = (
        "--set",
        f"pipeline.bootstrap={pipelines.address}",
        "--set",
        "sources.orders.topic=sold",
    )
    orders = [
        {
            "customer": "tester" if number % 2 else f"customer {number % 3}",
            "amount": 1.5,
            "at": (BEGIN + timedelta(seconds=number)).isoformat(),
        }
        for number in range(200)
    ]
    pipelines.publish("sold", [(None, json.dumps(order).encode()) for order in orders])
    totals = str(examples / "orders_per_minute.toml")
    pipelines.run("run", totals, "--once", *broker, PIPELINE_FOLDER=str(tmp_path))
    assert len(parquet_rows(tmp_path / "orders", ["offset"])) == 200
    minutes = [json.loads(each.value or b"") for each in pipelines.messages("orders-per-minute")]
    assert [minute["orders"] for minute in minutes] == [60, 60, 60]
    best, _ = pipelines.run("run", str(examples / "best_customers.toml"), *broker, "--json")
    (shown,) = map(json.loads, best.splitlines())
    assert sum(row["orders"] for row in shown["rows"]) == 100


LOOK = """
[pipeline]
name = "look"
checkpoint = "checkpoint"
trigger = "available-now"
[sources.a]
topic = "a"
[sinks.b]
from = "a"
console = true
"""


def test_ordinary_mistakes_are_one_sentence(pipelines: Pipelines, tmp_path: Path) -> None:
    """No Java, no master, no broker, no topic, a column that is not there, a step that raises."""
    file = tmp_path / "look.toml"
    file.write_text(LOOK)
    run = ("run", str(file))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "Spark needs Java" in pipelines.refusal(*run, PATH=str(empty), JAVA_HOME="")
    assert "no Spark master: write" in pipelines.refusal(*run, "--master", "locl")
    dead = pipelines.refusal(*run, "--master", "spark://127.0.0.1:1")
    assert dead.startswith("No Spark master answers at spark://127.0.0.1:1")
    assert "127.0.0.1:1" in pipelines.refusal(*run, "--set", "sources.a.bootstrap=127.0.0.1:1")
    missing = pipelines.refusal(*run)
    assert "Topic a does not exist" in missing
    assert "there is no such topic" in pipelines.refusal("validate", str(file), "--online")
    step = '\n[[steps]]\nname = "s"\nsql = "SELECT valeu FROM a"\n'
    file.write_text(LOOK.replace('from = "a"', 'from = "s"') + step)
    pipelines.publish("a", [(None, b"x")])
    _, wrong = pipelines.run(*run, code=1)
    assert wrong.startswith("error: steps.s: ")
    assert "valeu" in wrong
    assert "value" in wrong
    assert len(wrong.splitlines()) == 1, "of Spark's own log nothing"
    partition = pipelines.refusal("replay", "--from", "a", "--to", "b", "--offsets", "7:0-10")
    assert partition == "--offsets: a has no partition 7; the last one that it has is 0."


def test_validation_asks_the_broker_when_told_to(pipelines: Pipelines, tmp_path: Path) -> None:
    file = tmp_path / "look.toml"
    file.write_text(LOOK.replace('topic = "a"', 'topic = "orderz"'))
    pipelines.publish("orders", [(None, b"x")])
    pipelines.run("validate", str(file))
    told = pipelines.refusal("validate", str(file), "--online")
    assert "sources.a reads orderz, and there is no such topic: did you mean orders?" in told
    told = pipelines.refusal(
        "validate", str(file), "--online", "--set", "pipeline.bootstrap=127.0.0.1:1"
    )
    assert "sources.a cannot reach its broker" in told
