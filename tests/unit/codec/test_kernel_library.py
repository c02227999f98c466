"""The library of kernels compiled ahead of time: it is complete, and used only where it fits."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stateproc.codec.array_types import Flags, Longs
from stateproc.codec.native import jit
from stateproc.codec.native import library as kernel_library
from stateproc.codec.native.exports import exported_kernels, kernel_modules
from stateproc.codec.native.file_names import library_name
from stateproc.codec.native.library import LibraryUnusable, WrongLibrary, open_library, sources_text
from stateproc.codec.native.self_check import wrong_kernel
from tests.helpers.fixtures import fixtures
from tests.helpers.kernel_library import require_library
from tests.helpers.paths import FIXTURES, ROOT

# Find kernels and the Python code that calls them, in the sources.


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


PROGRAM = """
import sys
import stateproc
from stateproc.cli import main

for path, key_type in zip(sys.argv[1::2], sys.argv[2::2]):
    snapshot, timers = stateproc.open(path, key_type=key_type or None), 0
    for operator in snapshot.operators:
        for state in operator.states:
            state.to_arrow()
        timers += sum(len(domain.to_arrow()) for domain in operator.timer_states)
    assert timers or key_type, path
    assert main(["inspect", path, "--scan", *(["--key-type", key_type] if key_type else [])]) == 0
    assert not {"numba", "pandas"} & set(sys.modules), path
"""
READ = (
    "kitchen-hashmap-canonical-snappy",
    "kitchen-hashmap-native",
    "kitchen-rocksdb-incremental",
    "chain-changelog",
    "chain-heaptimers",
    "chain-changelog-untold",
)
"""Of every backend, with timers; one has heap timers beside RocksDB. No file of the last declares its keys' type."""


@pytest.mark.slow
def test_exactly_the_kernels_that_python_uses_are_exported() -> None:
    used, exported = kernels_used_by_python(), declared_kernels("exported")
    assert sorted(used - exported) == []
    assert sorted(exported - used) == []
    assert len(used) >= 50


def test_every_exported_kernel_has_types_and_a_place_in_the_library() -> None:
    kernels = exported_kernels()
    assert set(kernels) == {name.replace(".", "__") for name in declared_kernels("exported")}
    assert all(kernel.signature.words >= 1 for kernel in kernels.values())
    require_library()
    library = open_library(kernel_library.PACKAGE / "codec" / library_name())
    assert [symbol for symbol in kernels if library.entry(symbol) is None] == []
    assert library.sources == sources_text(kernel_modules())
    assert library.entry("stateproc__codec__no_kernel") is None


@pytest.mark.processes
def test_reading_imports_neither_numba_nor_pandas(tmp_path: Path) -> None:
    environment = require_library()
    last = {fixture.path.name: fixture for fixture in fixtures() if fixture.path.parent.name == "1.20"}
    read = [(str(last[name].snapshot), last[name].manifest.get("key_type") or "") for name in READ]
    assert any(key_type for _, key_type in read)
    command = [sys.executable, "-c", PROGRAM, *chain.from_iterable(read)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def library() -> Path:
    require_library()
    return kernel_library.PACKAGE / "codec" / library_name()


def test_another_cpu_does_not_load_it(library: Path, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nflags\t\t: fpu pni cx16 lahf_lm ssse3 sse4_1\n\nprocessor\t: 1\nflags\t\t: popcnt\n"
    )
    with pytest.raises(LibraryUnusable, match=r"^this CPU lacks popcnt, sse4_2$"):
        open_library(library, cpuinfo)
    with pytest.raises(LibraryUnusable, match="this CPU lacks "):
        open_library(library, tmp_path / "none")


def test_a_machine_without_a_library_does_not_load_it(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(LibraryUnusable, match="this CPU lacks a known CPU"):
        open_library(library)


def test_edited_sources_do_not_use_it(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for file in kernel_modules():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes((kernel_library.PACKAGE / file).read_bytes())
    monkeypatch.setattr(kernel_library, "PACKAGE", tmp_path)
    open_library(library)
    edited = tmp_path / "codec" / "ops.py"
    edited.write_bytes(edited.read_bytes() + b"\n")
    with pytest.raises(LibraryUnusable, match="was compiled from other sources"):
        open_library(library)
    edited.unlink()
    with pytest.raises(LibraryUnusable, match="was compiled from other sources"):
        open_library(library)


def test_a_file_that_is_no_library_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(LibraryUnusable, match=r"^there is no "):
        open_library(tmp_path / "kernels.so")
    (tmp_path / "kernels.so").write_bytes(b"no library")
    with pytest.raises(LibraryUnusable, match="cannot be loaded: "):
        open_library(tmp_path / "kernels.so")


@pytest.mark.parametrize(
    ("system", "machine", "feature", "missing"),
    [
        ("darwin", "arm64", 0, ""),
        ("darwin", "x86_64", 0, ""),
        ("darwin", "ppc", 0, "this CPU lacks a known CPU"),
        ("win32", "AMD64", 1, ""),
        ("win32", "AMD64", 0, "this CPU lacks sse4_2"),
    ],
)
def test_cpus_without_proc(
    system: str,
    machine: str,
    feature: int,
    missing: str,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    kernel32 = SimpleNamespace(IsProcessorFeaturePresent=lambda number: asked.append(number) or feature)
    monkeypatch.setattr("ctypes.windll", SimpleNamespace(kernel32=kernel32), raising=False)
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    if missing:
        with pytest.raises(LibraryUnusable, match=f"^{missing}$"):
            open_library(library, tmp_path / "none")
    else:
        open_library(library, tmp_path / "none")
    assert asked == ([38] if system == "win32" else [])
    assert kernel_library.has_crc32c(tmp_path / "none") == (machine in ("x86_64", "AMD64") and not missing)


def _damaged(library: Path, folder: Path) -> Path:
    """A copy of the library in which a constant of Murmur 3 is another one."""
    content = library.read_bytes()
    constant = 0xCC9E2D51.to_bytes(4, "little")
    assert constant in content
    damaged = folder / library.name
    damaged.write_bytes(content.replace(constant, 0xCC9E2D53.to_bytes(4, "little")))
    return damaged


def test_a_library_that_answers_wrongly_is_not_used(library: Path, tmp_path: Path) -> None:
    open_library(library)
    with pytest.raises(WrongLibrary, match=r"kernel keygroups__kernels__murmur3_hashes gives a wrong answer on this m"):
        open_library(_damaged(library, tmp_path))


def test_a_library_without_a_kernel_is_not_used(library: Path) -> None:
    opened = open_library(library)
    with pytest.raises(WrongLibrary, match="kernel stateproc__none cannot be called"):
        opened.call("stateproc__none", 1)


def test_numba_gives_the_answers_that_libraries_are_checked_by() -> None:
    """The expected values are those of the kernels themselves, whatever compiles them."""

    def call(symbol: str, *arguments: object) -> int:
        kernel = kernels[symbol]
        called.append(symbol)
        result = kernel(*arguments)
        return int(result[0] if isinstance(result, tuple) else result or 0)

    kernels, called = exported_kernels(), []
    assert wrong_kernel(call) is None
    assert len(called) == 6


WRONG = """
import sys
from pathlib import Path
from stateproc.codec.native import library
library.library_name = lambda: sys.argv[1]
import stateproc
for operator in stateproc.open(sys.argv[2]).operators:
    for state in operator.states:
        print(operator.uid, state.name, state.to_arrow().to_pylist())
print("numba" in sys.modules)
"""


@pytest.mark.processes
@pytest.mark.slow
def test_reading_with_a_wrong_library_warns_once_and_is_right(library: Path, tmp_path: Path) -> None:
    """Numba compiles the kernels instead."""
    outputs = []
    for path in (library, _damaged(library, tmp_path)):
        command = [sys.executable, "-c", WRONG, str(path), str(FIXTURES / "1.20/demo/snapshot")]
        environment = {name: value for name, value in os.environ.items() if name != "STATEPROC_KERNELS"}
        done = subprocess.run(command, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        outputs.append(done)
    right, wrong = outputs
    assert right.stdout.splitlines()[-1] == "False"
    assert wrong.stdout.splitlines()[-1] == "True"
    assert right.stdout.splitlines()[:-1] == wrong.stdout.splitlines()[:-1] != []
    assert right.stderr == ""
    assert wrong.stderr.count("RuntimeWarning: ") == 1
    assert "gives a wrong answer on this machine: numba compiles the kernels instead; please report it" in wrong.stderr


CHOICE = """
import sys
from stateproc.codec.encoding.kernels import varint_sizes
varint_sizes(0, 0, 0)
print("numba" in sys.modules)
"""


def _choice(value: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "STATEPROC_KERNELS": value, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CHOICE]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)


@pytest.mark.processes
@pytest.mark.exhaustive
def test_numba_can_be_forced(library: Path, tmp_path: Path) -> None:
    assert _choice("numba", tmp_path).stdout == "True\n"
    assert _choice("library", tmp_path).stdout == "False\n"
    assert _choice("", tmp_path).stdout == "False\n"


@pytest.mark.processes
def test_an_unknown_choice_is_refused(tmp_path: Path) -> None:
    assert "STATEPROC_KERNELS is 'fast'; it is numba, library, or not set" in _choice("fast", tmp_path).stderr


def test_a_required_library_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel_library, "PACKAGE", tmp_path)
    monkeypatch.setenv("STATEPROC_KERNELS", "library")
    with pytest.raises(LibraryUnusable, match="there is no "):
        kernel_library.kernel_library.__wrapped__()
    monkeypatch.delenv("STATEPROC_KERNELS")
    choice = kernel_library.kernel_library.__wrapped__()
    assert choice.library is None
    assert choice.reason == f"there is no {tmp_path / 'codec' / library_name()}"


def _total(numbers: Longs, flags: Flags, bias: int, doubled: bool) -> tuple[int, bool]:
    found = bias
    for k in range(len(numbers)):
        if flags[k]:
            found += numbers[k] * 2 if doubled else numbers[k]
    return found, found > 10


def test_a_kernel_that_is_not_in_the_library_is_compiled_by_numba_for_its_types_alone() -> None:
    kernel = jit.Kernel(_total, inline=False, exported=True)
    numbers, flags = np.array([1, 2, 3]), np.array([True, False, True])
    assert kernel(numbers, flags, 5, False) == (9, False)
    read_only = np.frombuffer(numbers.tobytes(), dtype=np.int64)
    assert kernel(read_only, flags, np.int32(5), 1) == (13, True)
    assert kernel(np.empty(0, dtype=np.int64), np.frombuffer(b"", dtype=np.bool_), 5, False) == (5, False)
    assert len(kernel.dispatcher.signatures) == 1
    with pytest.raises(TypeError, match="_total: int64 in 1 dimensions, C order, is required, not int32 array"):
        kernel(numbers.astype(np.int32), flags, 5, False)


def test_a_kernel_missing_in_a_required_library_is_an_error(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEPROC_KERNELS", "library")
    kernel = jit.Kernel(_total, inline=False, exported=True)
    with pytest.raises(LibraryUnusable, match="_total is not in "):
        kernel(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_), 5, False)
