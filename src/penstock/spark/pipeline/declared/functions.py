"""Functions of the user that are steps: found without running them, and loaded.

A module is looked for beside the pipeline's file, then where Python looks. The invariant: checking
runs nothing of the user's; what it cannot know (a compiled module, a name made at run time) passes.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.declared.reading import nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_function(module: str, function: str, folder: str) -> None:
    """InvalidConfig where there is no such module or function."""
    spec = _find(module, folder)
    if spec is None:
        raise InvalidConfig(
            f"there is no module {module} beside the file, nor where Python looks for modules."
        )
    if spec.origin is None or not spec.origin.endswith(".py"):
        return
    try:
        with open(spec.origin, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{spec.origin} cannot be read: {error}.") from None
    names = set(_names(tree))
    if function not in names and "*" not in names:
        raise InvalidConfig(
            f"{module} has no {function}: {nearest(function, names or {'nothing'})}"
        )


def load_function(module: str, function: str, folder: str) -> Callable[..., DataFrame]:
    """Import it. Errors of the user's own code come out as they are."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    loaded: Callable[..., DataFrame] = getattr(importlib.import_module(module), function)
    return loaded


def module_file(module: str, folder: str) -> str | None:
    """The file or package folder to send to executors; None for what is installed."""
    top = _find(module.partition(".")[0], folder)
    if top is None or top.origin is None or not top.origin.startswith(folder + os.sep):
        return None
    return os.path.dirname(top.origin) if top.submodule_search_locations else top.origin


def _find(module: str, folder: str) -> ModuleSpec | None:
    search = [folder, *sys.path]
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for index, _ in enumerate(parts):
        spec = PathFinder.find_spec(".".join(parts[: index + 1]), search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or [])
    return spec


def _names(node: ast.AST) -> Iterator[str]:
    """What a module's top level defines, also within its ifs, loops and tries, and not within
    what has names of its own."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.ImportFrom():
            yield from (alias.asname or alias.name for alias in node.names)
        case ast.Import():
            # `import os.path` gives the name os.
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case _:
            for inner in ast.iter_child_nodes(node):
                yield from _names(inner)
