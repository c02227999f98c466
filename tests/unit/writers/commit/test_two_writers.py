"""Processes that write to one directory at the same time: at most one completes, and what is there is whole."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import SnapshotError
from tests.helpers.paths import DEMO
from tests.helpers.writers.interleaved_writes import REFUSED, Gate, interleaved, local_steps, steps_of
from tests.helpers.writers.small_writes import contents, files, kept, write

ROUNDS = 12


def written_together(changes: Sequence[tuple[str, float]], target: Path, mode: str) -> list[int]:
    """Write in a process for each change, each after some seconds; return how they ended."""
    children = []
    begin = time.monotonic() + 0.05
    for change, later in changes:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                time.sleep(max(0, begin + later - time.monotonic()))
                try:
                    write(change, target, mode)
                    code = 0
                except SnapshotError as error:
                    code = REFUSED if error.advice else 1
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


@pytest.mark.processes
@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_of_two_writers_at_most_one_completes_and_nothing_is_mixed(mode: str, tmp_path: Path) -> None:
    source, wanted = files(Path(DEMO)), contents(Path(DEMO))
    ends: set[tuple[int, ...]] = set()
    for number in range(ROUNDS):
        target = tmp_path / str(number)
        # Later and later, so that they meet at other steps.
        ended = written_together([("copy", 0.0), ("rescale", 0.004 * number)], target, mode)
        ends.add(tuple(ended))
        assert set(ended) <= {0, REFUSED}, ended
        # Of those that replace what is there, one may begin after the other has ended.
        assert ended.count(0) <= (1 if mode == "error" else 2), ended
        if 0 in ended:
            assert contents(target) == wanted
            groups = {operator.max_parallelism for operator in stateproc.open(target).operators}
            assert ended.count(0) == 2 or (256 in groups) is (ended[1] == 0), (ended, groups)
        else:
            assert not (target / "_metadata").exists()
        assert files(Path(DEMO)) == source
        write("copy", target, "overwrite")
        assert contents(target) == wanted and set(os.listdir(target)) == kept(target)
    assert any(0 in ended for ended in ends), ends


def _writing(change: str, target: Path, mode: str, drawn: str = "") -> Callable[[Gate], None]:
    """A write; ``drawn``: how the names begin that it draws at random. Of two that have begun the greater goes on."""
    random = uuid.uuid4

    def body(gate: Gate) -> None:
        uuid.uuid4 = lambda: uuid.UUID(drawn + random().hex[len(drawn) :])
        local_steps(target, gate)
        write(change, target, mode)

    return body


@pytest.mark.processes
@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_two_writers_that_take_turns(mode: str, tmp_path: Path) -> None:
    """The first takes some steps, the second some, then one of them goes on to its end, then the other one."""
    wanted, changes = contents(Path(DEMO)), ("copy", "rescale")

    def begun(name: str) -> Path:
        target = tmp_path / name
        if mode == "overwrite":
            write("native-rocksdb", target, "error")
        return target

    counts = [steps_of(_writing(change, begun(f"counted-{change}"), mode)) for change in changes]
    assert min(counts) >= 8, counts
    ends: set[tuple[int, ...]] = set()
    for first in range(1, counts[0]):
        for second in range(1 + first % 4, counts[1], 4):
            target = begun(f"{first}-{second}")
            # One that has only begun is overtaken.
            earlier = second // 4 % 2 if first > 2 else 0
            drawn = ("0", "f") if (first + second // 4) % 2 else ("f", "0")
            bodies = [_writing(change, target, mode, name) for change, name in zip(changes, drawn, strict=True)]
            ended = interleaved(bodies, [(0, first), (1, second), (earlier, None)])
            ends.add(tuple(ended))
            order = (first, second, earlier, ended)
            assert set(ended) <= {0, REFUSED}, order
            assert ended.count(0) <= (1 if mode == "error" else 2), order
            if 0 in ended or mode == "overwrite":
                assert contents(target) == wanted, order
                assert not stateproc.open(target).verify().problems, order
                groups = {operator.max_parallelism for operator in stateproc.open(target).operators}
                if ended.count(0) == 1:
                    assert (256 in groups) is (changes[ended.index(0)] == "rescale"), order
                assert set(os.listdir(target)) == kept(target), order
            else:
                assert not target.exists() or not os.listdir(target), order
    assert (0, REFUSED) in ends and (REFUSED, 0) in ends, ends
