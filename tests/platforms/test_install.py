"""Installing into an empty environment, from an sdist, a git tree and a wheel: each has compiled kernels in the end.

As in a container: no environment variable but PATH and those of pip, no HOME, no compiler; pip builds in isolation,
with what it has downloaded before. One kernel library is compiled, from the sdist, and serves the others.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from stateproc.codec.native.file_names import library_name
from tests.helpers.paths import ROOT
from tools.source_links import LINKS

SOURCES = (
    *("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "pyspark_savepoint.py"),
    *("stateproc", "readers", "writers", "notebooks", "tools"),
    *(os.path.normpath(os.path.join(os.path.dirname(name), target)) for name, target in LINKS.items()),
)
CPU_SECONDS = 4.0
"""What the first ``stateproc demo`` may take; docs/install.md has the measured time. Compiling takes 25 s and more."""


def _run(*command: object, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository of the sources as they are now, with their links."""
    folder = tmp_path_factory.mktemp("repository")
    listed = _run("git", "ls-files", "-co", "--exclude-standard", "-z", "--", *SOURCES, folder=ROOT)
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    git = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main")
    for arguments in (["init"], ["add", "--all"], ["commit", "--message", "sources"]):
        _run(*git, *arguments, folder=folder)
    return folder


class Container:
    """An empty virtual environment, and what runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        self._temporary = folder / "tmp"
        for path in (self._temporary, folder / "bin"):
            path.mkdir()
        git = shutil.which("git")
        assert git
        (folder / "bin" / "git").symlink_to(git)
        _run(sys.executable, "-m", "venv", folder / "venv", folder=folder)
        pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        cache = _run(sys.executable, "-m", "pip", "cache", "dir", folder=folder).strip()
        self._pip = {**pip, "PATH": str(folder / "bin"), "PIP_CACHE_DIR": cache}

    def pip(self, *arguments: object, built_kernels: Path | None = None) -> None:
        more = {"STATEPROC_BUILT_KERNELS": str(built_kernels)} if built_kernels else {}
        command = (self.python, "-m", "pip", "--disable-pip-version-check", *arguments)
        _run(*command, folder=self.folder, environment={**self._pip, **more})

    def demo(self) -> float:
        """Run `stateproc demo` for the first time; return the seconds of CPU that it takes."""
        shutil.rmtree(self._temporary)
        self._temporary.mkdir()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        program = self.folder / "venv" / "bin" / "stateproc"
        environment = {"PATH": str(self.folder / "bin"), "TMPDIR": str(self._temporary)}
        assert "Your turn: " in _run(program, "demo", folder=self.folder, environment=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert list(self._temporary.iterdir()) == []
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    @property
    def packages(self) -> Path:
        (packages,) = (self.folder / "venv" / "lib").glob("python*/site-packages")
        return packages


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Container:
    return Container(tmp_path_factory.mktemp("container"))


@pytest.fixture(scope="module")
def built_kernels(repository: Path, container: Container) -> Path:
    """The folder of the library that pip has compiled when it installed the sdist."""
    program = "import sys; from tools.build_backend import build_sdist; build_sdist(sys.argv[1])"
    _run(sys.executable, "-c", program, container.folder, folder=repository)
    (sdist,) = container.folder.glob("*.tar.gz")
    container.pip("install", sdist)
    folder = container.folder / "kernels"
    folder.mkdir()
    shutil.copy(container.packages / "stateproc" / "codec" / library_name(), folder)
    return folder


def test_from_an_sdist(built_kernels: Path, container: Container) -> None:
    assert container.demo() <= CPU_SECONDS
    installed = sum(path.lstat().st_size for path in container.packages.rglob("*"))
    assert installed <= 400 << 20, installed


@pytest.fixture(scope="module")
def wheel(repository: Path, built_kernels: Path, container: Container) -> Path:
    source = f"git+file://{repository}"
    folder = container.folder / "wheel"
    container.pip("wheel", "--no-deps", "--wheel-dir", folder, source, built_kernels=built_kernels)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_from_git_and_from_the_wheel_that_pip_makes_of_it(wheel: Path, container: Container) -> None:
    assert "-py3-none-manylinux_2_17_" in wheel.name and "musllinux_1_1_" in wheel.name
    container.pip("install", "--no-deps", "--force-reinstall", wheel)
    assert container.demo() <= CPU_SECONDS


def _content(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as content:
        return {item.filename: item.CRC for item in content.infolist()}


def test_from_a_checkout_with_text_files_for_links(
    repository: Path, built_kernels: Path, wheel: Path, container: Container, tmp_path: Path
) -> None:
    """As git makes it on Windows."""
    clone = tmp_path / "clone"
    _run("git", "clone", "-c", "core.symlinks=false", repository, clone, folder=tmp_path)
    assert (clone / "stateproc" / "readers").read_text() == "../readers"
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    _run(*pip, clone, folder=tmp_path, environment={**os.environ, "STATEPROC_BUILT_KERNELS": str(built_kernels)})
    (made,) = tmp_path.glob("*.whl")
    assert made.name == wheel.name
    assert _content(made) == _content(wheel)


def test_an_editable_install(repository: Path, built_kernels: Path, container: Container) -> None:
    container.pip("install", "setuptools>=77")
    arguments = ("install", "--no-deps", "--no-build-isolation", "--editable", repository)
    container.pip(*arguments, built_kernels=built_kernels)
    assert (repository / "stateproc" / "codec" / library_name()).is_file()
    assert container.demo() <= CPU_SECONDS
    program = "import stateproc; print(stateproc.__file__)"
    where = _run(container.python, "-c", program, folder=container.folder, environment={})
    assert where == f"{repository / 'stateproc' / '__init__.py'}\n"
