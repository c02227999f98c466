"""The wheel: it contains the compiled kernels, and the first read from it compiles nothing and writes nothing."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers.kernel_library import require_library
from tests.helpers.paths import FIXTURES, ROOT

SOURCES = (
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "pyspark_savepoint.py",
    "stateproc",
    "notebooks",
    "tools",
)
MEGABYTES = 90
"""What the first read of the demo may take at its peak, without pages of files: 70 MB measured.

Pages of libraries come on top, 61 to 86 MB of the same libraries, depending on how the file system caches them.
"""

MEASURED = """
import json, sys
from stateproc.cli import main
status = main(sys.argv[1:])
sizes = {line.split()[0]: int(line.split()[1]) for line in open("/proc/self/status") if line.endswith("kB\\n")}
imports_more = bool({"numba", "pandas"} & set(sys.modules))
print(json.dumps([status, imports_more, (sizes["VmHWM:"] - sizes["RssFile:"]) // 1024]), file=sys.stderr)
"""
"""Not ru_maxrss, which begins with the memory of the process that starts this one."""


def _wheel(folder: Path, platform: str = "") -> Path:
    """Build a wheel from a copy of the sources, for this platform or another."""
    sources = folder / "sources"
    sources.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, sources / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, "."]
    environment = {**os.environ, "STATEPROC_WHEEL_PLATFORM": platform}
    done = subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_library()
    return _wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_is_for_one_platform_and_every_python(wheel: Path) -> None:
    machine = platform.machine()
    assert wheel.name.endswith(f"-py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    libraries = [name for name in names if name.endswith(".so")]
    assert libraries == [f"stateproc/codec/kernels-linux-{machine}.so"]
    assert {"stateproc/readers/__init__.py", "stateproc/writers/__init__.py", "pyspark_savepoint.py"} <= set(names)
    assert not [name for name in names if name.startswith(("tools/", "tests/", "build/"))]


@pytest.mark.parametrize(
    "command", [["read", "--uid", "orders-per-customer"], ["inspect"]], ids=lambda command: command[0]
)
def test_the_first_run_compiles_and_writes_nothing(wheel: Path, command: list[str], tmp_path: Path) -> None:
    """Read-only packages, no HOME, empty caches: as in a container."""
    packages, temporary = tmp_path / "packages", tmp_path / "tmp"
    temporary.mkdir()
    with zipfile.ZipFile(wheel) as content:
        content.extractall(packages)
    for path in (packages, *packages.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(packages), "TMPDIR": str(temporary)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    snapshot = str(FIXTURES / "1.20/demo/snapshot")
    program = [sys.executable, "-c", MEASURED, command[0], snapshot, *command[1:]]
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    status, imports_more, peak = json.loads(done.stderr.splitlines()[-1])
    assert (status, imports_more) == (0, False)
    assert peak <= MEGABYTES
    assert list(temporary.iterdir()) == []
    assert len(done.stdout.splitlines()) > 20


def test_demo_and_notebooks_come_with_the_package(wheel: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(packages)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(packages)}
    for arguments, answer in ((["demo"], "154.25"), (["notebook", "look"], "look/inspect.ipynb")):
        command = [sys.executable, "-m", "stateproc", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert answer in done.stdout
    assert (tmp_path / "look/snapshots/checkpoints/chk-7/_metadata").is_file()


def test_for_a_platform_without_a_library_the_wheel_is_pure(tmp_path: Path) -> None:
    pure = _wheel(tmp_path, "freebsd14-x86_64")
    assert pure.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(pure) as content:
        assert not [name for name in content.namelist() if name.endswith(".so")]
