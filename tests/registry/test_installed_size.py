"""A plain installation from the registry stays small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from tests.helpers.paths import ROOT

MEGABYTES = 320
"""Of the environment on disk, pip and compiled Python included; with numba, pandas, DuckDB and sqlglot it had 617."""


def test_an_environment_with_the_package_is_small(tmp_path: Path) -> None:
    fitting = set(sys_tags())
    (wheel,) = [path for path in (ROOT / "dist").glob("*.whl") if parse_wheel_filename(path.name)[3] & fitting]
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    size = sum(path.lstat().st_blocks * 512 for path in (tmp_path / "venv").rglob("*"))
    assert size <= MEGABYTES << 20, f"{size >> 20} MB"
    # Without any extra: a key is read, the kernels are those of the wheel.
    done = subprocess.run(
        [python, "-m", "stateproc", "demo"], capture_output=True, text=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0 and "stateproc[sql]" in done.stdout, done.stdout + done.stderr
