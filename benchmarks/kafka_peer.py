"""Apache Kafka as a peer: fetched once from Maven Central into the user's cache, formatted and
started as one KRaft broker on loopback, measured by the same load generator as ours. Several of
them, as one cluster, are in `kafka_cluster`.

Not needed by the product, and not by `make bench`: only `make bench-peers` comes here. Invariant:
the settings are Kafka's defaults, except where one machine and a short run ask for another.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import struct
import subprocess
import time
import uuid
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.servers import PeerMissing, Server, free_port

VERSION: Final = "4.3.1"
CACHE: Final = Path.home() / ".cache" / "penstock-benchmarks" / f"kafka-{VERSION}"
_FETCH_S_MAX: Final = 900.0
_START_S_MAX: Final = 60.0
# It looks for what is to be deleted half a minute after its start for the first time.
_DELETE_S_MAX: Final = 120.0
_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId><artifactId>kafka-peer</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>{VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version></dependency>
  </dependencies>
</project>
"""
_SETTINGS: Final = """process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=1
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.segment.delete.delay.ms=1000
"""
# ApiVersions v0 without a client id: the first thing any client asks.
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def fetch() -> Path:
    """The folder with Kafka's jars; taken from Maven Central the first time."""
    jars = CACHE / "libs"
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissing("Kafka is fetched by Maven: install `mvn` and run again.")
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "pom.xml").write_text(_POM)
    arriving = CACHE / "arriving"  # renamed when complete, so that half a fetch is never used
    command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={arriving}"]
    done = subprocess.run(
        command, cwd=CACHE, timeout=_FETCH_S_MAX, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise PeerMissing(f"Maven could not fetch Kafka {VERSION}: {done.stdout[-500:]}")
    arriving.rename(jars)
    return jars


def prepare(folder: Path) -> Path:
    """Make the folder, ready for the first start; its settings file is the answer."""
    return prepare_cluster(folder, 1)[1]


def prepare_cluster(folder: Path, brokers: int) -> dict[int, Path]:
    """The settings files of so many brokers, all of them controllers too, by their ids."""
    jars = fetch()
    folder.mkdir()
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    ids = range(1, brokers + 1)
    ports = {node_id: (free_port(), free_port()) for node_id in ids}
    voters = ",".join(f"{node_id}@127.0.0.1:{ports[node_id][1]}" for node_id in ids)
    found = {}
    for node_id, (port, controller_port) in ports.items():
        own = folder / str(node_id)
        own.mkdir()
        settings = own / "server.properties"
        settings.write_text(
            _SETTINGS.format(
                node_id=node_id,
                voters=voters,
                port=port,
                controller_port=controller_port,
                folder=own,
                replicas=brokers,
            )
        )
        command = [java(), "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format"]
        subprocess.run(
            [*command, f"--cluster-id={cluster_id}", "-c", str(settings)],
            check=True,
            capture_output=True,
        )
        found[node_id] = settings
    return found


def start_kafka(settings: Path) -> Server:
    """Start the broker and wait until it answers."""
    return wait_until_it_answers(launch(settings), settings)


def launch(settings: Path) -> subprocess.Popen[bytes]:
    heap = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC"]
    with (settings.parent / "server.out").open("ab") as output:
        return subprocess.Popen(
            [java(), *heap, "-cp", f"{fetch()}/*", "kafka.Kafka", str(settings)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def wait_until_it_answers(process: subprocess.Popen[bytes], settings: Path) -> Server:
    """The broker, when it answers; if it does not, it is ended."""
    port = int(settings.read_text().split("PLAINTEXT://127.0.0.1:")[1].split(",")[0])
    try:
        _wait_until_it_answers(process, port)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return Server(process, ("127.0.0.1", port))


def create_topic(server: Server, topic: str, *, flushed: bool = False, partitions: int = 1) -> None:
    """`flushed`: on the disk before the answer, as our default is."""
    config = {"flush.messages": "1"} if flushed else {}
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 3})
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
    for created in admin.create_topics([wanted]).values():
        created.result(timeout=30)
    _wait_until_it_leads(admin, topic, partitions)


def delete_topic(server: Server, settings: Path, topic: str) -> None:
    """Its files are gone when this returns: Kafka takes its time, which is nobody's round."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 3})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(timeout=30)
    deadline = time.monotonic() + _DELETE_S_MAX
    while any((settings.parent / "data").glob(f"{topic}-*")):
        assert time.monotonic() < deadline, f"Kafka has not deleted {topic}"
        time.sleep(0.05)


def _wait_until_it_leads(admin: AdminClient, topic: str, partitions: int) -> None:
    """A created topic is refused until the broker has heard of it from its controller."""
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    deadline = time.monotonic() + _START_S_MAX
    while True:
        try:
            for found in admin.list_offsets(wanted, request_timeout=10).values():
                found.result(timeout=10)
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_S_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PeerMissing("Kafka ended while it started.")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=_START_S_MAX) as asking:
                asking.sendall(_API_VERSIONS)
                if asking.recv(4):
                    return
        except OSError:
            time.sleep(0.01)
    raise PeerMissing(f"Kafka did not answer within {_START_S_MAX:.0f} s.")


def java() -> str:
    """The program that runs it."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        raise PeerMissing("Kafka needs Java 17 or later: set JAVA_HOME or put `java` on the PATH.")
    return program
