"""What a data folder tells without a broker."""

from __future__ import annotations

from pathlib import Path

from penstock.spark.inspection.evidence.broker_facts import compacted_in_folder


def test_a_compacted_partition_is_seen_in_its_folder(tmp_path: Path) -> None:
    for topic in ("orders", "prices"):
        (tmp_path / "topics" / topic / "1").mkdir(parents=True)
    (tmp_path / "topics" / "prices" / "1" / "compaction.journal").write_bytes(b"")
    assert compacted_in_folder(str(tmp_path), ["orders", "prices", "unknown"]) == {"prices"}
