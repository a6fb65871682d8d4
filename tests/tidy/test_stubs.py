"""Stubs say what the modules say that they stand for."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import penstock

SOURCE = Path(__file__).parents[2] / "src" / "penstock"

Definition = ast.FunctionDef | ast.ClassDef


def public(body: list[ast.stmt]) -> list[Definition]:
    return [
        each
        for each in body
        if isinstance(each, Definition) and (each.name == "__init__" or each.name[0] != "_")
    ]


def surface(definition: Definition) -> list[str]:
    """What its users see of it: signatures and what they are told."""
    name = definition.name
    told = ast.get_docstring(definition) or ""
    if isinstance(definition, ast.ClassDef):
        inner = [line for each in public(definition.body) for line in surface(each)]
        return [f"class {name}: {told}", *(f"{name}.{line}" for line in inner)]
    marks = [ast.unparse(each) for each in definition.decorator_list]
    of_users = [mark for mark in marks if not mark.startswith("cython.")]
    returns = ast.unparse(definition.returns) if definition.returns is not None else ""
    return [f"{of_users} {name}({ast.unparse(definition.args)}) -> {returns}: {told}"]


def test_the_stub_of_the_compiled_codec_says_what_the_codec_says() -> None:
    """R-OPS-7: editors see `Message` by its stub, so it is the class."""
    surfaces = [
        [line for each in public(ast.parse(path.read_text()).body) for line in surface(each)]
        for path in (SOURCE / "records" / "_codec.pyi", SOURCE / "records" / "codec.py")
    ]
    assert surfaces[0] == surfaces[1]


def test_the_stub_of_the_package_names_what_it_loads() -> None:
    """R-OPS-7: each name that is loaded when it is first used is typed, and is what it says."""
    imports = [
        each
        for each in ast.parse((SOURCE / "__init__.pyi").read_text()).body
        if isinstance(each, ast.ImportFrom)
    ]
    typed = {alias.asname: each.module for each in imports for alias in each.names}
    lazy = {name for name in dir(penstock) if name not in vars(sys.modules["penstock"])}
    assert lazy | {"errors", "spark", "testing"} == set(typed)
    for name, module in typed.items():
        assert module is not None
        assert getattr(penstock, str(name)) is getattr(importlib.import_module(module), str(name))
