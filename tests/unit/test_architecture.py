"""The structure of the project: layers and names as CONTRIBUTING.md describes them, read from the source text.

`make lint` checks the order of the layers with import-linter (`[tool.importlinter]` in pyproject.toml).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import stateproc
from tests.helpers import wording
from tests.helpers.paths import ROOT

# Build the graph of imports between the project's modules and find its cycles.


Graph = Mapping[str, set[str]]
"""Module → the modules that it imports, also inside of functions and for type checking only."""


def source_files() -> dict[str, Path]:
    """Return each module of the project with its file; `readers` and `writers` are packages of `stateproc`."""
    found = {}
    for folder in (ROOT / "stateproc", ROOT / "readers", ROOT / "writers"):
        # Both are symbolic links in stateproc/; they are read at their real location only.
        for path in sorted(path for path in folder.rglob("*.py") if not path.is_symlink()):
            relative = path.relative_to(ROOT)
            if relative.parts[:2] in (("stateproc", "readers"), ("stateproc", "writers")):
                continue
            parts = relative.with_suffix("").parts
            name = ".".join(parts if parts[0] == "stateproc" else ("stateproc", *parts))
            found[name.removesuffix(".__init__")] = path
    return found


def import_graph() -> Graph:
    """Return the imports of all modules of the project."""
    files = source_files()
    return {name: {target for target in _imported(path, files) if target != name} for name, path in files.items()}


def cycles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others (Tarjan's algorithm)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in numbers:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in stack:
                lowest[module] = min(lowest[module], numbers[target])
        if lowest[module] == numbers[module]:
            group = stack[stack.index(module) :]
            del stack[-len(group) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in graph:
        if module not in numbers:
            visit(module)
    return sorted(found)


def _imported(path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if f"{node.module}.{alias.name}" in files:
                    yield f"{node.module}.{alias.name}"
                elif node.module in files:
                    yield node.module


MOST_ROOT_MODULES = 6
KNOWN_CYCLES: list[list[str]] = []
"""Import cycles that are still to be removed, by the last component of their modules' names."""

NAMED_ELSEWHERE = {
    "pyspark/sql/streaming/python_streaming_source_runner.py",
    "stateproc/readers/__init__.py",
    "stateproc/writers/__init__.py",
    "tests/workers/acme_parsers.py",
}
"""Paths in texts that are not those of files of the project: in Spark, in wheels, in what a test writes."""

FILES = source_files()


def python_files() -> list[Path]:
    """Return all Python files of the project, its tests, benchmarks and notebooks."""
    folders = (ROOT / "tests", ROOT / "benchmarks", ROOT / "notebooks")
    return [*FILES.values(), *(path for folder in folders for path in sorted(folder.rglob("*.py")))]


@pytest.mark.slow
def test_modules_do_not_import_each_other_in_cycles() -> None:
    found = [sorted(name.rpartition(".")[2] for name in cycle) for cycle in cycles(import_graph())]
    assert [cycle for cycle in found if cycle not in KNOWN_CYCLES] == []


def test_imports_for_type_checking_and_in_functions_count() -> None:
    graph = import_graph()
    assert "stateproc.diff.snapshot_diff" in graph["stateproc.snapshot.snapshot"]
    assert "stateproc.model.snapshot" in graph["stateproc.diff.snapshot_diff"]


def test_a_cycle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert cycles(graph) == [["b", "c"]]


def test_the_public_api_is_what_its_stub_says() -> None:
    assert len(stateproc.__all__) > 30
    assert {name for name in dir(stateproc) if name in stateproc.__all__} == set(stateproc.__all__)
    assert all(getattr(stateproc, name).__name__.rpartition(".")[2] == name for name in stateproc.__all__)
    with pytest.raises(AttributeError, match="'stateproc' has no attribute 'closed'"):
        _ = stateproc.closed


def test_few_modules_are_outside_packages() -> None:
    modules = sorted(path.name for path in (ROOT / "stateproc").glob("*.py"))
    assert len(modules) <= MOST_ROOT_MODULES, modules


def test_no_file_edits_the_import_path() -> None:
    edits = re.compile(r"\bsys\.path\.(?:insert|append|extend)\(|\bsys\.path\s*(?:\[|\+?=[^=])")
    assert [path for path in python_files() if edits.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_sentences_use_standard_terms() -> None:
    found = [
        f"{name}:{number}: {phrase!r} in {line!r}"
        for name in wording.project_files()
        if not wording.is_outstanding(name)
        for number, phrase, line in wording.phrases_in(name, (ROOT / name).read_text(encoding="utf-8"))
    ]
    assert found == []


def test_files_that_texts_name_exist() -> None:
    """Paths in texts, such as ``codec/vm/dispatch.py``, end as a file of the project does."""
    mention = re.compile(r"(?<![\w/.\-])((?:[a-z_]+/)+[a-z_]+\.py)\b")
    known = {f"/{name}" for name in wording.project_files()} | {f"/{path.relative_to(ROOT)}" for path in python_files()}
    known |= {f"/{path.relative_to(ROOT)}" for path in (ROOT / "tools").glob("*.py")}
    texts = {name for name in wording.project_files() if name.endswith((".py", ".md")) and name != "CHANGELOG.md"}
    missing = [
        f"{name}: {path}"
        for name in sorted(texts)
        for path in mention.findall((ROOT / name).read_text(encoding="utf-8"))
        if path not in NAMED_ELSEWHERE and not any(file.endswith(f"/{path}") for file in known)
    ]
    assert missing == []
