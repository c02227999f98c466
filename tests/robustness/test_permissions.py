"""Files that may not be read: named, with what to do, and hiding no other."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import AccessDenied, MissingFile
from tests.helpers.paths import FIXTURES

SNAPSHOT = FIXTURES / "1.20/operators-hashmap-canonical/snapshot"
_NOBODY = 65534


@pytest.fixture
def copy() -> Iterator[Path]:
    """A copy that everyone may read, outside of pytest's own directories."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    copy = Path(shutil.copytree(SNAPSHOT, folder / "snapshot"))
    copy.chmod(0o755)
    for file in copy.iterdir():
        file.chmod(0o644)
    # Nobody may not import either, where Python is root's own.
    for operator in stateproc.open(str(copy)).operators:
        _ = operator.problems, operator.states
    with pytest.raises(MissingFile):
        stateproc.open(str(copy / "none"))
    yield copy
    shutil.rmtree(folder)


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Root may read everything; nobody may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_metadata_file_that_may_not_be_read(copy: Path) -> None:
    (copy / "_metadata").chmod(0)
    with _as_nobody(), pytest.raises(AccessDenied) as caught:
        stateproc.open(str(copy))
    assert str(copy / "_metadata") in str(caught.value)
    assert "access denied" in str(caught.value)
    assert "ermission" in str(caught.value)
    assert caught.value.advice


def test_a_state_file_that_may_not_be_read_hides_no_other(copy: Path) -> None:
    locked = sorted(item for item in copy.iterdir() if item.name != "_metadata")[0]
    locked.chmod(0)
    with _as_nobody():
        opened = stateproc.open(str(copy))
        problems = [problem for operator in opened.operators for problem in operator.problems]
        states = opened.states
    assert [type(problem) for problem in problems] == [AccessDenied]
    assert locked.name in str(problems[0])
    assert "ermission" in str(problems[0])
    assert problems[0].advice
    assert states
