"""The table of APIs: numbers and names as Kafka has them."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from kio.schema.index import api_key_map

from penstock.protocol.kafka.apis import (
    API_VERSIONS,
    APIS,
    FETCH,
    OFFSET_DELETE,
    Api,
)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_names_numbers_and_versions_are_kafkas(api: Api) -> None:
    """R-NET-5: the first and last version we advertise exist, and have the name we give."""
    folder = f"kio.schema.{api_key_map[api.key]}"
    assert folder.rsplit(".", 1)[1].replace("_", "") == api.name.lower()
    assert api.response.__name__ == f"{api.name}Response"
    assert api.version_min <= api.version_max
    for version in (api.version_min, api.version_max):
        assert find_spec(f"{folder}.v{version}.request") is not None


def test_versions_outside_the_table_are_not_ours() -> None:
    assert not FETCH.has(3)
    assert FETCH.has(4)
    assert FETCH.has(18)
    assert not FETCH.has(19)
    assert not API_VERSIONS.has(-1)


def test_flexible_versions() -> None:
    assert [version for version in range(5) if API_VERSIONS.is_flexible(version)] == [3, 4]
    assert not OFFSET_DELETE.is_flexible(0)
