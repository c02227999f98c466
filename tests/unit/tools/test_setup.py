"""What setup.py does where the packages that build the kernels are not installed yet."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.paths import ROOT

CODE = """
import importlib.util, runpy, setuptools

found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *given: None if name == "numpy" else found(name, *given)
setuptools.setup = lambda **_: None
runpy.run_path("setup.py")["build_library"]()
"""


def test_without_numpy_it_says_so_and_goes_on() -> None:
    """An editable install without build isolation: pip installs dependencies after it."""
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == "no kernel library yet: NumPy is not installed\n"
