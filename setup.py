"""Build with the kernels compiled ahead of time, where numba and zig's linker are there; else without.

Everything else about the project is in pyproject.toml.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from tools.kernel_platforms import PLATFORMS, this_platform  # noqa: E402
from tools.source_links import restore_links  # noqa: E402

restore_links(HERE)

PLATFORM = os.environ.get("STATEPROC_WHEEL_PLATFORM") or this_platform()
"""The platform that the wheel is for, if not this one, by its name in ``tools/kernel_platforms.py``."""


def build_library(*arguments: str) -> None:
    """Run the tool that builds the library; it says what is missing, if anything is."""
    if importlib.util.find_spec("numpy") is None:
        # Without build isolation, and before pip installs dependencies: `make setup` builds the library afterwards.
        print("no kernel library yet: NumPy is not installed", file=sys.stderr)
        return
    # With pip's own path, on which it has put the packages that building needs.
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-m", "tools.kernel_library", "--reuse", *arguments], check=True, env=environment)


class KernelDistribution(Distribution):
    """A distribution that has machine code if the kernel library can be built."""

    @cached_property
    def kernel_library(self) -> Path | None:
        """The library, built when it is first asked for."""
        folder = Path("build", "kernels").absolute()
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        build_library("--platform", PLATFORM, "--folder", str(folder))
        return next(folder.iterdir(), None)

    def has_ext_modules(self) -> bool:
        """Whether the distribution is of one platform: only a wheel is, not an editable install."""
        return "bdist_wheel" in self.commands and self.kernel_library is not None


class BuildWithKernels(build_py):
    """Add the kernel library; leave out the outputs of notebooks, which are run where they are used."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            build_library()
            return
        for path in Path(self.build_lib, "stateproc", "demo", "notebooks").glob("*.ipynb"):
            notebook = json.loads(path.read_text(encoding="utf-8"))
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    cell.update(outputs=[], execution_count=None)
            path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1), encoding="utf-8")
        if self.distribution.has_ext_modules():
            library = self.distribution.kernel_library
            self.copy_file(str(library), str(Path(self.build_lib, "stateproc", "codec", library.name)))


class PlatformWheel(bdist_wheel):
    """Tag the wheel by its platform, for every Python 3: the library knows nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        if self.distribution.has_ext_modules():
            return "py3", "none", PLATFORMS[PLATFORM].wheel_tag
        return super().get_tag()


setup(distclass=KernelDistribution, cmdclass={"build_py": BuildWithKernels, "bdist_wheel": PlatformWheel})
