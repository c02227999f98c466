"""Cache of compiled kernels: it is private and invalid as soon as any source file of a kernel changes."""

from __future__ import annotations

import ast
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stateproc.codec.native import cache as kernel_cache
from tests.helpers.numba_process import NumbaProcess

Run = Callable[..., list[str]]

CALLER = """
from inner import number
from stateproc.codec.native.jit import kernel

@kernel
def twice(n):
    return 2 * number(n)

print(twice(1), sum(twice.dispatcher.stats.cache_hits.values()))
"""
INNER = """
from stateproc.codec.native.jit import kernel

@kernel
def number(n):
    return n + {}
"""


def _environment(**changes: str | None) -> dict[str, str]:
    names = {"STATEPROC_CACHE_DIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", *changes}
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return {**kept, **{name: value for name, value in changes.items() if value is not None}}


@pytest.fixture(scope="module")
def numba_process() -> Iterator[NumbaProcess]:
    with NumbaProcess() as process:
        yield process


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "caller.py").write_text(CALLER)
    (folder / "inner.py").write_text(INNER.format(10))
    return folder


@pytest.fixture
def run(numba_process: NumbaProcess, sources: Path) -> Run:
    """Return a function that runs the program, with changes of the environment, and returns its words."""
    return lambda **changes: numba_process.run(sources / "caller.py", _environment(**changes)).split()


def _machine_code(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbc"))


@pytest.mark.exhaustive
def test_a_changed_callee_is_compiled_into_its_callers(sources: Path, run: Run, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert run(STATEPROC_CACHE_DIR=cache) == ["22", "0"]
    assert run(STATEPROC_CACHE_DIR=cache) == ["22", "1"]
    (sources / "inner.py").write_text(INNER.format(20))
    assert run(STATEPROC_CACHE_DIR=cache) == ["42", "0"]


@pytest.mark.exhaustive
def test_standard_error_says_once_that_kernels_are_compiled_and_why(
    sources: Path, numba_process: NumbaProcess, tmp_path: Path
) -> None:
    shown = []
    for _ in range(2):
        stderr = tmp_path / "stderr"
        stderr.write_bytes(b"")
        environment = _environment(STATEPROC_CACHE_DIR=str(tmp_path / "cache"), STATEPROC_KERNELS="numba")
        numba_process.run(sources / "caller.py", environment, stderr=str(stderr))
        shown.append(stderr.read_text())
    assert shown == [
        "compiling kernels with numba, once, about 25 s: STATEPROC_KERNELS=numba. "
        "`stateproc warmup` does it ahead of time; how to install compiled kernels: docs/install.md\n",
        "",
    ]


@pytest.mark.exhaustive
def test_the_cache_is_accessible_only_to_its_owner(run: Run, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    run(STATEPROC_CACHE_DIR=str(cache), NUMBA_CACHE_DIR=str(tmp_path / "numba"))
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()} == {0o700}
    assert _machine_code(tmp_path) == _machine_code(cache) != []


@pytest.mark.processes
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"XDG_CACHE_HOME": "{}/xdg", "HOME": "{}"}, "xdg/stateproc"),
        ({"HOME": "{}"}, ".cache/stateproc"),
        ({"HOME": "{}", "XDG_CACHE_HOME": "not/absolute"}, ".cache/stateproc"),
        ({"HOME": "{}/not-there"}, "tmp/stateproc-UID"),
        ({"HOME": ""}, "tmp/stateproc-UID"),
    ],
)
def test_the_default_cache_is_in_the_users_cache_folder(
    variables: dict[str, str], expected: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    changes = {name: value.format(tmp_path) for name, value in variables.items()}
    run(TMPDIR=str(tmp_path / "tmp"), **changes)
    root = tmp_path / expected.replace("UID", str(os.geteuid()))
    assert _machine_code(tmp_path) == _machine_code(root) != []


@pytest.mark.processes
def test_without_a_home_directory_no_folder_with_a_literal_tilde_is_created(
    sources: Path, run: Run, tmp_path: Path
) -> None:
    """Without HOME and an entry in the passwd database, expanduser does not replace ``~``."""
    (tmp_path / "tmp").mkdir()
    caller = "import pwd\ndef getpwuid(uid): raise KeyError(uid)\npwd.getpwuid = getpwuid\n" + CALLER
    (sources / "caller.py").write_text(caller)
    run(TMPDIR=str(tmp_path / "tmp"), HOME=None)
    assert sorted(path.name for path in sources.iterdir()) == ["caller.py", "inner.py"]
    assert _machine_code(tmp_path) == _machine_code(tmp_path / "tmp" / f"stateproc-{os.geteuid()}") != []


def _chosen_root(monkeypatch: pytest.MonkeyPatch, chosen: Path | str, fallback: Path) -> tuple[Path | None, list[str]]:
    """Return the root chosen with STATEPROC_CACHE_DIR, and the warnings."""
    monkeypatch.setenv("STATEPROC_CACHE_DIR", str(chosen))
    monkeypatch.setenv("XDG_CACHE_HOME", str(fallback))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return kernel_cache._cache_root.__wrapped__(), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_can_write_is_refused(mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    root, warned = _chosen_root(monkeypatch, shared, tmp_path / "own")
    assert root == tmp_path / "own" / "stateproc"
    assert warned == [
        f"{shared} can be written by other users: compiled kernels are cached in {root} instead. "
        "Set STATEPROC_CACHE_DIR to a directory of your own with mode 0700."
    ]
    assert list(shared.iterdir()) == []


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    monkeypatch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
    root, warned = _chosen_root(monkeypatch, theirs, tmp_path / "own")
    assert root == tmp_path / "own" / "stateproc"
    assert len(warned) == 1 and warned[0].startswith(f"{theirs} belongs to another user: ")


def test_a_link_a_file_and_a_relative_path_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    for chosen, reason in (
        (tmp_path / "link", "is not a directory"),
        (tmp_path / "file", "is not a directory"),
        ("~/cache", "is not an absolute path"),
        (tmp_path / "file" / "cache", "cannot be written (File exists)"),
    ):
        root, warned = _chosen_root(monkeypatch, chosen, tmp_path / "own")
        assert root == tmp_path / "own" / "stateproc"
        assert len(warned) == 1 and warned[0].startswith(f"{chosen} {reason}: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link", "own"]


@pytest.mark.exhaustive
def test_without_a_safe_folder_kernels_are_compiled_without_a_cache(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tmp" / f"stateproc-{os.geteuid()}").mkdir(parents=True)
    (tmp_path / "tmp" / f"stateproc-{os.geteuid()}").chmod(0o777)
    assert run(TMPDIR=str(tmp_path / "tmp"), HOME="") == ["22", "0"]
    assert run(TMPDIR=str(tmp_path / "tmp"), HOME="") == ["22", "0"]
    assert _machine_code(tmp_path) == []


def test_machine_code_of_old_sources_is_removed_after_a_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cache"
    monkeypatch.setattr(kernel_cache, "_cache_root", lambda: root)
    root.mkdir(mode=0o700)
    for name in ("0" * 32, "1" * 32, "something else"):
        (root / name).mkdir()
    for name in ("0" * 32, "something else"):
        os.utime(root / name, (0, 0))
    folder = kernel_cache.cache_folder(tmp_path)
    assert folder is not None
    assert sorted(path.name for path in root.iterdir()) == sorted(["1" * 32, "something else", folder.name])


def test_a_column_at_its_limit_is_not_grown_endlessly() -> None:
    from stateproc.codec.machine import Columns

    columns = Columns(1)
    columns.table[0, 2] = Columns.LIMIT
    assert not columns.grow(0, 16)


def test_every_file_with_kernels_is_hashed(tmp_path: Path) -> None:
    codec = Path(kernel_cache.__file__).parents[1]
    with_kernels = {
        path.relative_to(codec).as_posix()
        for path in codec.rglob("*.py")
        if {"@kernel", "@inlined", "@exported"} & set(path.read_text("utf-8").splitlines())
    }
    files = kernel_cache.kernel_files(tmp_path)
    assert {"vm/dispatch.py", "encoding/kernels.py", "vm/column_buffers.py"} <= with_kernels <= files.keys()
    assert "ops.py" in files and "layouts/base.py" not in files


def test_kernels_use_only_files_that_the_cache_depends_on() -> None:
    """A kernel may import only from files in its own folder or the codec that are hashed into the cache's name."""
    project = Path(kernel_cache.__file__).parents[3]
    codec = {f"stateproc.codec.{Path(name).with_suffix('').as_posix().replace('/', '.')}" for name in _codec_files()}
    outside = []
    for path in [file for part in ("stateproc", "readers", "writers") for file in (project / part).rglob("*.py")]:
        folder = path.parent.relative_to(project).as_posix().replace("/", ".")
        package = folder if folder.startswith("stateproc") else f"stateproc.{folder}"
        for name in _names_used_by_kernels(path):
            module = name if name in codec else name.rpartition(".")[0]
            if name.startswith("stateproc.") and module not in codec and module.rpartition(".")[0] != package:
                outside.append(f"{path}: {name}")
    assert outside == []


def _codec_files() -> list[str]:
    return list(kernel_cache.kernel_files(Path(kernel_cache.__file__).parents[1]))


def _names_used_by_kernels(path: Path) -> set[str]:
    """Return the dotted imported names that the kernels of a file use."""
    source = path.read_text("utf-8")
    if not kernel_cache.declares_kernels(source.encode()):
        return set()
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    kernels = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(
            isinstance(one, ast.Name) and one.id in ("kernel", "inlined", "exported") for one in node.decorator_list
        )
    ]
    names = {
        node.id for kernel in kernels for body in kernel.body for node in ast.walk(body) if isinstance(node, ast.Name)
    }
    return {imported[name] for name in names & imported.keys()}
