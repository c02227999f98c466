"""Elements of zero bytes: each of several at one offset counts as an element."""

from __future__ import annotations

from pathlib import Path

import pytest

import stateproc
from stateproc.errors import CorruptSnapshot
from stateproc.writers.rewrite.operator_state_copy import raw_elements
from tests.helpers.byte_builders.metadata import i32, inline, metadata, operator, operator_handle, subtask, utf
from tests.helpers.byte_builders.serializers import scalar


def _opened(directory: Path, data: bytes, offsets: list[int], value: bytes) -> stateproc.Snapshot:
    head = i32(6) + b"\0" + b"\0\1" + _info("s", value) + b"\0\0"
    handle = operator_handle([("s", 0, [len(head) + at for at in offsets])], inline("operator", head + data))
    body = metadata(4, [operator(4, [subtask(4, 0, managed_operator=handle)], parallelism=1)])
    (directory / "_metadata").write_bytes(body)
    return stateproc.open(str(directory))


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_each_offset_is_one_element(tmp_path: Path, count: int) -> None:
    (state,) = _opened(tmp_path, b"", [0] * count, scalar("NullValue")).states
    assert state.to_arrow().to_pylist() == [{"subtask": 0, "value": None}] * count


def test_an_empty_element_of_a_type_that_needs_bytes_is_refused(tmp_path: Path) -> None:
    (state,) = _opened(tmp_path, bytes(8), [0, 0], scalar("Long")).states
    with pytest.raises(CorruptSnapshot) as caught:
        state.to_arrow()
    assert caught.value.where.file
    assert caught.value.where.offset


@pytest.mark.parametrize("names", ["sz", "zs"])
@pytest.mark.parametrize("count", [1, 3])
def test_zero_sized_elements_may_share_an_offset_with_the_next_state(tmp_path: Path, names: str, count: int) -> None:
    """Elements without bytes have the same offset as the first element of the next state."""
    types = {"z": scalar("NullValue"), "s": scalar("Long")}
    head = i32(6) + b"\0" + len(names).to_bytes(2, "big") + b"".join(_info(name, types[name]) for name in names)
    head += b"\0\0"
    offsets = {"z": [len(head)] * count, "s": [len(head)]}
    data = head + (7).to_bytes(8, "big")
    handle = operator_handle([(name, 0, offsets[name]) for name in names], inline("operator", data))
    body = metadata(4, [operator(4, [subtask(4, 0, managed_operator=handle)], parallelism=1)])
    (tmp_path / "_metadata").write_bytes(body)
    (opened,) = stateproc.open(str(tmp_path)).operators
    assert opened.state("s").to_arrow().to_pylist() == [{"subtask": 0, "value": 7}]
    assert opened.state("z").to_arrow().to_pylist() == [{"subtask": 0, "value": None}] * count
    carried = {
        name: [
            item for split in raw_elements(opened, name) for elements in split.read() for item in elements.to_arrow()
        ]
        for name in names
    }
    assert {name: [item.as_py() for item in items] for name, items in carried.items()} == {
        "s": [(7).to_bytes(8, "big")],
        "z": [b""] * count,
    }


def _info(name: str, value: bytes) -> bytes:
    info = utf(name) + i32(1) + i32(1) + utf("OPERATOR_STATE_DISTRIBUTION_MODE") + utf("SPLIT_DISTRIBUTE")
    return info + i32(1) + utf("VALUE_SERIALIZER") + i32(2) + value
