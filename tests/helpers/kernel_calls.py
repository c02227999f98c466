"""Find kernels and the Python code that calls them, in the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.helpers.paths import ROOT

_DECORATORS = ("kernel", "inlined", "exported")


@cache
def _trees() -> dict[str, ast.Module]:
    files = [path for folder in ("stateproc", "readers", "writers") for path in (ROOT / folder).rglob("*.py")]
    return {_module(path): ast.parse(path.read_text("utf-8")) for path in files}


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "stateproc" else ("stateproc", *parts))


def declared_kernels(*decorators: str) -> set[str]:
    """Return the dotted names of all kernels with one of these decorators."""
    return {f"{module}.{item.name}" for module, tree in _trees().items() for item in _kernels(tree, decorators)}


def _kernels(tree: ast.Module, decorators: tuple[str, ...] = _DECORATORS) -> Iterator[ast.FunctionDef]:
    for item in tree.body:
        if isinstance(item, ast.FunctionDef):
            names = {one.id for one in item.decorator_list if isinstance(one, ast.Name)}
            if names & set(decorators):
                yield item


def kernels_used_by_python() -> set[str]:
    """Return the kernels that are named anywhere but in the bodies of kernels: called, or passed to be called."""
    declared = declared_kernels(*_DECORATORS)
    return {name for module, tree in _trees().items() for name in _used(module, tree) if name in declared}


def _used(module: str, tree: ast.Module) -> Iterator[str]:
    imported = {item.name: f"{module}.{item.name}" for item in _kernels(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    kernels = list(_kernels(tree))
    nodes = [child for child in ast.iter_child_nodes(tree) if child not in kernels]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Name) and node.id in imported:
            yield imported[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            yield f"{imported[node.value.id]}.{node.attr}"
        nodes += ast.iter_child_nodes(node)
