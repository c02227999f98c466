"""Two processes that take their steps in an order that a test gives."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stateproc.errors import SnapshotError
from stateproc.storage.store import StorePath
from tests.helpers.writers.write_steps import look_of, step_of

Gate = Callable[[], None]
"""Waits for this process's turn; called before each step."""

REFUSED = 3
"""How a process ends whose error says what to do."""

_CALLS = frozenset({"info", "ls", "exists", "open", "cat_file", "pipe_file", "mv", "rm_file", "makedirs", "rmdir"})


class _Child:
    """A process that waits before each of its steps."""

    def __init__(self, body: Callable[[Gate], None]) -> None:
        (self._asked, asking), (going, self._go) = os.pipe(), os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                os.close(self._asked), os.close(self._go)
                code = _run(body, asking, going)
            finally:
                os._exit(code)
        os.close(asking), os.close(going)
        self.steps, self._waits = 0, False

    def advance(self, steps: int | None) -> None:
        """Let it take some steps; None: all that are left."""
        while (steps is None or steps > 0) and self._is_waiting():
            os.write(self._go, b"g")
            self._waits = False
            self.steps += 1
            steps = None if steps is None else steps - 1
        # The last step is over when the next one is asked for.
        self._is_waiting()

    def _is_waiting(self) -> bool:
        self._waits = self._waits or os.read(self._asked, 1) == b"a"
        return self._waits

    def ended(self) -> int:
        self.advance(None)
        os.close(self._asked), os.close(self._go)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _run(body: Callable[[Gate], None], asking: int, going: int) -> int:
    one = threading.Lock()

    def gate() -> None:
        with one:
            os.write(asking, b"a")
            os.read(going, 1)

    try:
        body(gate)
    except SnapshotError as error:
        return REFUSED if error.advice else 1
    return 0


def interleaved(bodies: Sequence[Callable[[Gate], None]], turns: Sequence[tuple[int, int | None]]) -> list[int]:
    """Run processes by turns, each the number of a process and of steps (None: until it ends); how they ended."""
    children = [_Child(body) for body in bodies]
    for child, steps in turns:
        children[child].advance(steps)
    return [child.ended() for child in children]


def steps_of(body: Callable[[Gate], None]) -> int:
    """How many steps a process takes that meets no other."""
    child = _Child(body)
    assert child.ended() == 0
    return child.steps


def in_a_process(check: Callable[[], None]) -> None:
    """Run a check in a process of its own: clients of stores with threads, as HDFS's, do not survive a fork."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            check()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def local_steps(target: Path, gate: Gate) -> None:
    """Call the gate before each step of this process on local files."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if step_of(event, arguments, str(target)) or look_of(event, arguments, str(target)):
            gate()

    sys.addaudithook(hook)


def store_steps(target: str, gate: Gate) -> None:
    """Call the gate before each call of this process to a store by fsspec."""
    real, seen = StorePath.filesystem, set()

    def gated(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            gate()
            return inner(*arguments, **named)

        return call

    def filesystem(path: StorePath) -> tuple[Any, str]:
        fs, name = real(path)
        if path.uri.startswith(target) and id(fs) not in seen:
            seen.add(id(fs))
            for call in _CALLS:
                setattr(fs, call, gated(getattr(fs, call)))
        return fs, name

    StorePath.filesystem = filesystem  # type: ignore[method-assign]
