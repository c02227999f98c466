"""Replays of logs that are larger than the memory that one replay may take."""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import stateproc
from tests.helpers.byte_builders.changelog import (
    SET,
    STRING,
    change,
    declared,
    empty_materialized,
    fstr,
    log_file,
    opened,
    segment_content,
    state_info,
)
from tests.helpers.byte_builders.metadata import file, file_changelog

KEYS, GROUPS = 200_000, 16
FIRST, SECOND, CHANGED = "f" * 120, "s" * 120, "c" * 120
LOG_BYTES = 52 << 20
REPLAY_BYTES = 64 << 20
"""What one replay may take: 32 MB of changes while the log is read, then about as much for each run of key groups."""
COMPARED_BYTES = 36 << 20
"""What a comparison may take beside one replay: 16 MB of entries, and their copies in the order of their buckets."""


def _write(directory: Path, changed: range) -> None:
    """Write a changelog that sets each key twice, and some of them once more, each time in a file of its own."""
    directory.mkdir()
    segments = []
    for index, (keys, text) in enumerate(((range(KEYS), FIRST), (range(KEYS), SECOND), (changed, CHANGED))):
        value = fstr(text)
        changes = [change(SET, f"key {key}", value, group=key % GROUPS) for key in keys]
        content = segment_content([declared(0, state_info("s", "VALUE", STRING)), *changes])
        segments.append((0, file(log_file(directory / str(index), content), len(content))))
    assert sum(path.stat().st_size for path in directory.iterdir()) > LOG_BYTES
    opened(directory, [empty_materialized()], [file_changelog(13, segments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changelogs")
    _write(folder / "earlier", range(0))
    _write(folder / "later", range(0, KEYS, 100))
    return folder


@contextmanager
def _peak(most: int) -> Iterator[None]:
    """Assert that Python and numpy allocate at most so many bytes within the context."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak >> 20} MB"


@pytest.mark.slow
def test_a_log_larger_than_memory_is_replayed_in_bounded_memory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows: dict[str, int] = {}
    with _peak(REPLAY_BYTES):
        state = stateproc.open(str(folder / "later")).operators[0].state("s")
        for batch in state.batches(columns=["value"], threads=1):
            for counted in batch.column("value").value_counts():
                rows[counted["values"].as_py()] = rows.get(counted["values"].as_py(), 0) + counted["counts"].as_py()
    assert rows == {SECOND: KEYS - KEYS // 100, CHANGED: KEYS // 100}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_changelogs_are_compared_in_bounded_memory(folder: Path) -> None:
    earlier, later = (stateproc.open(str(folder / name)) for name in ("earlier", "later"))
    with _peak(REPLAY_BYTES + COMPARED_BYTES):
        found = earlier.diff(later, threads=1).counts
    assert (found.left, found.right, found.changed, found.equal) == (KEYS, KEYS, KEYS // 100, KEYS - KEYS // 100)
