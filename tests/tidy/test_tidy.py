"""The rules of the code that no linter knows: sizes, words, and what pure packages may say."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.tidy.one_idea import ONE_IDEA, SEVERAL

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
CLASS_METHODS_MAX = 25
CLASS_ATTRIBUTES_MAX = 15
POSITIONAL_PARAMETERS_MAX = 8
PURE = ("model", "records", "protocol", "raft", "coordination")
GENERATED = {"penstock_pb2.py"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*roots: str) -> Iterator[Path]:
    for root in roots:
        for path in sorted((ROOT / root).rglob("*.py")):
            if path.name not in GENERATED:
                yield path


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text()


@dataclass(frozen=True)
class Shape:
    """What a class adds to its bases, all of them by name."""

    bases: tuple[str, ...]
    methods: frozenset[str]
    attributes: frozenset[str]


@dataclass(frozen=True)
class Findings:
    """What a file has that it may not have, and what its classes and imports are. Its tree, which
    is large, is not kept."""

    sizes: list[str]
    silence: list[str]
    touches: list[str]
    shapes: dict[str, Shape]
    imports: dict[str, str]


@functools.cache
def findings(path: Path) -> Findings:
    """By one parse for all the rules."""
    tree = ast.parse(text_of(path))
    is_pure = any(path.is_relative_to(SOURCE / package) for package in PURE)
    return Findings(
        sizes=list(oversized(text_of(path), tree)),
        silence=[] if ast.get_docstring(tree) else ["a module opens with a docstring"],
        touches=list(touched(tree)) if is_pure else [],
        shapes={
            node.name: shape_of(node)
            for node in definitions(tree.body)
            if isinstance(node, ast.ClassDef)
        },
        imports=dict(imported(tree)),
    )


def definitions(body: Sequence[ast.AST]) -> Iterator[Function | ast.ClassDef]:
    """Functions and classes, at any depth. They are statements: expressions are passed over."""
    for node in body:
        if isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            if isinstance(node, Function | ast.ClassDef):
                yield node
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from definitions(getattr(node, name, ()))


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a name stands for that the module has from another."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def shape_of(node: ast.ClassDef) -> Shape:
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return Shape(
        bases=tuple(base.id for base in bases if isinstance(base, ast.Name)),
        methods=frozenset(child.name for child in node.body if isinstance(child, Function)),
        attributes=frozenset(attributes_of(node)),
    )


def attributes_of(node: ast.ClassDef) -> Iterator[str]:
    """Fields, slots, and what is assigned on `self`."""
    for child in node.body:
        match child:
            case ast.AnnAssign(target=ast.Name(id=name)):
                if not ast.unparse(child.annotation).startswith("ClassVar"):
                    yield name
            case ast.Assign(targets=[ast.Name(id="__slots__")]):
                yield from ast.literal_eval(child.value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for inner in ast.walk(child):
                    match inner:
                        case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                            yield inner.attr


SOURCES = list(python_files("src"))
EVERYTHING = list(python_files("src", "tests", "benchmarks", "examples"))


def length_without_docstring(function: Function) -> int:
    assert function.end_lineno is not None
    length = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        assert docstring.end_lineno is not None
        length -= docstring.end_lineno - docstring.lineno + 1
    return length


def oversized(text: str, tree: ast.Module) -> Iterator[str]:
    if text.count("\n") > FILE_LINES_MAX:
        yield f"more than {FILE_LINES_MAX} lines: split it"
    for node in definitions(tree.body):
        if isinstance(node, Function):
            where = f"{node.name}, line {node.lineno}"
            if length_without_docstring(node) > FUNCTION_LINES_MAX:
                yield f"{where}: more than {FUNCTION_LINES_MAX} lines"
            if len(node.args.posonlyargs) + len(node.args.args) > POSITIONAL_PARAMETERS_MAX:
                yield f"{where}: more than {POSITIONAL_PARAMETERS_MAX} positional parameters"
        elif sum(isinstance(child, Function) for child in node.body) > CLASS_METHODS_MAX:
            yield f"{node.name}: more than {CLASS_METHODS_MAX} methods"


def broken(paths: Sequence[Path], rule: Callable[[Path], Iterable[str]]) -> list[str]:
    """Everything in the files that the rule does not allow, with its place."""
    return [f"{name_of(path)}: {what}" for path in paths for what in rule(path)]


def test_sizes() -> None:
    assert not broken(EVERYTHING, lambda path: findings(path).sizes)


def large_classes() -> dict[str, str]:
    """Those of the package above a cap, and how large they are."""
    shapes: dict[str, Shape] = {}
    imports: dict[str, str] = {}
    for path in SOURCES:
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        module = module.removesuffix(".__init__")
        shapes |= {f"{module}.{name}": shape for name, shape in findings(path).shapes.items()}
        imports |= {f"{module}.{name}": what for name, what in findings(path).imports.items()}

    def chain(name: str) -> Iterator[Shape]:
        """The class and all that it inherits from, as far as they are in the package."""
        while name not in shapes and name in imports:
            name = imports[name]
        if name in shapes:
            yield shapes[name]
            for base in shapes[name].bases:
                yield from chain(f"{name.rpartition('.')[0]}.{base}")

    large = {}
    for name in shapes:
        methods = set().union(*(shape.methods for shape in chain(name)))
        attributes = set().union(*(shape.attributes for shape in chain(name))) - methods
        if len(methods) > CLASS_METHODS_MAX or len(attributes) > CLASS_ATTRIBUTES_MAX:
            size = f"{len(methods)} methods, {len(attributes)} attributes"
            large[name.removeprefix("penstock.")] = size
    return large


def test_a_class_is_one_idea() -> None:
    """Counted over all that it inherits: a large class cut in layers is as large as before."""
    large = large_classes()
    excepted = [*ONE_IDEA, *SEVERAL]
    too_large = {name: size for name, size in large.items() if name not in excepted}
    assert not too_large, "think: which ideas are in them that could stand by themselves?"
    stale = [name for name in excepted if name not in large]
    assert not stale, "they are no exceptions any more: take them out of the table"
    assert list(ONE_IDEA) == sorted(ONE_IDEA)
    assert list(SEVERAL) == sorted(SEVERAL)
    assert not ONE_IDEA.keys() & SEVERAL.keys()


def test_every_module_says_what_it_is() -> None:
    assert not broken(EVERYTHING, lambda path: findings(path).silence)


def left_open(path: Path) -> Iterator[str]:
    marks = ("FIX" + "ME", "TO" + "DO", "XX" + "X", "NotImplemented" + "Error")
    if any(mark in text_of(path) for mark in marks):
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if any(mark in line for mark in marks):
                yield f"line {number}: {line.strip()}"


def test_nothing_is_left_open() -> None:
    assert not broken(SOURCES, left_open)


def touched(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Await | ast.AsyncFunctionDef):
            yield f"await, line {node.lineno}"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open":
            yield f"open(), line {node.lineno}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            if {"time", "datetime"} & {getattr(node, "module", None), *names}:
                yield f"a clock, line {node.lineno}"


def test_pure_packages_touch_nothing() -> None:
    assert not broken(SOURCES, lambda path: findings(path).touches)


def test_every_test_module_of_unit_mirrors_a_module() -> None:
    """tests/unit/PACKAGE/test_MODULE.py stands for src/penstock/PACKAGE/MODULE.py, and
    tests/unit/kit/PACKAGE/test_MODULE.py for tests/kit/PACKAGE/MODULE.py."""
    orphans = []
    for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py")):
        package = path.parent.relative_to(ROOT / "tests" / "unit")
        module = path.stem.removeprefix("test_")
        home = ROOT / "tests" if package.parts[:1] == ("kit",) else SOURCE
        if not (home / package / f"{module}.py").exists():
            orphans.append(name_of(path))
    assert not orphans


DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def dead_links(path: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(path)):
        if "://" not in target and not (path.parent / target).exists():
            yield target


def test_links_between_documents_lead_somewhere() -> None:
    assert not broken(DOCUMENTS, dead_links)


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
