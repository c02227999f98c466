"""Run small programs with kernels in forks of one process that has imported numba.

Importing numba and preparing its first compilation takes 0.7 s, compiling a small kernel 0.05 s. Each program has an
environment, a working directory and output of its own, and a state of `stateproc` in which nothing has been compiled.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.helpers.paths import python_environment


class NumbaProcess:
    """A process that has imported numba and forks once per program; use it in a `with` statement."""

    def __enter__(self) -> NumbaProcess:
        self._folder = tempfile.TemporaryDirectory()
        # Programs import modules that tests rewrite within a second, which bytecode files do not notice.
        environment = python_environment({"PYTHONDONTWRITEBYTECODE": "1"})
        command = [sys.executable, "-c", "from tests.helpers.numba_process import serve; serve()"]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)
        self._folder.cleanup()

    def run(self, program: Path, environment: Mapping[str, str], *, stderr: str | None = None) -> str:
        """Run a program in its folder and return what it prints.

        Args:
            program: A Python file. It may import its neighbours.
            environment: All environment variables of the program.
            stderr: The path of a file to use for standard error; without it the program's errors are collected.

        Raises:
            AssertionError: The program failed; the message is its standard error.
        """
        output, errors = (Path(self._folder.name, name) for name in ("stdout", "stderr"))
        output.write_bytes(b"")
        errors.write_bytes(b"")
        job = {
            "program": str(program),
            "environment": dict(environment),
            "streams": [os.devnull, str(output), stderr or str(errors)],
        }
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        status = self._process.stdout.readline()
        assert status == "0\n", f"exit status {status!r}: {errors.read_text()}"
        return output.read_text()


def serve() -> None:
    """Fork for each job of standard input, and write its exit status to standard output."""
    import numba

    # What numba prepares for its first compilation serves all later ones.
    numba.njit(lambda number: number + 1)(1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(job: dict[str, Any]) -> None:
    """Run a job in this process and end it."""
    import numba

    status = 1
    try:
        for number, path in enumerate(job["streams"]):
            os.dup2(os.open(path, os.O_RDWR | os.O_NOCTTY), number)
        os.environ.clear()
        os.environ.update(job["environment"])
        numba.config.reload_config()
        tempfile.tempdir = None
        # With `python -c` the first entry of the import path is the working directory, whatever it is by then.
        os.chdir(os.path.dirname(job["program"]))
        runpy.run_path(job["program"], run_name="__main__")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
