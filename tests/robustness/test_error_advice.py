"""Errors about wrong paths, files and names say where the problem is and what to do."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

import stateproc
from stateproc.errors import CorruptSnapshot, InvalidOption, MissingFile, NotFound, SnapshotError, UnsupportedSnapshot
from tests.helpers.paths import FIXTURES

OPERATORS = FIXTURES / "1.20/operators-hashmap-canonical/snapshot"
TINY = FIXTURES / "1.20/tiny-hashmap-canonical-inline/snapshot"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OPERATORS, tmp_path / "savepoint-1"))


def _error(path: Path | str) -> SnapshotError:
    with pytest.raises(SnapshotError) as caught:
        stateproc.open(str(path))
    assert caught.value.advice, caught.value
    return caught.value


@pytest.mark.parametrize(
    ("content", "kind", "says"),
    [
        (b"", CorruptSnapshot, "never completed"),
        (b"hello, this is a text file\n", CorruptSnapshot, "4960672D"),
        (struct.pack(">IIq", 0x4960672D, 1, 0), UnsupportedSnapshot, "Flink 1.3 to 1.7"),
        (struct.pack(">IIq", 0x4960672D, 99, 0), UnsupportedSnapshot, "version 99"),
        (struct.pack(">IIq", 0x4960672E, 4, 0), CorruptSnapshot, "4960672D"),
    ],
)
def test_a_file_that_is_no_metadata_of_ours(tmp_path: Path, content: bytes, kind: type, says: str) -> None:
    (tmp_path / "_metadata").write_bytes(content)
    for path in (tmp_path, tmp_path / "_metadata"):
        error = _error(path)
        assert isinstance(error, kind)
        assert str(tmp_path / "_metadata") in str(error)
        assert says in str(error)
        assert error.where.offset in (0, 4)


def test_a_directory_without_metadata(tmp_path: Path) -> None:
    error = _error(tmp_path)
    assert isinstance(error, MissingFile)
    assert str(tmp_path) in str(error)
    assert "_metadata" in str(error)


def test_a_path_that_is_not_there_offers_the_nearest_sibling(snapshot: Path) -> None:
    error = _error(snapshot.parent / "savepoint-2")
    assert isinstance(error, MissingFile)
    assert "savepoint-2" in str(error)
    assert "savepoint-1" in (error.advice or "")


def test_a_missing_state_file_is_named_and_hides_no_other(snapshot: Path) -> None:
    whole = {state.name for state in stateproc.open(str(snapshot)).states}
    gone = sorted(item for item in snapshot.iterdir() if item.name != "_metadata")[0]
    gone.unlink()
    opened = stateproc.open(str(snapshot))
    problems = [problem for operator in opened.operators for problem in operator.problems]
    assert [type(problem) for problem in problems] == [MissingFile]
    assert gone.name in str(problems[0])
    assert "path_mapping" in (problems[0].advice or "")
    assert {state.name for state in opened.states} <= whole
    read = 0
    for state in opened.states:
        try:
            read += state.to_arrow().num_rows
        except MissingFile as error:
            assert gone.name in str(error)
    assert read > 0


def test_a_directory_in_the_place_of_a_file(snapshot: Path) -> None:
    file = sorted(item for item in snapshot.iterdir() if item.name != "_metadata")[0]
    file.unlink()
    file.mkdir()
    problems = [problem for operator in stateproc.open(str(snapshot)).operators for problem in operator.problems]
    assert file.name in str(problems[0])
    assert problems[0].advice


def test_unknown_names_offer_the_nearest() -> None:
    opened = stateproc.open(str(TINY), uids=["kitchen-string"])
    with pytest.raises(NotFound, match="did you mean 'kitchen-string'"):
        opened.operator("kitchen-strin")
    state = opened.operator("kitchen-string").keyed_states[0].name
    with pytest.raises(NotFound, match=f"did you mean '{state}'") as caught:
        opened.state("kitchen-string", state + "x")
    assert caught.value.where.operator == "kitchen-string"


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "..", "", "a\0b", "\\\\host\\x"])
def test_a_relative_file_that_leaves_the_directory_is_refused(snapshot: Path, path: str) -> None:
    metadata = snapshot / "_metadata"
    data = metadata.read_bytes()
    name = sorted(item.name for item in snapshot.iterdir() if item.name != "_metadata")[0].encode()
    framed = struct.pack(">H", len(name)) + name
    assert framed in data
    metadata.write_bytes(data.replace(framed, struct.pack(">H", len(path)) + path.replace("\0", "\1").encode()))
    if "\0" in path:
        metadata.write_bytes(data.replace(framed, struct.pack(">H", 4) + b"a\xc0\x80b"))
    opened = stateproc.open(str(snapshot))
    problems = [problem for operator in opened.operators for problem in operator.problems]
    assert len(problems) == 1
    assert isinstance(problems[0], CorruptSnapshot)
    assert problems[0].where.file == str(metadata)
    assert problems[0].where.offset
    assert "do not trust this snapshot" in (problems[0].advice or "")
    assert opened.states


def test_an_empty_path_is_no_path() -> None:
    error = _error("")
    assert isinstance(error, InvalidOption)
    assert "the path is empty" in str(error)


def test_an_unknown_uid_where_there_are_hashes_only() -> None:
    with pytest.raises(NotFound, match="no operator with uid") as caught:
        stateproc.open(str(TINY)).operator("kitchen-strnig")
    assert caught.value.advice is not None
    assert "Flink 1.x writes hashes of uids" in caught.value.advice
    assert "there are: '" in caught.value.advice
    with pytest.raises(NotFound, match="no operator with uid") as caught:
        stateproc.open(str(TINY), uids=["kitchen-string"]).operator("kitchen-strnig")
    assert caught.value.advice == "did you mean 'kitchen-string'?"
