"""kcat: the command line on librdkafka, one process per call."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Mapping, Sequence

from tests.system.kafka.drivers.driver import PATIENCE_S, WholeDriver
from tests.system.kafka.messages import Header, Message, Record
from tests.system.kafka.provide import kcat

# A line of numbers and headers, then the key and the value, whose lengths the line has told.
_FORMAT = "%p %o %T %K %S %h\n%k%s\n"
_KEY_END = b"=end of key="
_MESSAGE_END = b"=end of message="


class KcatDriver(WholeDriver):
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def can_send(self, message: Message) -> bool:
        """Headers are arguments of a command, times cannot be given, and one switch (-Z) makes
        both an empty key and an empty value null."""
        one_null = (message.key is None) != (message.value is None)
        return (
            message.timestamp_ms is None
            and not any(b"\x00" in (value or b"") for _, value in message.headers)
            and not (one_null and not message.key and not message.value)
        )

    def shows(self, record: Record) -> Record:
        """It prints a header up to its first zero byte, and one without a value as NULL."""
        headers = tuple(
            (name, b"NULL" if value is None else value.partition(b"\x00")[0])
            for name, value in record.headers
        )
        return dataclasses.replace(record, headers=headers)

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        settings = {
            "compression.codec": codec,
            "acks": acks,
            "enable.idempotence": str(idempotent).lower(),
        }
        for message in messages:
            arguments: list[str | bytes] = ["-P", "-t", topic, "-p", "0", "-D", _MESSAGE_END]
            for name, setting in settings.items():
                arguments += ["-X", f"{name}={setting}"]
            for name, value in message.headers:
                arguments += ["-H", name.encode() + (b"" if value is None else b"=" + value)]
            given = (message.value or b"") + _MESSAGE_END
            if message.value is None:
                arguments += ["-Z"]
            if message.key is not None or message.value is None:
                arguments += ["-K", _KEY_END]
                given = (message.key or b"") + _KEY_END + given
            self.run(*arguments, given=given)

    def consume(self, counts: Mapping[str, int]) -> dict[str, list[Record]]:
        found = {}
        for topic, count in counts.items():
            arguments = ["-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count)]
            printed = self.run(*arguments, "-q", "-f", _FORMAT)
            found[topic] = _parse(printed)
        return found

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Record]:
        settings = ["-X", "auto.offset.reset=earliest", "-X", "fetch.wait.max.ms=20"]
        return _parse(
            self.run(*settings, "-q", "-f", _FORMAT, "-c", str(count), "-G", group, topic)
        )

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        printed = self.run("-Q", "-t", f"{topic}:0:{timestamp_ms}")
        offset = int(printed.rsplit(b" ", 1)[1])
        return None if offset < 0 else offset

    def run(self, *arguments: str | bytes, given: bytes = b"") -> bytes:
        """Run it to its end; what it printed."""
        program = kcat()
        done = subprocess.run(
            [*program.command, "-b", self._bootstrap, *arguments],
            env=program.whole_environment,
            input=given,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def _parse(printed: bytes) -> list[Record]:
    records = []
    while printed:
        line, _, printed = printed.partition(b"\n")
        partition, offset, timestamp_ms, key_length, value_length, headers = line.split(b" ", 5)
        key, printed = _take(printed, int(key_length))
        value, printed = _take(printed, int(value_length))
        assert printed[:1] == b"\n"
        printed = printed[1:]
        records.append(
            Record(
                partition=int(partition),
                offset=int(offset),
                key=key,
                value=value,
                headers=tuple(map(_header, headers.split(b","))) if headers else (),
                timestamp_ms=int(timestamp_ms),
            )
        )
    return records


def _take(printed: bytes, length: int) -> tuple[bytes | None, bytes]:
    if length < 0:
        return None, printed
    return printed[:length], printed[length:]


def _header(text: bytes) -> Header:
    name, _, value = text.partition(b"=")
    return name.decode(), value
