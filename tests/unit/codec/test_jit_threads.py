"""First calls of kernels by several threads at the same time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.numba_process import NumbaProcess
from tests.helpers.paths import python_environment

INNER = """
from stateproc.codec.native.jit import kernel

@kernel
def number(n):
    return n + 10
"""
CALLER = """
import numpy as np
from inner import number
from stateproc.codec.native.jit import kernel, load_u8

@kernel
def twice(n):
    return 2 * number(n) + _one(n)

@kernel
def _one(n):
    return load_u8(n) * 0 + 1 if n > 1000 else 1
"""
LATE = """
from stateproc.codec.native.jit import kernel, load_u8
ARRIVED.set()
GO_ON.wait(60)

@kernel
def first_byte(at):
    return load_u8(at)
"""
START = """
import builtins, sys, threading, time
import numpy as np
import stateproc.codec.native.jit as jit
results, failures = [], []

def start(action):
    def run():
        try:
            results.append(action())
        except BaseException as error:
            failures.append(repr(error)[:300])
    thread = threading.Thread(target=run)
    thread.start()
    return thread
"""


@pytest.fixture(scope="module")
def numba_process() -> Iterator[NumbaProcess]:
    with NumbaProcess() as process:
        yield process


def _written(folder: Path, program: str) -> tuple[Path, dict[str, str]]:
    """Write a program and the modules that it imports; return its path and its environment."""
    for name, text in (("inner", INNER), ("caller", CALLER), ("late", LATE), ("program", START + program)):
        (folder / f"{name}.py").write_text(text)
    return folder / "program.py", python_environment({"STATEPROC_CACHE_DIR": str(folder / "cache")})


def _run(folder: Path, program: str, process: NumbaProcess) -> str:
    return process.run(*_written(folder, program)).strip()


@pytest.mark.exhaustive
def test_threads_that_compile_wait_for_kernels_that_others_declare_to_numba(
    numba_process: NumbaProcess, tmp_path: Path
) -> None:
    """Two threads call kernels with a common callee, which is slow to be declared; neither waits for ever."""
    program = """
import caller
compiled = jit._compiled
def slowly(function, inline):
    time.sleep(0.5 if function.__name__ == "_one" else 0)
    return compiled(function, inline)
jit._compiled = slowly
threads = [start(lambda: caller.twice(1)), start(lambda: caller._one(1)), start(lambda: caller.twice(1))]
[thread.join(60) for thread in threads]
print(sorted(results), failures)
"""
    assert _run(tmp_path, program, numba_process) == "[1, 23, 23] []"


@pytest.mark.exhaustive
def test_a_module_may_be_imported_while_kernels_are_compiled(numba_process: NumbaProcess, tmp_path: Path) -> None:
    """The module imports functions from jit before another thread compiles, and declares its kernel afterwards."""
    program = """
import caller
builtins.ARRIVED, builtins.GO_ON = threading.Event(), threading.Event()
def import_and_call():
    import late
    data = np.array([7], dtype=np.uint8)
    return int(late.first_byte(data.ctypes.data))
thread = start(import_and_call)
ARRIVED.wait(60)
assert caller.twice(1) == 23
GO_ON.set()
thread.join()
print(results, failures)
"""
    assert _run(tmp_path, program, numba_process) == "[7] []"


@pytest.mark.exhaustive
def test_many_threads_call_different_kernels_first(tmp_path: Path) -> None:
    """They also import numba at the same time."""
    program = """
import caller, inner
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(8)
def call(kernel):
    barrier.wait()
    return int(kernel(1))
kernels = [lambda n: caller.twice(n), lambda n: inner.number(n)] * 4
threads = [start(lambda kernel=kernel: call(kernel)) for kernel in kernels]
[thread.join() for thread in threads]
print(sorted(results), failures)
"""
    path, environment = _written(tmp_path, program)
    command = [sys.executable, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[11, 11, 11, 11, 23, 23, 23, 23] []"


@pytest.mark.exhaustive
def test_a_failed_start_is_tried_again(numba_process: NumbaProcess, tmp_path: Path) -> None:
    """An import of numba that fails leaves kernels that work once it succeeds."""
    program = """
import caller
numba, sys.modules["numba"] = sys.modules["numba"], None
try:
    caller.twice(1)
except ImportError:
    print("refused", end=" ")
sys.modules["numba"] = numba
print(caller.twice(1))
"""
    assert _run(tmp_path, program, numba_process) == "refused 23"
