"""Folders and URLs are told apart by one rule."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.spark.pipeline.declared.locations import beneath, is_url, local_path, located


@pytest.mark.parametrize("text", ["s3a://bucket/a", "hdfs:/a", "HDFS:///a", "file://host/a"])
def test_what_only_spark_reaches_stays_as_it_is(text: str) -> None:
    assert is_url(text)
    assert located(text) == text
    assert beneath(f"{text}/", "b") == f"{text}/b"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("FILE:///a/b/../c", "/a/c"),
        ("out", "/home/out"),
        ("../out/", "/out"),
        ("a:b", "/home/a:b"),
        ("file:///a#b?c d", "/a#b?c d"),
    ],
)
def test_everything_else_is_a_path_of_this_machine(text: str, path: str) -> None:
    assert not is_url(text)
    assert local_path(text, "/home") == located(text, "/home") == path


def test_without_a_folder_paths_are_relative_to_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert local_path("out") == os.path.join(os.getcwd(), "out")
    assert local_path("~/out") == "/home/me/out"
