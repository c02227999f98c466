"""Build a wheel with the kernels compiled ahead of time, where numba and a C compiler are there; else a pure one.

Everything else about the project is in pyproject.toml.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

MACHINE = os.environ.get("STATEPROC_WHEEL_MACHINE") or platform.machine()
"""The machine that the wheel is for, if not this one: ``aarch64`` or ``x86_64``."""


class KernelDistribution(Distribution):
    """A distribution that has machine code if the kernel library can be built."""

    @cached_property
    def kernel_library(self) -> Path | None:
        """The library, built when it is first asked for."""
        if find_spec("numba") is None:
            print("no kernel library: numba is not installed where the wheel is built (see --no-build-isolation)")
            return None
        folder = Path("build", "kernels").absolute()
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        tool = [sys.executable, "-m", "tools.kernel_library", "--reuse"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        subprocess.run([*tool, "--machine", MACHINE, "--folder", str(folder)], check=True, env=environment)
        return next(folder.iterdir(), None)

    def has_ext_modules(self) -> bool:
        """Whether the distribution is of one platform: only a wheel is, not an editable install."""
        return "bdist_wheel" in self.commands and self.kernel_library is not None


class BuildWithKernels(build_py):
    """Add the kernel library; leave out the outputs of notebooks, which are run where they are used."""

    def run(self) -> None:
        super().run()
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
            # The library needs nothing of a certain C library; 2_17 is the oldest that pip takes.
            return "py3", "none", f"manylinux_2_17_{MACHINE}"
        return super().get_tag()


setup(distclass=KernelDistribution, cmdclass={"build_py": BuildWithKernels, "bdist_wheel": PlatformWheel})
