"""Machine code on disk: not taken for a kernel when another kernel that it calls has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CALLER = """
from inner import number
from stateproc.codec.jit import kernel

@kernel
def twice(n):
    return 2 * number(n)

print(twice(1), sum(twice.stats.cache_hits.values()))
"""
INNER = """
from stateproc.codec.jit import kernel

@kernel
def number(n):
    return n + {}
"""


def _run(folder: Path) -> list[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "caller.py"], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_changed_callee_is_compiled_into_its_callers(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "inner.py").write_text(INNER.format(10))
    assert _run(tmp_path) == ["22", "0"]
    assert _run(tmp_path) == ["22", "1"]
    (tmp_path / "inner.py").write_text(INNER.format(20))
    assert _run(tmp_path) == ["42", "0"]


def test_a_full_column_is_not_grown_for_ever() -> None:
    from stateproc.codec.columns import Columns

    columns = Columns(1)
    columns.table[0, 2] = Columns.LIMIT
    assert not columns.grow(0, 16)


def test_every_room_of_kernels_counts_wherever_the_caller_is(tmp_path: Path) -> None:
    from stateproc.codec import jit

    codec = Path(jit.__file__).parent
    with_kernels = {
        path.relative_to(codec).as_posix() for path in codec.rglob("*.py") if "\n@kernel\n" in path.read_text("utf-8")
    }
    files = jit.kernel_files(tmp_path)
    assert {"vm/dispatch.py", "encoding/kernels.py", "room.py"} <= with_kernels <= files.keys()
    assert "ops.py" in files and "layouts/base.py" not in files
