"""Spark's own connector to Kafka as a peer: its jars, fetched once from Maven Central.

Not needed by the product. Invariant: the versions are ones that work together in this PySpark; each
jar is fetched without its dependencies, which PySpark has.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.servers import PeerMissing

CACHE: Final = Path.home() / ".cache" / "penstock-benchmarks" / "spark-sql-kafka-4.2.0"
_ARTIFACTS: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    # Later versions of this one name a jar that cannot be had.
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
_FETCH_S_MAX: Final = 300.0


def fetch() -> str:
    """The connector's jars, as `spark.jars` wants them."""
    if not CACHE.is_dir():
        maven = shutil.which("mvn")
        if maven is None:
            raise PeerMissing("Spark's Kafka connector is fetched by Maven: install `mvn`.")
        arriving = CACHE.with_suffix(".arriving")  # renamed when complete
        for artifact in _ARTIFACTS:
            done = subprocess.run(
                [
                    *(maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"),
                    f"-DoutputDirectory={arriving}",
                ],
                timeout=_FETCH_S_MAX,
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise PeerMissing(f"Maven could not fetch {artifact}: {done.stdout[-500:]}")
        arriving.rename(CACHE)
    return ",".join(str(jar) for jar in sorted(CACHE.glob("*.jar")))
