"""CEP, Scala, Java objects, variants, bitmaps and removed serializers with handwritten bytes."""

from __future__ import annotations

import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.table.variants import positions, variant_json
from stateproc.wire import Cursor, Output
from tests.helpers.byte_builders.serializers import composite, i32, i64, read, scalar, utf, versioned

CEP = "org.apache.flink.cep.nfa."
BUFFER = CEP + "sharedbuffer."
EVENT_ID = versioned(BUFFER + "EventId$EventIdSerializer$EventIdSerializerSnapshot", 3)
DEWEY = versioned(CEP + "DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot", 3)
NODE_ID = composite(BUFFER + "NodeId$NodeIdSerializer$NodeIdSerializerSnapshot", 1, EVENT_ID)
EDGE = composite(
    BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot",
    1,
    NODE_ID,
    DEWEY,
)
SCALA = ("org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils.")
VARIANT = versioned("org.apache.flink.api.common.typeutils.base.VariantSerializer$VariantSerializerSnapshot", 3)
NO_KEYS = b"\x01\x00\x00"


def test_event_ids_and_versions() -> None:
    assert read(EVENT_ID).decode(i32(7) + i64(-1)) == {"id": 7, "timestamp": -1}
    assert read(EVENT_ID).length == 12
    assert read(DEWEY).decode(i32(2, 1, 0)) == [1, 0]


def edge_bytes(page: str) -> bytes:
    return b"\x01" + i32(7) + i64(9) + bytes([len(page) + 1]) + page.encode() + i32(1, 5)


@pytest.mark.parametrize("with_lock", [True, False])
def test_nodes_store_reference_counts_of_their_edges(with_lock: bool) -> None:
    edge = composite(BUFFER + "LockableTypeSerializerSnapshot", 1, EDGE) if with_lock else EDGE
    node = read(composite(BUFFER + "SharedBufferNodeSerializerSnapshotV2", 1, edge))
    assert node.decode(i32(1, 3) + edge_bytes("s")) == {
        "edges": [
            {
                "refs": 3,
                "element": {"target": {"event": {"id": 7, "timestamp": 9}, "page": "s"}, "version": [5]},
            }
        ]
    }


def test_nodes_before_1_13_store_no_reference_counts() -> None:
    edges = composite("org.apache.flink.api.common.typeutils.base.ListSerializerSnapshot", 1, EDGE)
    name = BUFFER + "SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot"
    decoded = read(composite(name, 1, edges)).decode(i32(1) + edge_bytes("s"))
    assert decoded["edges"][0]["version"] == [5]


def test_state_that_cep_jobs_of_flink_1_8_to_1_11_declare_but_never_write() -> None:
    buffer = composite(CEP + "SharedBuffer$SharedBufferSerializerSnapshot", 2, scalar("String"), EVENT_ID, DEWEY)
    written = composite(CEP + "NFA$MigratedNFASerializerSnapshot", 2, EVENT_ID, buffer)
    serializer = read(written)
    assert serializer.type_name == "MigratedNFA"
    assert pa.types.is_binary(serializer.arrow_type)
    out = Output()
    serializer.write_snapshot(out, Release(1, 11))
    assert bytes(out) == written
    with pytest.raises(UnsupportedSnapshot, match=r"Flink 1\.5"):
        serializer.decode(bytes(8))


@pytest.mark.parametrize(("version", "outer", "previous"), [(2, b"\x01", True), (2, b"\x00", False), (1, b"", False)])
def test_nfa_states_with_and_without_previous_timestamps(version: int, outer: bytes, previous: bool) -> None:
    serializer = read(composite(CEP + "NFAStateSerializerSnapshot", version, DEWEY, NODE_ID, EVENT_ID, outer=outer))
    state = b"\x02a" + b"\x00" + i32(1, 1) + i64(-1) + (i64(5) if previous else b"") + b"\x00"
    expected = {"state": "a", "previous": None, "version": [1], "start_timestamp": -1, "start_event": None}
    if previous:
        expected["previous_timestamp"] = 5
    assert serializer.decode(i32(1) + state + i32(0)) == {"partial": [expected], "completed": []}


@pytest.mark.parametrize("package", SCALA)
class TestScala:
    def test_case_classes(self, package: str) -> None:
        name = package + "ScalaCaseClassSerializerSnapshot"
        snapshot = composite(name, 2, scalar("Int"), scalar("Long"), outer=utf("com.acme.Point"))
        serializer = read(snapshot)
        data = i32(1) + i64(2)
        assert (serializer.length, serializer.type_name) == (12, "Point(Integer, Long)")
        assert serializer.decode(data) == {"_1": 1, "_2": 2}
        described = {"com.acme.Point": {"x": "int", "y": "long"}}
        assert serializer.decode(data, classes=described) == {"x": 1, "y": 2}
        assert serializer.decode(data, classes={"com.acme.Point": {"x": "int"}}) == {"_1": 1, "_2": 2}

    def test_options(self, package: str) -> None:
        serializer = read(composite(package + "ScalaOptionSerializerSnapshot", 2, scalar("Int")))
        assert (serializer.decode(b"\x00"), serializer.decode(b"\x01" + i32(5))) == (None, 5)
        with pytest.raises(CorruptSnapshot):
            serializer.decode(b"\x02" + i32(5))

    def test_either_and_try(self, package: str) -> None:
        either = read(composite(package + "ScalaEitherSerializerSnapshot", 1, scalar("Int"), scalar("Long")))
        assert either.decode(b"\x01" + i32(5)) == {"left": 5, "right": None}
        attempt = read(composite(package + "ScalaTrySerializerSnapshot", 2, scalar("Int"), scalar("String")))
        assert attempt.decode(b"\x00\x02a") == {"success": None, "failure": "a"}

    def test_enumerations_are_decoded_by_id(self, package: str) -> None:
        payload = utf("Days$") + i32(2) + utf("Mon") + i32(7) + utf("Tue") + i32(-1)
        serializer = read(versioned(package + "ScalaEnumSerializerSnapshot", 3, payload))
        assert (serializer.decode(i32(-1)), serializer.length) == ("Tue", 4)
        with pytest.raises(CorruptSnapshot):
            serializer.decode(i32(0))

    def test_traversables_encode_nulls_as_zero(self, package: str) -> None:
        name = package + "TraversableSerializerSnapshot"
        serializer = read(composite(name, 2, scalar("Int"), outer=utf("implicitly[Factory]")))
        assert serializer.decode(i32(2) + b"\x00\x01" + i32(5)) == [None, 5]


def java_serializer() -> Serializer:
    return read(versioned("org.apache.flink.runtime.state.JavaSerializer$JavaSerializerSnapshot", 3))


def test_java_objects_are_decoded_to_plain_values() -> None:
    serializer = java_serializer()
    assert serializer.decode(bytes.fromhex("aced0005740002c3a9")) == "é"
    double = b"\x72" + utf("java.lang.Double") + i64(0) + b"\x02\x00\x01D" + utf("value") + b"\x78\x70"
    assert serializer.decode(b"\xac\xed\x00\x05\x73" + double + struct.pack(">d", float("nan"))) == "NaN"
    with pytest.raises(CorruptSnapshot):
        serializer.decode(bytes.fromhex("aced0005740003c3a9"))
    with pytest.raises(CorruptSnapshot):
        serializer.decode(bytes.fromhex("aced0005740002c3a900"))


def variant(value: bytes, metadata: bytes = NO_KEYS) -> Any:
    return read(VARIANT).decode(i32(len(value), len(metadata)) + value + metadata)


@pytest.mark.parametrize(("value", "expected"), [
    ("00", None), ("08", False), ("0cff", -1), ("096869", "hi"), ("20020a000000", 0.1),
    ("1c000000000000f87f", "NaN"), ("2cffffffff", "1969-12-31"),
])  # fmt: skip
def test_variants_are_decoded(value: str, expected: Any) -> None:
    assert variant(bytes.fromhex(value)) == expected


@pytest.mark.parametrize(("value", "metadata", "text"), [
    ("20020a000000", "010000", "0.10"),  # decimals are numbers, as PARSE_JSON reads every number with a fraction
    ("28260100000000000000" + "00" * 8, "010000", "1E-38"),
    ("0201000006" + "2001f3ffffff", "01010002c3a9", '{"é":-1.3}'),
    ("0302000609" + "20010f000000" + "09c3a9", "010000", '[1.5,"é"]'),
])  # fmt: skip
def test_variants_as_json_text(value: str, metadata: str, text: str) -> None:
    found = variant_json(bytes.fromhex(value), bytes.fromhex(metadata), Cursor(b""), 0)
    assert found == text


@pytest.mark.parametrize("value", [
    "",  # nothing
    "54",  # an unknown primitive
    "0d61",  # a short string longer than the value
    "03ff00",  # an array of 255 values in no bytes
    "020105000000",  # an object with a key that does not exist
    "40ffffffff",  # a string of 4 GiB
    "3000000000000000",  # a timestamp of seven bytes
    "09c328",  # not UTF-8
])  # fmt: skip
def test_damaged_variants_are_refused(value: str) -> None:
    with pytest.raises(CorruptSnapshot):
        variant(bytes.fromhex(value))


def test_a_variant_with_overlapping_values_is_refused() -> None:
    # Nested arrays whose two elements have the same offset: 2^n values in 5 n bytes.
    value = b"\x00"
    for _ in range(40):
        size = len(value)
        value = b"\x03\x02" + bytes([0, 0, min(size, 255)]) + value
    with pytest.raises(CorruptSnapshot, match="overlap or are more"):
        variant(value)


def bitmap(*containers: tuple[int, int, bytes]) -> bytes:
    cards = b"".join(struct.pack("<HH", key, cardinality - 1) for key, cardinality, _ in containers)
    offsets = bytes(4 * len(containers))
    return struct.pack("<II", 12346, len(containers)) + cards + offsets + b"".join(c for _, _, c in containers)


def test_bitmaps_with_array_and_bitset_containers() -> None:
    bits = bytes([0b11111111] * 513) + bytes(8192 - 513)
    data = bitmap((0, 1, b"\x05\x00"), (2, 4104, bits))
    assert positions(data) == [5, *range(2 << 16, (2 << 16) + 4104)]


@pytest.mark.parametrize("data", [
    b"", struct.pack("<II", 12346, 1), struct.pack("<I", 7), struct.pack("<II", 12346, 2**31),
    bitmap((0, 4104, bytes(8192))), bitmap((0, 1, b"\x05\x00")) + b"\x00",
])  # fmt: skip
def test_damaged_bitmaps_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        positions(data)


def test_a_small_bitmap_of_too_many_positions_is_refused() -> None:
    runs = b"".join(struct.pack("<HHH", 1, 0, 65535) for _ in range(200))
    cards = b"".join(struct.pack("<HH", key, 65535) for key in range(200))
    data = struct.pack("<I", 12347 | 199 << 16) + b"\xff" * 25 + cards + bytes(800) + runs
    with pytest.raises(UnsupportedSnapshot, match="13107200 positions"):
        positions(data)


def test_gelly_strings_have_a_count_and_a_size() -> None:
    array = "StringValueArraySerializer"
    name = f"org.apache.flink.graph.types.valuearray.{array}${array}Snapshot"
    serializer = read(versioned(name, 3))
    assert serializer.decode(i32(2, 4) + b"\x01a\x01b") == ["a", "b"]
    assert serializer.decode(i32(0, 0)) == []
    for damaged in (i32(2, 3) + b"\x01a\x01b", i32(1, 4) + b"\x01a\x01b", i32(2**31 - 1, 4) + b"\x01a\x01b"):
        with pytest.raises(CorruptSnapshot):
            serializer.decode(damaged)


def test_char_arrays() -> None:
    array = "CharPrimitiveArraySerializer"
    name = f"org.apache.flink.api.common.typeutils.base.array.{array}${array}Snapshot"
    assert read(versioned(name, 3)).decode(i32(2) + "aé".encode("utf-16-be")) == ["a", "é"]


@pytest.mark.parametrize(("version", "outer", "data", "pending"), [
    (4, b"\x01", b"\x00", None),
    (4, b"\x00", b"\x02t" + i64(5), {"transaction": "t", "start": 5}),
    (3, b"", b"\x01\x02t" + i64(5), {"transaction": "t", "start": 5}),
    (2, b"", b"\x02t" + i64(5), {"transaction": "t", "start": 5}),
])  # fmt: skip
def test_two_phase_commit_states(version: int, outer: bytes, data: bytes, pending: Any) -> None:
    name = "org.apache.flink.streaming.api.functions.sink.TwoPhaseCommitSinkFunction$StateSerializerSnapshot"
    serializer = read(composite(name, version, scalar("String"), scalar("Int"), outer=outer))
    expected = {"pending": pending, "pending_commits": [], "context": None}
    assert serializer.decode(data + i32(0) + b"\x00") == expected


def test_every_truncation_of_a_snapshot_is_refused() -> None:
    snapshot = composite(CEP + "NFAStateSerializerSnapshot", 2, DEWEY, NODE_ID, EVENT_ID, outer=b"\x01")
    for end in range(len(snapshot)):
        with pytest.raises(SnapshotError):
            read(snapshot[:end])


def test_changed_bitmaps_are_refused_or_hold_ascending_positions() -> None:
    dice = random.Random(11)
    bits = bytes([0b11111111] * 513) + bytes(8192 - 513)
    runs = struct.pack("<I", 12347) + b"\x01" + struct.pack("<HH", 3, 14) + struct.pack("<HHHHH", 2, 5, 9, 100, 4)
    assert positions(runs) == [(3 << 16) + n for n in (*range(5, 15), *range(100, 105))]
    samples = (runs, bitmap((0, 1, b"\x05\x00"), (2, 4104, bits)), bitmap((1, 3, b"\x01\x00\x02\x00\x09\x00")))
    for _ in range(3000):
        changed = bytearray(dice.choice(samples))
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(min(40, len(changed)))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        try:
            found = positions(bytes(changed[: dice.choice((len(changed), dice.randrange(len(changed))))]))
        except (CorruptSnapshot, UnsupportedSnapshot):
            continue
        assert found == sorted(set(found))
