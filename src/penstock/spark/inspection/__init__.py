"""Log inspection (R-SPK-3): a Spark job over what a broker kept, and what is wrong with it.

    from penstock.spark.inspection import InspectOptions, inspect

    inspection = inspect(spark, InspectOptions(topics=("orders",), bootstrap="127.0.0.1:9092"))
    for finding in inspection.findings: ...
    inspection.write_report("out")

Importing this imports PySpark. What is computed and how is in docs/inspection.md.
"""

from __future__ import annotations

from penstock.spark.inspection.finding import Example, Finding, Kind, Severity
from penstock.spark.inspection.inspector import Inspection, inspect
from penstock.spark.inspection.options import InspectOptions
from penstock.spark.inspection.report.files import prepare_folder
from penstock.spark.inspection.thresholds import Thresholds

__all__ = [
    "Example",
    "Finding",
    "InspectOptions",
    "Inspection",
    "Kind",
    "Severity",
    "Thresholds",
    "inspect",
    "prepare_folder",
]
