"""Clients in other languages, each a child process that does what it is told by lines of JSON.

The process starts once and serves many calls, because starting Java or Node costs more than what
they do here. Its standard error is the test's. Invariant: one call at a time, one answer each.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.system.kafka.drivers.driver import WholeDriver
from tests.system.kafka.messages import Message, Record
from tests.system.kafka.provide import CLIENTS, Program, java, node

_group_numbers = itertools.count(1)


class RemoteDriver(WholeDriver):
    def __init__(self, program: Program, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._process = subprocess.Popen(
            program.command,
            env=program.whole_environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        self.call(
            "produce",
            topic=topic,
            messages=list(map(_to_json, messages)),
            codec=codec,
            acks=acks,
            idempotent=idempotent,
        )

    def consume(self, counts: Mapping[str, int]) -> dict[str, list[Record]]:
        # Some of them read only as members of a group: one of its own for each reading.
        group = f"{type(self).__name__}-reading-{next(_group_numbers)}"
        found = self.call("consume", counts=counts, group=group)
        return {topic: list(map(_from_json, records)) for topic, records in found.items()}

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Record]:
        found = self.call("consumeInGroup", topic=topic, group=group, count=count)
        return list(map(_from_json, found))

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        found: int | None = self.call("offsetAt", topic=topic, timestamp_ms=timestamp_ms)
        return found

    def administer(
        self, topic: str, messages: Sequence[Message], *, group: str, joined: str
    ) -> dict[str, Any]:
        """A round of administration: make the topic, change it, send it the messages, ask for
        everything about it, commit as one group, describe another that has members, delete what
        was made. What was told on the way."""
        found: dict[str, Any] = self.call(
            "admin",
            topic=topic,
            messages=list(map(_to_json, messages)),
            codec="none",
            acks="all",
            idempotent=True,
            group=group,
            joined=joined,
        )
        return found

    def call(self, name: str, /, **request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"call": name, "bootstrap": self._bootstrap, **request})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, f"{type(self).__name__} ended, exit code {self._process.wait()}"
        answer = json.loads(said)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class KafkajsDriver(RemoteDriver):
    def __init__(self, bootstrap: str) -> None:
        program = node()
        super().__init__(
            dataclasses.replace(
                program, command=(*program.command, str(CLIENTS / "js/kafkajs.js"))
            ),
            bootstrap,
        )

    def can_send(self, message: Message) -> bool:
        """Headers are an object: values of one name stand together."""
        return _grouped_by_name(message.headers) == message.headers and all(
            value is not None for _, value in message.headers
        )

    def shows(self, record: Record) -> Record:
        return dataclasses.replace(record, headers=_grouped_by_name(record.headers))


class PlatformaticDriver(RemoteDriver):
    # Its snappy is not the framed one that Java writes, and zstd needs a newer Node.
    codecs: tuple[str, ...] = ("none", "gzip", "lz4")

    def __init__(self, bootstrap: str) -> None:
        program = node()
        script = str(CLIENTS / "js/platformatic.js")
        super().__init__(
            dataclasses.replace(program, command=(*program.command, script)), bootstrap
        )

    def can_send(self, message: Message) -> bool:
        """Headers are a map by name, when they are given."""
        return len(dict(message.headers)) == len(message.headers)


class JavaDriver(RemoteDriver):
    def __init__(self, bootstrap: str) -> None:
        program = java()
        super().__init__(
            dataclasses.replace(program, command=(*program.command, "ForeignClient")), bootstrap
        )

    def tool(self, name: str, *arguments: str, given: bytes = b"") -> str:
        """Run one of Kafka's command line tools by its class; what it printed."""
        answer = self.call("tool", name=name, arguments=arguments, input=_to_text(given))
        assert answer["code"] == 0, answer["printed"]
        printed: str = answer["printed"]
        return printed


def _grouped_by_name(
    headers: tuple[tuple[str, bytes | None], ...],
) -> tuple[tuple[str, bytes | None], ...]:
    names = dict.fromkeys(name for name, _ in headers)
    return tuple(header for name in names for header in headers if header[0] == name)


def _to_json(message: Message) -> dict[str, object]:
    return {
        "key": _to_text(message.key),
        "value": _to_text(message.value),
        "headers": [[name, _to_text(value)] for name, value in message.headers],
        "timestamp_ms": message.timestamp_ms,
    }


def _from_json(found: Mapping[str, Any]) -> Record:
    return Record(
        partition=found["partition"],
        offset=found["offset"],
        key=_to_bytes(found["key"]),
        value=_to_bytes(found["value"]),
        headers=tuple((name, _to_bytes(value)) for name, value in found["headers"]),
        timestamp_ms=found["timestamp_ms"],
    )


def _to_text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
