"""Writing operator state: byte for byte Flink's own files, element for element compressed ones."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import stateproc
from stateproc.codec.arrow_arrays import RowBytes
from stateproc.errors import InvalidEntries, InvalidOption
from stateproc.metadata.backend import BROADCAST, OPERATOR, StateMetaInfo, read_operator_header
from stateproc.metadata.operator_handles import StatePartition
from stateproc.model.operator_state import OperatorFile
from stateproc.storage import InlineSource
from stateproc.wire import Cursor
from stateproc.writers.formats.operator_state import OperatorStateWriter
from tests.helpers.byte_builders.metadata import i32
from tests.helpers.writers.keyed_entries import FIXTURES, snapshots
from tests.helpers.writers.operator_elements import contents, keys_and_values

RELEASES = sorted((path.name for path in FIXTURES.iterdir() if path.is_dir()), key=lambda name: name.split("."))


def info(name: str, mode: str = "SPLIT_DISTRIBUTE", backend_type: str = OPERATOR) -> StateMetaInfo:
    return StateMetaInfo(name, backend_type, {"OPERATOR_STATE_DISTRIBUTION_MODE": mode}, {})


def write_again(file: OperatorFile) -> tuple[bytes, tuple[StatePartition, ...], bool]:
    """Write the file's elements again in their order; return data, partitions and whether it is compressed."""
    source = file.source
    header = read_operator_header(Cursor(source.read(0, source.size)))
    elements = contents(source, file.handle.states, header.compressed)
    sink = io.BytesIO()
    writer = OperatorStateWriter(
        sink, header.states, header.broadcast, version=header.version, compressed=header.compressed
    )
    for state in sorted(file.handle.states, key=lambda state: state.offsets[:1]):
        if state.mode != "BROADCAST":
            writer.elements(state.name, pa.array(elements[state.name], pa.binary()))
        elif state.offsets:
            broadcast = next(info for info in header.broadcast if info.name == state.name)
            writer.entries(state.name, *keys_and_values(broadcast, elements[state.name][0]))
    return sink.getvalue(), writer.close(), header.compressed


@pytest.mark.parametrize("release", RELEASES)
def test_files_that_flink_wrote_are_reproduced(release: str) -> None:
    found = 0
    for snapshot in snapshots(release):
        for operator in stateproc.open(str(snapshot)).operators:
            for file in operator.operator_files:
                data, states, compressed = write_again(file)
                by_name = {state.name: state for state in states}
                assert {state.name for state in file.handle.states} <= set(by_name)
                found += 1
                if not compressed:
                    assert data == file.source.read(0, file.source.size), snapshot
                    assert [by_name[state.name] for state in file.handle.states] == list(file.handle.states)
                    continue
                ours = contents(InlineSource("written", data), states, True)
                theirs = contents(file.source, file.handle.states, True)
                assert {name: ours[name] for name in theirs} == theirs
    assert found


@pytest.mark.parametrize("compressed", [False, True])
def test_list_elements_and_broadcast_entries_are_written(compressed: bool) -> None:
    big = bytes(range(256)) * 1000
    sink = io.BytesIO()
    states = [info("list"), info("union", "UNION"), info("never")]
    writer = OperatorStateWriter(sink, states, [info("map", "BROADCAST", BROADCAST)], version=6, compressed=compressed)
    header = len(sink.getvalue())
    writer.elements("list", pa.array([b"a", b"", big]))
    writer.entries("map", pa.array([b"k", b"kk"]), pa.array([b"v", big]))
    writer.elements("union", RowBytes(np.frombuffer(b"xabcx", np.uint8), np.array([1, 3, 4])))
    writer.elements("list", pa.array([b"no", b"b"])[1:])
    writer.elements("list", pa.array([], pa.binary()))
    states_written = writer.close()
    assert [(state.name, state.mode, len(state.offsets)) for state in states_written] == [
        ("list", "SPLIT_DISTRIBUTE", 4), ("union", "UNION", 2), ("never", "SPLIT_DISTRIBUTE", 0),
        ("map", "BROADCAST", 1),
    ]  # fmt: skip
    assert min(offset for state in states_written for offset in state.offsets) == header
    assert contents(InlineSource("written", sink.getvalue()), states_written, compressed) == {
        "list": [b"a", b"", big, b"b"],
        "union": [b"ab", b"c"],
        "never": [],
        "map": [i32(2) + b"kv" + b"kk" + big],
    }


def test_an_empty_broadcast_state_is_written_with_its_count() -> None:
    sink = io.BytesIO()
    writer = OperatorStateWriter(sink, [], [info("map", "BROADCAST", BROADCAST)], version=5)
    writer.entries("map", pa.array([], pa.binary()), pa.array([], pa.binary()))
    assert writer.close() == (StatePartition("map", "BROADCAST", (len(sink.getvalue()) - 4,)),)
    assert sink.getvalue().endswith(i32(0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda writer: writer.elements("other", pa.array([b""])), "'other', which the header does not list"),
        (lambda writer: writer.elements("map", pa.array([b""])), "is a broadcast state"),
        (lambda writer: writer.entries("list", pa.array([b""]), pa.array([b""])), "is no broadcast state"),
        (lambda writer: [writer.entries("map", pa.array([b""]), pa.array([b""])) for _ in "12"], "written already"),
    ],
)
def test_invalid_calls_are_refused(call: Any, message: str) -> None:
    writer = OperatorStateWriter(io.BytesIO(), [info("list")], [info("map", "BROADCAST", BROADCAST)], version=6)
    with pytest.raises(InvalidOption, match=message):
        call(writer)


def test_nulls_names_and_modes() -> None:
    writer = OperatorStateWriter(io.BytesIO(), [info("list")], [], version=6)
    with pytest.raises(InvalidEntries, match=r"a null among the elements \[state 'list'\]"):
        writer.elements("list", pa.array([b"", None]))
    with pytest.raises(InvalidOption, match="two operator states of one name"):
        OperatorStateWriter(io.BytesIO(), [info("s")], [info("s", "BROADCAST", BROADCAST)], version=6)
    with pytest.raises(InvalidOption, match="the distribution mode 'NONE'"):
        OperatorStateWriter(io.BytesIO(), [info("s", "NONE")], [], version=6)
