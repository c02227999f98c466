"""Writing ``_metadata`` and backend headers: byte for byte as Flink wrote them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.metadata import CheckpointProperties, read_metadata
from stateproc.metadata.backend import (
    KeyedHeader,
    StateMetaInfo,
    read_keyed_header,
    read_operator_header,
    write_keyed_header,
    write_operator_header,
)
from stateproc.metadata.keyed_handles import write_keyed_handle
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.metadata.writer import write_metadata
from stateproc.serializers import read_snapshot
from stateproc.wire import Cursor, Output
from tests.helpers.byte_builders import metadata as mb
from tests.helpers.paths import FIXTURES, VECTORS
from tests.unit.metadata import test_reader as reading

RELEASES = sorted((path.name for path in FIXTURES.iterdir() if path.is_dir()), key=lambda name: name.split("."))
WRITTEN = (3, 4, 5, 6, 7)


def snapshots(release: str) -> list[Path]:
    return sorted((FIXTURES / release).glob("**/_metadata"))


@pytest.mark.parametrize("release", RELEASES)
def test_metadata_of_flink_is_reproduced(release: str) -> None:
    paths = snapshots(release)
    assert paths
    for path in paths:
        data = path.read_bytes()
        found = read_metadata(data, file=str(path))
        if found.version == 2:
            assert read_metadata(write_metadata(found, 3), file="") == replace(found, version=3), path
        else:
            assert write_metadata(found, found.version) == data, path


def test_every_kind_of_handle_of_flink_2_3_is_reproduced() -> None:
    data = bytes.fromhex((VECTORS / "metadata_2_3_0.hex").read_text())
    assert write_metadata(read_metadata(data, file=""), 6) == data


@pytest.mark.parametrize("version", WRITTEN)
def test_every_kind_of_handle_of_every_version_is_reproduced(version: int) -> None:
    data = reading.everything(version)
    assert write_metadata(reading.parse(data), version) == data


@pytest.mark.parametrize(("expected", "handle"), reading.KEYED)
def test_keyed_handles(expected: Any, handle: bytes) -> None:
    data = reading.one(4, [mb.subtask(4, 0, managed_keyed=handle, raw_keyed=handle)])
    assert write_metadata(reading.parse(data), 4) == data


@pytest.mark.parametrize(("expected", "stream"), reading.STREAMS)
def test_stream_handles(expected: Any, stream: bytes) -> None:
    data = reading.one(4, [mb.subtask(4, 0, raw_operator=mb.operator_handle([], stream))])
    assert write_metadata(reading.parse(data), 4) == data


@pytest.mark.parametrize(("kind", "handle_id"), [(7, "id"), (3, "id"), (12, None)])
def test_handle_ids_are_required_or_refused_by_handle_type(kind: int, handle_id: str | None) -> None:
    out, handle = Output(), KeyGroupsHandle(kind, 0, (0,), reading.META, handle_id)
    with pytest.raises(InvalidOption, match=f"a keyed state handle of type {kind} (has no|needs an) id"):
        write_keyed_handle(out, handle)


def test_merged_channels_finished_subtasks_and_text() -> None:
    channels = (mb.merged_channel(3, 0, reading.SST_BYTES, [(0, 1, [4]), (0, 2, [])]),)
    out = (mb.merged_channel(4, 0, reading.SST_BYTES, []),)
    subtasks = [mb.subtask(6, 0, channels_in=channels, channels_out=out), mb.i32(-4)]
    data = reading.one(6, subtasks, name="näme", uid="u" * 65_535, coordinator=reading.META_BYTES)
    found = reading.parse(data)
    assert write_metadata(found, 6) == data
    with pytest.raises(UnsupportedSnapshot, match="merged channel state of subtask 0"):
        write_metadata(found, 5)
    named = replace(found, operators=(replace(found.operators[0], uid="\0\U0001f600\ud800"),))
    assert reading.parse(write_metadata(named, 6)) == named


def test_fields_that_a_version_does_not_support_are_omitted() -> None:
    found = reading.parse(reading.everything(7))
    owned = [tuple(replace(one, reused_from=None) for one in operator.subtasks) for operator in found.operators]
    operators = tuple(replace(o, subtasks=subtasks) for o, subtasks in zip(found.operators, owned, strict=True))
    for version in WRITTEN[:-1]:
        expected = replace(found, version=version, properties=None, operators=operators)
        if version < 5:
            expected = replace(expected, operators=tuple(replace(o, name=None, uid=None) for o in operators))
        assert reading.parse(write_metadata(found, version)) == expected


def test_properties_are_copied_or_null() -> None:
    raw = mb.savepoint_properties("CANONICAL")
    found = reading.parse(mb.metadata(4, [], properties=raw))
    assert found.properties.raw == raw
    for properties in (None, CheckpointProperties(True, "CANONICAL", "Savepoint")):
        assert write_metadata(replace(found, properties=properties), 4) == mb.metadata(4, [])


@pytest.mark.parametrize("version", [2, 8])
def test_writing_other_versions_is_refused(version: int) -> None:
    with pytest.raises(InvalidOption, match=f"version {version} cannot be written"):
        write_metadata(reading.parse(mb.metadata(4, [])), version)


@pytest.mark.parametrize("release", RELEASES)
def test_backend_headers_of_flink_are_reproduced(release: str) -> None:
    keyed = operator = 0
    for path in snapshots(release):
        for found in stateproc.open(str(path)).operators:
            for file in found.keyed_files:
                if file.layout == "changelog":
                    continue
                header = file.header
                assert header is not None
                written = write_keyed_header(header.key_snapshot, header.states, compressed=header.compressed)
                assert written == file.source.read(0, file.header_size), path
                keyed += 1
            for part in found.operator_files:
                data = part.source.read(0, part.source.size)
                cursor = Cursor(data)
                parts = read_operator_header(cursor)
                written = write_operator_header(
                    parts.states, parts.broadcast, version=parts.version, compressed=parts.compressed
                )
                assert written == data[: len(written)] and len(written) == cursor.pos, path
                operator += 1
    assert keyed and operator


INT = bytes.fromhex("00000002") + mb.utf(
    "org.apache.flink.api.common.typeutils.base.IntSerializer$IntSerializerSnapshot"
) + mb.i32(3)  # fmt: skip


def state(name: str, **snapshots: bytes) -> StateMetaInfo:
    read = {key: read_snapshot(data) for key, data in snapshots.items()}
    return StateMetaInfo(name, "KEY_VALUE", {"KEYED_STATE_TYPE": "VALUE"}, read, snapshots)


def test_a_synthetic_header_is_written() -> None:
    made = state("s\0", NAMESPACE_SERIALIZER=INT, VALUE_SERIALIZER=INT)
    data = write_keyed_header(INT, [made], compressed=True)
    key = read_snapshot(INT)
    assert read_keyed_header(Cursor(data)) == KeyedHeader(6, True, key, (made,))
    assert read_keyed_header(Cursor(data)).states[0].snapshots == made.snapshots
    assert data.startswith(mb.i32(6) + b"\1" + INT + b"\0\1\0\3s\xc0\x80" + mb.i32(0, 1))


def test_invalid_headers_are_refused() -> None:
    bare = replace(state("s", VALUE_SERIALIZER=INT), snapshots={})
    with pytest.raises(InvalidOption, match=r"without the bytes of their snapshots .*state 's'"):
        write_keyed_header(INT, [bare], compressed=False)
    with pytest.raises(InvalidOption, match="32768 states"):
        write_keyed_header(INT, [state("s")] * 32_768, compressed=False)
    for version, compressed in ((4, False), (5, True), (7, False)):
        with pytest.raises(InvalidOption, match=f"header version {version} cannot be written"):
            write_operator_header([], [], version=version, compressed=compressed)
