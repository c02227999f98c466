"""Find kernels and the Python code that calls them, in the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.helpers.paths import ROOT

_DECORATORS = ("kernel", "inlined", "exported")


@cache
def _sources() -> dict[str, str]:
    files = [path for folder in ("stateproc", "readers", "writers") for path in (ROOT / folder).rglob("*.py")]
    return {_module(path): path.read_text("utf-8") for path in files}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_sources()[module])


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "stateproc" else ("stateproc", *parts))


def declared_kernels(*decorators: str) -> set[str]:
    """Return the dotted names of all kernels with one of these decorators."""
    declaring = [module for module, text in _sources().items() if any(f"@{name}" in text for name in decorators)]
    return {f"{module}.{item.name}" for module in declaring for item in _kernels(_tree(module), decorators)}


def _kernels(tree: ast.Module, decorators: tuple[str, ...] = _DECORATORS) -> Iterator[ast.FunctionDef]:
    for item in tree.body:
        if isinstance(item, ast.FunctionDef):
            names = {one.id for one in item.decorator_list if isinstance(one, ast.Name)}
            if names & set(decorators):
                yield item


def kernels_used_by_python() -> set[str]:
    """Return the kernels that are named anywhere but in the bodies of kernels: called, or passed to be called."""
    declared = declared_kernels(*_DECORATORS)
    # A module names a kernel and, to import it, the module that declares it.
    words = {tuple(name.split(".")[-2:]) for name in declared}
    texts = {module: {module.rpartition(".")[2], *re.findall(r"\w+", text)} for module, text in _sources().items()}
    naming = [module for module, found in texts.items() if any(found.issuperset(pair) for pair in words)]
    return {name for module in naming for name in _used(module, _tree(module)) if name in declared}


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
