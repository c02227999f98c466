"""Elements that take no bytes: several of them stand at one offset, and each is an element."""

from __future__ import annotations

from pathlib import Path

import pytest
from metadata_bytes import i32, inline, metadata, operator, operator_handle, subtask, utf
from serializer_bytes import scalar

import stateproc
from stateproc.errors import CorruptSnapshot


def _opened(directory: Path, data: bytes, offsets: list[int], value: bytes) -> stateproc.Snapshot:
    info = utf("s") + i32(1) + i32(1) + utf("OPERATOR_STATE_DISTRIBUTION_MODE") + utf("SPLIT_DISTRIBUTE")
    info += i32(1) + utf("VALUE_SERIALIZER") + i32(2) + value
    head = i32(6) + b"\0" + b"\0\1" + info + b"\0\0"
    handle = operator_handle([("s", 0, [len(head) + at for at in offsets])], inline("operator", head + data))
    body = metadata(4, [operator(4, [subtask(4, 0, managed_operator=handle)], parallelism=1)])
    (directory / "_metadata").write_bytes(body)
    return stateproc.open(str(directory))


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_as_many_elements_as_offsets(tmp_path: Path, count: int) -> None:
    (state,) = _opened(tmp_path, b"", [0] * count, scalar("NullValue")).states
    assert state.to_arrow().to_pylist() == [{"subtask": 0, "value": None}] * count


def test_an_element_that_needs_bytes_and_has_none_is_damage(tmp_path: Path) -> None:
    (state,) = _opened(tmp_path, bytes(8), [0, 0], scalar("Long")).states
    with pytest.raises(CorruptSnapshot) as caught:
        state.to_arrow()
    assert caught.value.where.file
    assert caught.value.where.offset
