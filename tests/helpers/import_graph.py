"""Build the graph of imports between the project's modules and find its cycles."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.helpers.paths import ROOT

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
