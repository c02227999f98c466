"""Damaged, truncated or missing files of Flink's checkpoints: a typed error with its location, never fewer rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import CorruptSnapshot, MissingFile, SnapshotError
from stateproc.metadata.keyed_handles import ChangelogHandle, FileChangelogHandle, IncrementalHandle
from stateproc.model.state import State
from stateproc.readers.rocksdb import DatabaseFile, database_files, family_files, open_table
from stateproc.readers.rocksdb.format import TRAILER_SIZE
from tests.helpers.paths import FIXTURES
from tests.helpers.sweeps import exhaustive, sweep

STATES = ("profile", "products", "spent")


@pytest.fixture(
    params=[
        "1.9/tiny-rocksdb-incremental",
        exhaustive("1.20/kitchen-rocksdb-incremental"),
        "2.3/kitchen-rocksdb-incremental",
    ]
)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of an incremental checkpoint that Flink wrote."""
    shutil.copytree(FIXTURES / request.param / "snapshot", tmp_path / "snapshot")
    return tmp_path / "snapshot"


def states(path: Path) -> Iterator[State]:
    for operator in stateproc.open(str(path)).operators:
        yield from (state for state in operator.keyed_states if state.name in STATES)


def tables(path: Path, state: State) -> Iterator[DatabaseFile]:
    """Yield the tables of a state that the MANIFESTs list."""
    snapshot = stateproc.open(str(path))
    for file in snapshot.operator(state.operator.operator_id).keyed_files:
        assert isinstance(file.handle, IncrementalHandle)
        files = database_files(file.handle, snapshot.location)
        live = {sst.source.name for sst in family_files(files, state.name)}
        yield from (item for item in files if item.source.name in live)


def refused(path: Path, state: State, kind: type[SnapshotError] = CorruptSnapshot) -> SnapshotError:
    """Return the error of reading the state, which has to name the state."""
    operator = stateproc.open(str(path)).operator(state.operator.operator_id)
    with pytest.raises(kind) as caught:
        operator.state(state.name).to_arrow()
    assert caught.value.where.state == state.name
    assert caught.value.advice
    return caught.value


def stored(file: DatabaseFile) -> Path:
    file.source.read(0, 1)
    return Path(file.source.name)


def test_a_flipped_bit_in_any_block_names_file_and_block(checkpoint: Path) -> None:
    tried = 0
    for state in states(checkpoint):
        for file in tables(checkpoint, state):
            path, index = stored(file), open_table(file.source).index()
            good = path.read_bytes()
            for offset, size in zip(index.offsets.tolist(), index.sizes.tolist(), strict=True):
                # In the block, in its compression type byte, in its checksum.
                for at in (offset, offset + size // 2, offset + size, offset + size + TRAILER_SIZE - 1):
                    path.write_bytes(good[:at] + bytes([good[at] ^ 0x20]) + good[at + 1 :])
                    error = refused(checkpoint, state)
                    assert (error.where.file, error.where.offset) == (str(path), offset)
                    assert "checksum" in error.message
                    tried += 1
            path.write_bytes(good)
    assert tried >= 12


def test_a_truncated_or_replaced_table_is_refused(checkpoint: Path) -> None:
    for state in states(checkpoint):
        for file in tables(checkpoint, state):
            path = stored(file)
            good = path.read_bytes()
            for size in (0, 1, len(good) // 2, len(good) - 1):
                path.write_bytes(good[:size])
                error = refused(checkpoint, state)
                assert (error.where.file, error.where.offset) == (str(path), size)
            path.write_bytes(bytes(len(good)))
            error = refused(checkpoint, state)
            assert error.where.file == str(path) and error.where.offset is not None
            path.write_bytes(good)


def test_a_missing_file_of_the_database_is_named(checkpoint: Path) -> None:
    for state in states(checkpoint):
        whole = state.to_arrow()
        snapshot = stateproc.open(str(checkpoint))
        (keyed,) = snapshot.operator(state.operator.operator_id).keyed_files
        assert isinstance(keyed.handle, IncrementalHandle)
        manifest = [
            item
            for item in database_files(keyed.handle, snapshot.location)
            if item.name.startswith("MANIFEST-") or item.name == "CURRENT"
        ]
        for file in (*tables(checkpoint, state), *manifest):
            if not hasattr(file.source, "uri"):
                continue  # stored inline in _metadata
            path = stored(file)
            path.rename(path.with_suffix(".away"))
            error = refused(checkpoint, state, MissingFile)
            assert Path(str(error.where.file)).name == path.name
            path.with_suffix(".away").rename(path)
        assert stateproc.open(str(checkpoint)).state(state.operator.operator_id, state.name).to_arrow() == whole


def test_a_file_deleted_after_planning_is_named(checkpoint: Path) -> None:
    state = next(iter(states(checkpoint)))
    splits = state.splits()
    path = stored(next(iter(tables(checkpoint, state))))
    path.unlink()
    with pytest.raises(MissingFile) as caught:
        _ = [list(split.read()) for split in splits]
    assert Path(str(caught.value.where.file)).name == path.name


# --- changelogs ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["1.20/tiny-hashmap-changelog", "1.20/chain-changelog-never", "2.3/chain-changelog"])
def changelog(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of a checkpoint whose changelog is stored in files, with the directories that it refers to."""
    shutil.copytree(FIXTURES / request.param / "snapshot", tmp_path / "snapshot")
    found = sorted(tmp_path.glob("snapshot/*/chk-*"))
    return next(path for path in reversed(found) if segments(path))


def segments(path: Path) -> set[str]:
    """Return the names of the changelog's files."""
    found = set()
    for operator in stateproc.open(str(path)).operators:
        for file in operator.keyed_files:
            if isinstance(file.handle, ChangelogHandle):
                for part in file.handle.non_materialized:
                    assert isinstance(part, FileChangelogHandle)
                    found |= {Path(stream.path).name for _, stream in part.segments}  # type: ignore[union-attr]
    return found


def logs(path: Path) -> list[Path]:
    """Return the changelog's files."""
    names = segments(path)
    found = sorted(file for file in path.parent.rglob("*") if file.name in names)
    assert len(found) == len(names) > 0
    return found


def outcomes(path: Path) -> dict[tuple[str, str], object]:
    """Return the rows of every state, or the error."""
    found: dict[tuple[str, str], object] = {}
    for operator in stateproc.open(str(path)).operators:
        for error in operator.problems:
            found[operator.operator_id, "header"] = error
        for state in operator.keyed_states:
            try:
                found[operator.operator_id, state.name] = state.to_arrow().to_pylist()
            except SnapshotError as error:
                found[operator.operator_id, state.name] = error
    return found


@pytest.mark.parametrize("remainders", sweep(4), ids=str)
def test_every_truncation_of_a_segment_is_reported_with_file_and_offset(changelog: Path, remainders: range) -> None:
    whole = outcomes(changelog)
    assert whole and not any(isinstance(item, SnapshotError) for item in whole.values())
    reported = 0
    chosen = [log for at, log in enumerate(logs(changelog)) if at % 4 in remainders]
    for log in chosen:
        good = log.read_bytes()
        for size in [*range(0, len(good), max(1, len(good) // 6)), len(good) - 1]:
            log.write_bytes(good[:size])
            found = outcomes(changelog)
            for state, item in found.items():
                if isinstance(item, SnapshotError):
                    assert item.where.file is not None and Path(item.where.file).name == log.name
                    assert item.where.offset is not None
                    reported += 1
                else:
                    assert item == whole[state]
            assert any(isinstance(item, SnapshotError) for item in found.values()), size
        log.write_bytes(good)
    assert bool(reported) == bool(chosen)


def test_a_missing_segment_is_named(changelog: Path) -> None:
    for log in logs(changelog):
        log.rename(log.with_suffix(".away"))
        errors = [item for item in outcomes(changelog).values() if isinstance(item, SnapshotError)]
        assert errors and all(isinstance(error, MissingFile) for error in errors)
        assert {Path(str(error.where.file)).name for error in errors} == {log.name}
        log.with_suffix(".away").rename(log)
