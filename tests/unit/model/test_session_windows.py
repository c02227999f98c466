"""Session windows of the DataStream APIs: contents are returned with the merged windows that users see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.metadata import OperatorEntry, SubtaskState, read_metadata
from stateproc.metadata.stream_handles import ByteStreamHandle, KeyGroupsHandle, RelativeFileHandle
from stateproc.metadata.writer import write_metadata
from stateproc.wire import Output
from tests.helpers.fixtures import Fixture, fixtures

(FIXTURE,) = [item for item in fixtures("canonical") if item.name == "2.3/windows-rocksdb-canonical"]
V2_NAMES = ("window-state", "two-input-window-left-state", "two-input-window-right-state")


@pytest.mark.parametrize("name", V2_NAMES)
def test_window_contents_of_the_datastream_api_v2(name: str, tmp_path: Path) -> None:
    """They are stored like those of the old API under another state name, as a job on Flink 2.3 has shown."""
    expected = _windows(FIXTURE.snapshot, "window-contents")
    assert len({row["namespace"]["end"] - row["namespace"]["start"] for row in expected}) > 1, "no session has merged"
    assert _windows(str(renamed(FIXTURE, "window-contents", name, tmp_path)), name) == expected


def _windows(path: str, name: str) -> list[dict[str, Any]]:
    rows = stateproc.open(path, uids=["session-aggregate"]).state("session-aggregate", name).to_arrow()
    return list(rows.to_pylist())


def renamed(fixture: Fixture, old: str, new: str, directory: Path) -> Path:
    """Copy the fixture with its keyed states ``old`` renamed to ``new``, all stored in ``_metadata``."""
    metadata = read_metadata((Path(fixture.snapshot) / "_metadata").read_bytes(), file="_metadata")

    def subtask(state: SubtaskState) -> SubtaskState:
        handle = state.managed_keyed
        assert handle is None or (isinstance(handle, KeyGroupsHandle) and isinstance(handle.stream, RelativeFileHandle))
        if handle is None:
            return state
        data = (Path(fixture.snapshot) / handle.stream.path).read_bytes()
        changed = data.replace(_utf(old), _utf(new), 1)
        moved = len(changed) - len(data)
        offsets = tuple(offset and offset + moved for offset in handle.offsets)
        inline = ByteStreamHandle(handle.stream.path, changed)
        return replace(state, managed_keyed=replace(handle, offsets=offsets, stream=inline))

    def operator(state: OperatorEntry) -> OperatorEntry:
        return replace(state, subtasks=tuple(subtask(item) for item in state.subtasks))

    wanted = [item for item in metadata.operators if item.uid == "session-aggregate"]
    changed = replace(metadata, operators=tuple(map(operator, wanted)))
    (directory / "_metadata").write_bytes(write_metadata(changed, metadata.version))
    return directory


def _utf(text: str) -> bytes:
    out = Output()
    out.utf(text)
    return bytes(out)
