"""The rules of the code that no linter knows: sizes, words, and what pure packages may say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
CLASS_METHODS_MAX = 25
POSITIONAL_PARAMETERS_MAX = 8
PURE = ("model", "records", "protocol", "raft", "coordination")
GENERATED = {"penstock_pb2.py"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*roots: str) -> Iterator[Path]:
    for root in roots:
        for path in sorted((ROOT / root).rglob("*.py")):
            if path.name not in GENERATED:
                yield path


SOURCES = list(python_files("src"))
EVERYTHING = list(python_files("src", "tests", "benchmarks", "examples"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length_without_docstring(function: Function) -> int:
    assert function.end_lineno is not None
    length = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        assert docstring.end_lineno is not None
        length -= docstring.end_lineno - docstring.lineno + 1
    return length


@pytest.mark.parametrize("path", EVERYTHING, ids=name_of)
def test_sizes(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES_MAX, f"more than {FILE_LINES_MAX} lines: split it"
    tree = ast.parse(text)
    for function in functions(tree):
        where = f"{function.name}, line {function.lineno}"
        assert length_without_docstring(function) <= FUNCTION_LINES_MAX, where
        positional = len(function.args.posonlyargs) + len(function.args.args)
        assert positional <= POSITIONAL_PARAMETERS_MAX, where
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = [child for child in node.body if isinstance(child, Function)]
            assert len(methods) <= CLASS_METHODS_MAX, node.name


@pytest.mark.parametrize("path", EVERYTHING, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "a module opens with a docstring"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_is_left_open(path: Path) -> None:
    marks = ("FIX" + "ME", "TO" + "DO", "XX" + "X", "NotImplemented" + "Error")
    for number, line in enumerate(path.read_text().splitlines(), 1):
        assert not any(mark in line for mark in marks), f"line {number}: {line.strip()}"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_pure_packages_touch_nothing(path: Path) -> None:
    if not any(path.is_relative_to(SOURCE / package) for package in PURE):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.Await | ast.AsyncFunctionDef), f"await, {node}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "open", f"open(), line {node.lineno}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            module = getattr(node, "module", None)
            clocks = {"time", "datetime"} & {module, *names}
            assert not clocks, f"a clock, line {node.lineno}"


def test_every_test_module_of_unit_mirrors_a_module() -> None:
    """tests/unit/PACKAGE/test_MODULE.py stands for src/penstock/PACKAGE/MODULE.py."""
    orphans = []
    for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py")):
        package = path.parent.relative_to(ROOT / "tests" / "unit")
        module = path.stem.removeprefix("test_")
        if not (SOURCE / package / f"{module}.py").exists():
            orphans.append(name_of(path))
    assert not orphans


DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_the_protobuf_module_is_generated_from_its_contract(tmp_path: Path) -> None:
    """R-NET-3: the published .proto is what the code speaks."""
    from grpc_tools import protoc  # type: ignore[import-untyped]

    contract = "penstock/protocol/penstock.proto"
    source = SOURCE.parent
    arguments = [f"-I{source}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", contract]
    assert protoc.main(["protoc", *arguments]) == 0
    for name in ("penstock_pb2.py", "penstock_pb2.pyi"):
        made = (tmp_path / "penstock" / "protocol" / name).read_text()
        kept = (SOURCE / "protocol" / name).read_text()
        # Another version of the compiler writes another version into the first lines.
        assert _descriptor(made) == _descriptor(kept), "run `make proto` and commit what it made"


def _descriptor(text: str) -> list[str]:
    return [line for line in text.splitlines() if "AddSerializedFile" in line or "class " in line]


def test_documents_speak_of_the_project_alone() -> None:
    foreign = re.compile(r"(/wor[k]/|/roo[t]/|/home/|/tmp/[a-z])")
    for path in DOCUMENTS:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not foreign.search(line), f"{name_of(path)}:{number}: {line.strip()}"
