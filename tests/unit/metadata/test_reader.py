"""Parsing ``_metadata`` V2 to V7: every version and handle type, and damaged or unknown bytes."""

from __future__ import annotations

import json
import pickle
import random
import time
from typing import Any

import pytest

from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.metadata import (
    CheckpointProperties,
    MasterState,
    OperatorEntry,
    SubtaskState,
    flink_version_range,
    read_metadata,
    walk_stream_handles,
)
from stateproc.metadata.keyed_handles import (
    ChangelogHandle,
    FileChangelogHandle,
    IncrementalHandle,
    InMemoryChangelogHandle,
)
from stateproc.metadata.operator_handles import (
    ChannelHandle,
    ChannelOffsets,
    MergedChannelHandle,
    OperatorStreamHandle,
    StatePartition,
)
from stateproc.metadata.stream_handles import (
    ByteStreamHandle,
    EmptySegmentHandle,
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
)
from tests.helpers.byte_builders import metadata as mb
from tests.helpers.paths import FIXTURES, VECTORS
from tests.helpers.sweeps import sweep

VERSIONS = (2, 3, 4, 5, 6, 7)
METADATA_FILES = sorted(FIXTURES.glob("**/_metadata"))

META, META_BYTES = ByteStreamHandle("meta", b"hdr"), mb.inline("meta", b"hdr")
SST, SST_BYTES = FileHandle("s3://b/shared/1", 5), mb.file("s3://b/shared/1", 5)

STREAMS: list[tuple[Any, bytes]] = [
    (ByteStreamHandle("n", b"\0\1"), mb.inline("n", b"\0\1")),
    (FileHandle("file:/a/b", 9), mb.file("file:/a/b", 9)),
    (RelativeFileHandle("b", 9), mb.relative("b", 9)),
    (SegmentHandle("s3://x/y", 10, 20, "EXCLUSIVE", "log"), mb.segment("s3://x/y", 10, 20, 0, "log")),
    (SegmentHandle("s3://x/y", 0, 0, "SHARED", "log"), mb.segment("s3://x/y", 0, 0, 1, "log")),
    (EmptySegmentHandle(), mb.EMPTY_SEGMENT),
    (KeyGroupsHandle(3, 1, (5,), META), mb.key_groups(3, 1, [5], META_BYTES)),
]

MEMORY = InMemoryChangelogHandle(0, 64, 3, 5, ((-1, b"meta"), (4, b"")), "mem-id")
MEMORY_BYTES = mb.in_memory_changelog([(-1, b"meta"), (4, b"")])
LOG = FileChangelogHandle(13, 0, 64, ((0, SST), (77, SST)), 70, 71, "log-id", "filesystem")
LOG_BYTES = mb.file_changelog(13, [(0, SST_BYTES), (77, SST_BYTES)])
OLD_LOG = FileChangelogHandle(10, 0, 64, ((1, SST),), 70, 71, "log-id")
OLD_LOG_BYTES = mb.file_changelog(10, [(1, SST_BYTES)])
GROUPS = KeyGroupsHandle(12, 2, (0, 11, 12), SST, "kg-id")
GROUPS_BYTES = mb.key_groups(12, 2, [0, 11, 12], SST_BYTES, "kg-id")

KEYED: list[tuple[Any, bytes]] = [
    (KeyGroupsHandle(3, 0, (), META), mb.key_groups(3, 0, [], META_BYTES)),
    (KeyGroupsHandle(7, 126, (-1, 2**40), META), mb.key_groups(7, 126, [-1, 2**40], META_BYTES)),
    (GROUPS, GROUPS_BYTES),
    (
        IncrementalHandle(5, 42, "backend-uuid", 0, 64, None, META, (("1.sst", SST),), ()),
        mb.incremental(5, META_BYTES, [("1.sst", SST_BYTES)], []),
    ),
    (
        IncrementalHandle(11, 42, "backend-uuid", 0, 64, 999, META, (), (("CURRENT", META),), "inc-id"),
        mb.incremental(11, META_BYTES, [], [("CURRENT", META_BYTES)]),
    ),
    (MEMORY, MEMORY_BYTES),
    (OLD_LOG, OLD_LOG_BYTES),
    (LOG, LOG_BYTES),
    (
        ChangelogHandle(8, 0, 64, 80, (GROUPS,), (MEMORY, OLD_LOG), 6, None, "changelog-id"),
        mb.changelog(8, [GROUPS_BYTES], [MEMORY_BYTES, OLD_LOG_BYTES]),
    ),
    (
        ChangelogHandle(14, 0, 64, 80, (), (LOG,), 6, 17, "changelog-id"),
        mb.changelog(14, [], [LOG_BYTES]),
    ),
]

OPERATOR = OperatorStreamHandle(
    4, (StatePartition("a", "SPLIT_DISTRIBUTE", (1, 2)), StatePartition("b", "BROADCAST", (3,))), META
)
OPERATOR_BYTES = mb.operator_handle([("a", 0, [1, 2]), ("b", 2, [3])], META_BYTES)
MERGED_OPERATOR = OperatorStreamHandle(
    17, (StatePartition("u", "UNION", ()),), EmptySegmentHandle(), "owned", "shared", True
)
MERGED_OPERATOR_BYTES = mb.operator_handle([("u", 1, [])], mb.EMPTY_SEGMENT, ("owned", "shared", True))


def _master(length: int) -> bytes:
    """Return a master state of 12 bytes that declares another length."""
    state = mb.master_state(1, "m", b"p")
    return state[:4] + mb.i32(length) + state[8:]


def one(version: int, subtasks: list[bytes] | None, **options: Any) -> bytes:
    return mb.metadata(version, [mb.operator(version, subtasks, **options)])


def parse(data: bytes) -> Any:
    return read_metadata(data, file="_metadata")


def everything(version: int) -> bytes:
    """Return a snapshot with every handle type that this version may contain."""
    subtasks = [
        mb.subtask(version, 0, OPERATOR_BYTES, MERGED_OPERATOR_BYTES, KEYED[8][1], KEYED[3][1]),
        mb.subtask(version, 1, managed_keyed=KEYED[9][1], raw_keyed=KEYED[4][1], reused_from=2**40 + 1),
        mb.subtask(version, 2, *(mb.operator_handle([], stream) for _, stream in STREAMS[2:4])),
    ]
    if version >= 3:
        subtasks.append(
            mb.subtask(
                version,
                3,
                channels_in=(mb.channel(version, 1, 3, 0, 1, [4, 8], SST_BYTES),),
                channels_out=(mb.channel(version, 2, 3, 2, 3, [], META_BYTES),),
            )
        )
    operators = [mb.operator(version, subtasks, coordinator=META_BYTES, name="n", uid="u")]
    if version >= 3:
        operators.append(mb.operator(version, None, operator_id=bytes(16)))
    properties = mb.savepoint_properties("NATIVE")
    return mb.metadata(version, operators, master_states=(mb.master_state(1, "m", b"p"),), properties=properties)


@pytest.mark.parametrize("version", VERSIONS)
def test_header_and_footer_of_every_version(version: int) -> None:
    found = parse(
        mb.metadata(
            version,
            [mb.operator(version, [mb.subtask(version, 2)], name="map", uid="my-uid")],
            checkpoint_id=2**40,
            master_states=(mb.master_state(3, "hook", b"xyz"),),
        )
    )
    named = {"name": "map", "uid": "my-uid"} if version >= 5 else {}
    expected = OperatorEntry("000102030405060708090a0b0c0d0e0f", 4, 128, subtasks=(SubtaskState(2),), **named)
    assert (found.version, found.checkpoint_id) == (version, 2**40)
    assert found.master_states == (MasterState("hook", 3, b"xyz"),)
    assert found.operators == (expected,)
    assert found.properties is None


@pytest.mark.parametrize(("expected", "data"), STREAMS)
def test_stream_handles(expected: Any, data: bytes) -> None:
    found = parse(one(4, [mb.subtask(4, 0, raw_operator=mb.operator_handle([], data))]))
    assert found.operators[0].subtasks[0].raw_operator == OperatorStreamHandle(4, (), expected)


@pytest.mark.parametrize(("expected", "data"), KEYED)
def test_keyed_handles(expected: Any, data: bytes) -> None:
    managed, raw = (
        parse(one(4, [mb.subtask(4, 0, managed_keyed=data), mb.subtask(4, 3, raw_keyed=data)])).operators[0].subtasks
    )
    assert managed == SubtaskState(0, managed_keyed=expected)
    assert raw == SubtaskState(3, raw_keyed=expected)


def test_key_group_ranges() -> None:
    assert GROUPS.key_groups == range(2, 5)
    assert KEYED[4][0].key_groups == range(64)


@pytest.mark.parametrize(("expected", "data"), [(OPERATOR, OPERATOR_BYTES), (MERGED_OPERATOR, MERGED_OPERATOR_BYTES)])
def test_operator_handles(expected: Any, data: bytes) -> None:
    subtask = parse(one(3, [mb.subtask(3, 0, managed_operator=data)])).operators[0].subtasks[0]
    assert subtask == SubtaskState(0, managed_operator=expected)


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7])
def test_channel_handles(version: int) -> None:
    channels = (mb.channel(version, 1, 3, 0, 1, [4, 8], SST_BYTES),)
    out = (mb.channel(version, 2, 3, 2, 0, [], META_BYTES),)
    subtask = parse(one(version, [mb.subtask(version, 3, channels_in=channels, channels_out=out)]))
    assert subtask.operators[0].subtasks[0] == SubtaskState(
        3,
        input_channels=(ChannelHandle("in", 3, 0, 1, (4, 8), 500, SST),),
        output_channels=(ChannelHandle("out", 3, 2, 0, (), 500, META),),
    )


@pytest.mark.parametrize("stream", [item for item in STREAMS if hasattr(item[0], "offset")])
def test_the_offset_of_a_handle_is_that_of_its_type_byte(stream: tuple[Any, bytes]) -> None:
    expected, encoded = stream
    raw = one(6, [mb.subtask(6, 0, managed_keyed=mb.key_groups(7, 1, [5], encoded))])
    handle = parse(raw).operators[0].subtasks[0].managed_keyed.stream
    assert handle == expected
    assert raw[handle.offset : handle.offset + len(encoded)] == encoded


def test_merged_channel_handles() -> None:
    channels = (mb.merged_channel(3, 0, SST_BYTES, [(0, 1, [4]), (0, 2, [])]),)
    out = (mb.merged_channel(4, 0, SST_BYTES, []),)
    subtask = parse(one(6, [mb.subtask(6, 0, channels_in=channels, channels_out=out)])).operators[0].subtasks[0]
    parts = (ChannelOffsets(0, 1, 9, (4,)), ChannelOffsets(0, 2, 9, ()))
    assert subtask.input_channels == (MergedChannelHandle("in", 0, 600, SST, parts),)
    assert subtask.output_channels == (MergedChannelHandle("out", 0, 600, SST, ()),)


def test_finished_operators_subtasks_and_coordinators() -> None:
    finished = parse(one(3, None, coordinator=META_BYTES)).operators[0]
    assert finished.finished and finished.subtasks == () and finished.coordinator == META
    partly = parse(one(3, [mb.i32(-1), mb.subtask(3, 1), mb.i32(-4)])).operators[0]
    assert partly.subtasks == (
        SubtaskState(0, finished=True),
        SubtaskState(1),
        SubtaskState(3, finished=True),
    )
    assert not partly.finished


@pytest.mark.parametrize("savepoint_format", ["CANONICAL", "NATIVE"])
def test_savepoint_properties(savepoint_format: str) -> None:
    found = parse(mb.metadata(4, [], properties=mb.savepoint_properties(savepoint_format))).properties
    flags = {"forced": True, "unclaimed": False}
    assert found == CheckpointProperties(True, savepoint_format, "Savepoint", flags)  # type: ignore[arg-type]


@pytest.mark.parametrize("release", ["1.16.3", "1.20.5", "2.3.0"])
def test_properties_that_flink_wrote(release: str) -> None:
    """They are forSavepoint(true, NATIVE), forSavepoint(false, CANONICAL), forCheckpoint(RETAIN_ON_CANCELLATION)."""
    written = json.loads((VECTORS / "checkpoint_properties.json").read_text())[release]
    found = {
        kind: parse(mb.metadata(4, [], properties=bytes.fromhex(text))).properties for kind, text in written.items()
    }
    kinds = {kind: (some.is_savepoint, some.format, some.name) for kind, some in found.items()}
    assert kinds == {
        "NATIVE": (True, "NATIVE", "Savepoint"),
        "CANONICAL": (True, "CANONICAL", "Savepoint"),
        "CHECKPOINT": (False, None, "Checkpoint"),
    }
    assert {kind for kind, some in found.items() if some.flags["forced"]} == {"NATIVE"}
    assert {kind for kind, some in found.items() if some.flags["discardFinished"]} == {"CHECKPOINT"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (mb.metadata(2, []), "1.3 – 1.10"),
        (mb.metadata(3, []), "1.11 – 1.15"),
        (mb.metadata(4, []), "1.16 – 1.20"),
        (mb.metadata(5, []), "2.0"),
        (mb.metadata(6, []), "2.1 – 2.3"),
        (one(3, None), "1.14 – 1.15"),
        (one(3, [mb.subtask(3, 0, managed_keyed=KEYED[0][1])]), "1.11 – 1.14"),
        (one(3, [mb.subtask(3, 0, managed_keyed=KEYED[1][1])]), "1.13 – 1.15"),
        (one(3, [mb.subtask(3, 0, managed_keyed=GROUPS_BYTES)]), "1.15"),
        (one(4, [mb.subtask(4, 0, managed_keyed=KEYED[0][1])]), "1.16 – 1.20"),
        (one(4, [mb.subtask(4, 0, managed_operator=MERGED_OPERATOR_BYTES)]), "1.20"),
        (one(4, [mb.subtask(4, 0, mb.operator_handle([], STREAMS[3][1]))]), "1.20"),
    ],
)
def test_flink_version_range(data: bytes, expected: str) -> None:
    assert flink_version_range(parse(data)) == expected


def test_every_stream_has_a_role() -> None:
    roles = [(use.subtask, use.role, use.handle) for use in walk_stream_handles(parse(everything(4)))]
    assert roles == [
        (None, "coordinator", META),
        (0, "managed operator", META),
        (0, "raw operator", EmptySegmentHandle()),
        (0, "managed keyed", SST),
        (0, "changelog segment", SST),
        (0, "rocksdb meta", META),
        (0, "rocksdb shared 1.sst", SST),
        (1, "changelog segment", SST),
        (1, "changelog segment", SST),
        (1, "rocksdb meta", META),
        (1, "rocksdb private CURRENT", META),
        (2, "managed operator", STREAMS[2][0]),
        (2, "raw operator", STREAMS[3][0]),
        (3, "channel in", SST),
        (3, "channel out", META),
    ]


def test_metadata_pickles() -> None:
    found = parse(everything(6))
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_and_trailing_bytes_are_refused(version: int) -> None:
    data = everything(version)
    parse(data)
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshot) as caught:
            parse(data[:length])
        assert caught.value.where.file == "_metadata" and caught.value.where.offset is not None
    with pytest.raises(CorruptSnapshot, match="1 bytes left over"):
        parse(data + b"\0")


@pytest.mark.parametrize("rounds", sweep(20_000), ids=str)
def test_mutations_raise_only_snapshot_errors(rounds: range) -> None:
    rng = random.Random(11 + rounds.start)
    snapshots = [everything(version) for version in VERSIONS]
    refused = 0
    for _ in rounds:
        data = bytearray(rng.choice(snapshots))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        try:
            found = parse(bytes(data))
            flink_version_range(found)
            list(walk_stream_handles(found))
        except SnapshotError:
            refused += 1
    assert refused > len(rounds) / 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a _metadata file"),
        (b"PK\3\4 something else", "not a _metadata file"),
        (mb.metadata(3, [], checkpoint_id=-1), "negative checkpoint id -1"),
        (one(3, [], parallelism=129), "parallelism 129 with maximum 128"),
        (one(3, [], max_parallelism=32_769), "parallelism 4 with maximum 32769"),
        (one(3, [mb.subtask(3, 4)]), "subtask index 4 at parallelism 4"),
        (one(3, [mb.subtask(3, 1)] * 2), "subtask index 1 .* or twice"),
        (one(2, None), "impossible number of subtask states: -1"),
        (one(3, [], coordinator=SST_BYTES), "coordinator state that is not inside"),
        (one(3, [mb.subtask(3, 0, managed_keyed=META_BYTES)]), "handle type 1 where a keyed state handle"),
        (one(3, [mb.subtask(3, 0, META_BYTES)]), "handle type 1 where a operator state handle"),
        (one(3, [mb.subtask(3, 0, mb.operator_handle([], b"\0"))]), "has no stream handle"),
        (one(3, [mb.subtask(3, 0, mb.operator_handle([("s", 3, [])], META_BYTES))]), "distribution mode 3"),
        (one(3, [mb.subtask(3, 0, mb.operator_handle([], mb.segment("p", 0, 1, 2, "")))]), "unknown scope 2"),
        (one(3, [mb.subtask(3, 0, mb.operator_handle([], mb.file("p", -1)))]), "negative file size -1"),
        (one(3, [mb.subtask(3, 0, mb.operator_handle([], SST_BYTES, ("", "", False)))]), "outside of a file"),
        (
            one(3, [mb.subtask(3, 0, managed_keyed=mb.key_groups(7, 128, [0], META_BYTES))]),
            "key groups up to 128",
        ),
        (one(3, [mb.subtask(3, 0, managed_keyed=mb.changelog(8, [], [GROUPS_BYTES]))]), "no changelog"),
        (one(6, [mb.subtask(6, 0, channels_in=(mb.channel(6, 2, 0, 0, 0, [], SST_BYTES),))]), "tagged 'out'"),
        (
            one(6, [mb.subtask(6, 0, channels_in=(mb.channel(6, 9, 0, 0, 0, [], SST_BYTES),))]),
            "unknown tag 9",
        ),
        (mb.metadata(3, [], master_states=(bytes(9),)), "magic number"),
        (mb.metadata(2, [], master_states=(_master(-1),)), "bytes of a master state"),
        (mb.metadata(3, [], master_states=(_master(0x7FFFFFFF),)), "bytes of a master state"),
        # The payload extends beyond its state into the next one.
        (mb.metadata(4, [], master_states=(_master(11), _master(11))), "1 bytes needed where 0"),
        (mb.metadata(6, [], master_states=(_master(14),)), "master state"),
        (mb.metadata(4, [], properties=bytes.fromhex("aced00057400017a")), "checkpoint properties are expected"),
    ],
)
def test_invalid_metadata_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptSnapshot, match=message):
        parse(data)


def test_a_regional_checkpoint_names_the_checkpoint_that_a_state_is_of() -> None:
    """MetadataV7Serializer of Flink 2.4."""
    first, second = mb.subtask(7, 0, reused_from=41), mb.subtask(7, 1)
    subtasks = read_metadata(one(7, [first, second], parallelism=2), file="f").operators[0].subtasks
    assert [subtask.reused_from for subtask in subtasks] == [41, None]
    with pytest.raises(CorruptSnapshot, match="2 where 0 or 1"):
        parse(one(7, [mb.subtask(7, 0)[:-1] + b"\2"]))


@pytest.mark.parametrize("version", [-1, 0, 1, 8, 0x7FFFFFFF])
def test_unknown_versions_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedSnapshot, match=f"_metadata version {version} ") as caught:
        parse(mb.metadata(version, []))
    assert ("Flink 1.3" if version == 1 else "newer stateproc") in str(caught.value)


def test_unknown_handle_types_and_state_of_1_1_are_refused() -> None:
    with pytest.raises(UnsupportedSnapshot, match="keyed state handle type 18"):
        parse(one(6, [mb.subtask(6, 0, managed_keyed=b"\x12")]))
    data = one(2, [mb.i32(0) + mb.i64(0) + mb.i32(1) + bytes(20)])
    with pytest.raises(UnsupportedSnapshot, match=r"legacy state of Flink 1\.1"):
        parse(data)


@pytest.mark.parametrize("levels", [40, 100_000])
def test_nested_changelogs(levels: int) -> None:
    start = b"\x08" + mb.i32(0, 64) + mb.i64(0) + mb.i32(1)
    end = mb.i32(0) + mb.i64(0) + mb.utf("")
    data = one(3, [mb.subtask(3, 0, managed_keyed=start * levels + GROUPS_BYTES + end * levels)])
    if levels == 40:
        assert isinstance(parse(data).operators[0].subtasks[0].managed_keyed, ChangelogHandle)
        return
    with pytest.raises(CorruptSnapshot, match="nested over 64 levels"):
        parse(data)


def test_key_groups_handles_nested_as_streams() -> None:
    start = b"\x03" + mb.i32(0, 0)
    data = one(3, [mb.subtask(3, 0, mb.operator_handle([], start * 100_000 + META_BYTES))])
    with pytest.raises(CorruptSnapshot, match="nested over 64 levels"):
        parse(data)


@pytest.mark.slow
def test_metadata_with_many_files_is_parsed_in_seconds() -> None:
    files = [(f"{i:06}.sst", mb.file(f"s3://bucket/checkpoints/job/shared/{i:036}", i)) for i in range(1000)]
    handle = mb.incremental(11, mb.inline("meta", bytes(20_000)), files, [])
    subtasks = [mb.subtask(4, i, managed_keyed=handle) for i in range(50)]
    data = one(4, subtasks, parallelism=50)
    started = time.process_time()
    found = parse(data)
    assert time.process_time() - started < 5
    assert sum(1 for _ in walk_stream_handles(found)) == 50 * 1001


def test_every_kind_of_handle_that_flink_2_3_wrote() -> None:
    """Written by MetadataHandles.java through Flink's own Checkpoints.storeCheckpointMetadata."""
    found = parse(bytes.fromhex((VECTORS / "metadata_2_3_0.hex").read_text()))
    first, second, third = found.operators[0].subtasks
    inline, whole = ByteStreamHandle("inline", b"\1\2\3"), FileHandle("file:/c/job/shared/f", 77)
    assert (found.version, found.checkpoint_id) == (6, 12)
    assert found.master_states == (MasterState("hook", 1, b"\5"),)
    assert found.operators[0].operator_id == "0000000000000001fffffffffffffffe"
    assert (found.operators[0].name, found.operators[0].uid) == ("name", "uid")
    assert found.operators[0].coordinator == inline
    merged = first.managed_operator
    assert isinstance(merged.stream, SegmentHandle)
    assert (merged.stream.path, merged.stream.start, merged.stream.size) == ("file:/c/job/shared/seg", 10, 20)
    assert (merged.task_owned_dir, merged.shared_dir) == ("file:/c/owned", "file:/c/shared")
    assert first.raw_operator == OperatorStreamHandle(4, (StatePartition("s", "UNION", (4, 8)),), inline)
    incremental, (memory, log) = first.managed_keyed.materialized[0], first.managed_keyed.non_materialized
    assert incremental.shared == (("1.sst", merged.stream),) and incremental.private == (("CURRENT", inline),)
    assert incremental.backend_id == "00000000-0000-0000-0000-000000000001"
    assert memory.changes == ((-1, b"\t"), (2, b"\x08\x07")) and (memory.from_sqn, memory.to_sqn) == (3, 5)
    assert log.segments == ((33, whole),) and (log.size, log.checkpointed_size) == (77, 70)
    assert (first.managed_keyed.materialization_id, first.managed_keyed.checkpoint_id) == (2, 6)
    assert (first.raw_keyed.type_byte, first.raw_keyed.offsets) == (12, (0, 5, 9, 12))
    parts = (ChannelOffsets(0, 1, 3, (4,)), ChannelOffsets(0, 2, 3, (6, 8)))
    assert first.input_channels == (
        ChannelHandle("in", 0, 0, 1, (4,), 3, inline),
        MergedChannelHandle("in", 0, 6, inline, parts),
    )
    assert first.output_channels == (ChannelHandle("out", 0, 1, 2, (4,), 3, inline),)
    assert second == SubtaskState(1, managed_keyed=KeyGroupsHandle(7, 0, (0, 5, 9, 12), inline))
    assert third == SubtaskState(2, finished=True)
    assert found.operators[1].finished and found.operators[1].uid is None


def test_snapshots_that_flink_wrote_are_parsed_completely() -> None:
    assert METADATA_FILES
    for path in METADATA_FILES:
        found = read_metadata(path.read_bytes(), file=str(path))
        assert found.operators, path
        assert flink_version_range(found), path
