"""Small values that ask for much: huge counts, references without end, nesting; in savepoints as Flink has them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import pytest

import stateproc
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from tests.helpers.byte_builders.changelog import VOID, canonical, fstr, state_info
from tests.helpers.byte_builders.metadata import bytes32, i32, metadata, operator, subtask, utf
from tests.helpers.byte_builders.serializers import BASE, scalar, versioned
from tests.helpers.damage.child_processes import run_cases

JAVA = versioned("org.apache.flink.runtime.state.JavaSerializer$JavaSerializerSnapshot", 3)
VARIANT, BITMAP = (scalar(name) for name in ("Variant", "Bitmap"))
_MAP = struct.pack(">qi", 0x000004F2C69A3D70, 0)
KRYO = versioned(
    "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot", 2, utf("java.util.List") + 3 * _MAP
)
LIST = BASE + "ListSerializerSnapshot"
REFERENCES = 60_000


def saved(directory: Path, value_type: bytes, value: bytes) -> str:
    """A canonical savepoint with one entry of one value state."""
    directory.mkdir()
    handle = canonical(5, [(fstr("k") + b"\0", value)], state_info("s", "VALUE", value_type))
    body = metadata(4, [operator(4, [subtask(4, 0, managed_keyed=handle)], parallelism=1)])
    (directory / "_metadata").write_bytes(body)
    return str(directory)


# --- values ----------------------------------------------------------------------------------------------


def java_list(*elements: bytes, claimed: int | None = None) -> bytes:
    """Object[] of these contents."""
    described = b"\x72" + utf("[Ljava.lang.Object;") + struct.pack(">q", 1) + b"\x02\0\0\x78\x70"
    return b"\x75" + described + i32(len(elements) if claimed is None else claimed) + b"".join(elements)


def java_reference(index: int) -> bytes:
    return b"\x71" + struct.pack(">i", 0x7E0000 + index)


def java_doubling(levels: int) -> bytes:
    """Each array holds the next one, and it again: 2 ** levels leaves."""
    made = b"\x74" + utf("leaf")
    # Handles: per level the class, the array; then the leaf.
    for level in range(levels - 1, -1, -1):
        again = java_reference(2 * (level + 1) + 1 if level + 1 < levels else 2 * levels)
        made = java_list(made, again)
    return made


def java_nested(levels: int) -> bytes:
    described = b"\x72" + utf("[Ljava.lang.Object;") + struct.pack(">q", 1) + b"\x02\0\0\x78\x70"
    again = b"\x75" + java_reference(0) + i32(1)
    return b"\x75" + described + i32(1) + again * (levels - 1) + b"\x70"


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def kryo_text(text: str) -> bytes:
    return text[:-1].encode() + bytes([ord(text[-1]) | 0x80])


ARRAY_LIST = b"\x01\0" + kryo_text("java.util.ArrayList")
AGAIN = b"\x01\0"
"""The class ArrayList by name, and by the id that this name has."""


def kryo_list(*elements: bytes, first: bool = False, claimed: int | None = None) -> bytes:
    """An ArrayList of Kryo 2 with its class and mark."""
    count = len(elements) if claimed is None else claimed
    return (ARRAY_LIST if first else AGAIN) + b"\x01" + varint(count) + b"".join(elements)


def kryo_doubling(levels: int) -> bytes:
    made = AGAIN + b"\x01\0"
    for level in range(levels - 1, -1, -1):
        made = kryo_list(made, AGAIN + varint(level + 1 + 2), first=level == 0)
    return made


def kryo_long_text() -> bytes:
    """A string of 60,000 characters, and 60,000 references to it."""
    text = b"\x03\x01" + kryo_text("x" * 60_000)
    return kryo_list(text, *[b"\x03\x03"] * REFERENCES, first=True)


def variant(value: bytes, metadata_: bytes = b"\x01\0\0") -> bytes:
    return i32(len(value), len(metadata_)) + value + metadata_


def variant_nested(levels: int) -> bytes:
    value = b"\0"
    for _ in range(levels):
        # An array of one element, with offsets of four bytes.
        value = bytes([3 | 3 << 2, 1]) + (0).to_bytes(4, "little") + len(value).to_bytes(4, "little") + value
    return value


def variant_overlapping(levels: int) -> bytes:
    """Each array's 200 elements are all the one next array."""
    value = b"\0"
    for _ in range(levels):
        value = bytes([3 | 3 << 2, 200]) + bytes(4 * 200) + len(value).to_bytes(4, "little") + value
    return value


def variant_repeated_text() -> bytes:
    """An array of 100,000 elements that are all one text of 60,000 bytes."""
    count = 100_000
    text = bytes([16 << 2]) + (60_000).to_bytes(4, "little") + b"x" * 60_000
    return bytes([3 | 7 << 2]) + count.to_bytes(4, "little") + bytes(4 * (count + 1)) + text


def bitmap_of_runs(containers: int) -> bytes:
    """Each container is one run of all its 65,536 positions."""
    flags = b"\xff" * ((containers + 7) // 8)
    heads = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(containers))
    body = struct.pack("<HHH", 1, 0, 0xFFFF) * containers
    return struct.pack("<I", 12347 | containers - 1 << 16) + flags + heads + bytes(4 * containers) + body


CORRUPT, UNSUPPORTED, EITHER = (CorruptSnapshot,), (UnsupportedSnapshot,), (CorruptSnapshot, UnsupportedSnapshot)
HEAD = bytes.fromhex("aced0005")
VALUES: dict[str, tuple[bytes, bytes, tuple[type, ...]]] = {
    "java: an array of two billion": (JAVA, HEAD + java_list(claimed=2**31 - 1), CORRUPT),
    "java: a negative array": (JAVA, HEAD + java_list(claimed=-1), CORRUPT),
    "java: arrays in arrays, ten thousand": (JAVA, HEAD + java_nested(10_000), UNSUPPORTED),
    "java: two of the next, forty times": (JAVA, HEAD + java_doubling(40), UNSUPPORTED),
    "java: one long text, referred to again and again": (
        JAVA, HEAD + java_list(b"\x74" + utf("x" * 60_000), *[java_reference(2)] * REFERENCES), UNSUPPORTED,
    ),
    "java: a long string of 2 ** 62 bytes": (JAVA, HEAD + b"\x7c" + struct.pack(">q", 2**62), CORRUPT),
    "java: a reference to nothing": (JAVA, HEAD + java_reference(9), CORRUPT),
    "kryo: a list of two billion": (KRYO, kryo_list(first=True, claimed=2**31 - 1), CORRUPT),
    "kryo: lists in lists, ten thousand": (
        KRYO, ARRAY_LIST + b"\x01\x01" + (AGAIN + b"\x01\x01") * 10_000 + AGAIN + b"\x01\0", UNSUPPORTED,
    ),
    "kryo: two of the next, forty times": (KRYO, kryo_doubling(40), UNSUPPORTED),
    "kryo: one long text, referred to again and again": (KRYO, kryo_long_text(), UNSUPPORTED),
    "kryo: a reference to nothing": (KRYO, kryo_list(AGAIN + b"\x7f", first=True), CORRUPT),
    "variant: an array of four billion": (VARIANT, variant(bytes([3 | 7 << 2]) + b"\xff" * 8), CORRUPT),
    "variant: arrays in arrays, a thousand": (VARIANT, variant(variant_nested(1000)), CORRUPT),
    "variant: parts that overlap": (VARIANT, variant(variant_overlapping(6)), CORRUPT),
    "variant: one text, again and again": (VARIANT, variant(variant_repeated_text()), CORRUPT),
    "variant: four billion keys": (VARIANT, variant(b"\0", b"\xc1" + b"\xff" * 8), CORRUPT),
    "variant: itself": (VARIANT, variant(bytes([3, 1]) + b"\0\0" + bytes([3, 1])), CORRUPT),
}  # fmt: skip


def _refused(path: str, kinds: tuple[type, ...]) -> Callable[[], Any]:
    def run() -> Any:
        (state,) = stateproc.open(path).states
        with pytest.raises(SnapshotError) as caught:
            state.to_arrow()
        error = caught.value
        assert isinstance(error, kinds), error
        assert error.advice
        assert error.where.state == "s"
        raise error

    return run


def test_values_that_ask_for_much_are_refused_soon(tmp_path: Path) -> None:
    # Kernels are compiled before the seconds of a case are counted.
    assert stateproc.open(saved(tmp_path / "sound", KRYO, kryo_list(first=True))).states[0].to_arrow().num_rows == 1
    cases = [
        (name, _refused(saved(tmp_path / str(index), type_, value), kinds))
        for index, (name, (type_, value, kinds)) in enumerate(VALUES.items())
    ]
    assert run_cases(cases, workers=1).failures == ()


def test_a_cycle_is_reported_and_not_followed(tmp_path: Path) -> None:
    java = saved(tmp_path / "java", JAVA, HEAD + java_list(java_reference(1)))
    (row,) = stateproc.open(java).states[0].to_arrow().to_pylist()
    assert json.loads(row["value"]) == [{"class": "[Ljava.lang.Object;", "cycle": True}]
    kryo = saved(tmp_path / "kryo", KRYO, kryo_list(AGAIN + b"\x02", first=True))
    (row,) = stateproc.open(kryo).states[0].to_arrow().to_pylist()
    assert "1" in row["value"]


@pytest.mark.parametrize("containers", [64, 1000])
def test_a_bitmap_of_everything_stays_bytes(tmp_path: Path, containers: int) -> None:
    data = bitmap_of_runs(containers)
    path = saved(tmp_path / "bitmap", BITMAP, bytes32(data))
    (row,) = stateproc.open(path).states[0].to_arrow().to_pylist()
    assert row["value"] == data
    serializer = stateproc.serializers.read_snapshot(BITMAP)
    if containers == 64:
        assert len(serializer.decode(bytes32(data))) == 64 << 16
        return
    with pytest.raises(UnsupportedSnapshot, match="a bitmap of 65536000 positions"):
        serializer.decode(bytes32(data))


def nested_lists(levels: int) -> bytes:
    head = versioned(LIST, 3, i32(911108, 1) + i32(1333245, 1, 1))
    return head * levels + scalar("Long")


@pytest.mark.parametrize("levels", [100, 1000, 20_000])
def test_lists_in_lists_in_a_header(tmp_path: Path, levels: int) -> None:
    def run() -> Any:
        opened = stateproc.open(saved(tmp_path / str(levels), nested_lists(levels), i32(0)))
        # That of the header, or of the one state whose description it is.
        (problem,) = opened.operators[0].problems or [state.problem for state in opened.states]
        assert problem is not None and "deep" in str(problem)
        assert problem.advice
        raise problem

    assert run_cases([(f"{levels} levels", run)], workers=1).failures == ()


def test_lists_as_deep_as_may_be(tmp_path: Path) -> None:
    opened = stateproc.open(saved(tmp_path / "deep", nested_lists(30), i32(1) * 29 + i32(0)))
    (row,) = opened.states[0].to_arrow().to_pylist()
    value, depth = row["value"], 0
    while value:
        (value,) = value
        depth += 1
    assert depth == 29


def _compressed(tmp_path: Path, body: bytes, heap: bool) -> str:
    """A snapshot with compression: one key group, whose plain bytes are ``body``."""
    from tests.helpers.byte_builders.metadata import inline, key_groups

    head = i32(6) + b"\x01" + i32(2) + scalar("Long") + b"\0\1"
    head += state_info("s", "VALUE", scalar("String"), VOID)
    data = (i32(5) if heap else b"") + bytes(cramjam.snappy.compress(body))
    offsets = [len(head) if group == 5 else 0 for group in range(6)]
    if heap:
        offsets = [len(head)]
    kind, first = (12, 5) if heap else (7, 0)
    handle = key_groups(kind, first, offsets, inline("compressed", head + data), "id")
    tmp_path.mkdir()
    body = metadata(4, [operator(4, [subtask(4, 0, managed_keyed=handle)], parallelism=1)])
    (tmp_path / "_metadata").write_bytes(body)
    return str(tmp_path)


@pytest.mark.parametrize("heap", [True, False])
def test_compressed_key_groups_that_claim_more_than_there_is(tmp_path: Path, heap: bool) -> None:
    """100 MB of zeros in 5 MB; in them an entry, a string, a count of two billion."""
    zeros = bytes(100 << 20)
    claim = i32(2**31 - 1)
    bodies = {
        "a claim": b"\0\0" + claim + zeros,
        "one entry of much": b"\0\0" + (i32(1) + b"\0" + bytes(8) if heap else i32(10) + b"\x85" + bytes(9) + claim),
    }
    bodies["one entry of much"] += (b"\xff" * 4 + b"\x07" if heap else b"") + zeros
    cases = [
        (name, _refused(_compressed(tmp_path / f"{name}{heap}", body, heap), CORRUPT)) for name, body in bodies.items()
    ]
    assert run_cases(cases, workers=1).failures == ()


def test_chunks_of_snappy_that_claim_more_than_there_is(tmp_path: Path) -> None:
    identifier = b"\xff\x06\0\0sNaPpY"
    for raw in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x80", b"\x80\x80\x04" + b"\0" * 4):
        chunk = b"\0" + (len(raw) + 4).to_bytes(3, "little") + bytes(4) + raw
        path = Path(_compressed(tmp_path / raw.hex(), b"x", False)) / "_metadata"
        data = path.read_bytes()
        at = data.index(identifier)
        size = len(bytes(cramjam.snappy.compress(b"x")))
        framed = data[:at] + identifier + chunk + data[at + size :]
        length_at = data.rindex(b"compressed", 0, at) + len("compressed")
        length = int.from_bytes(data[length_at : length_at + 4], "big") + len(identifier + chunk) - size
        path.write_bytes(framed[:length_at] + i32(length) + framed[length_at + 4 :])
        with pytest.raises(CorruptSnapshot) as caught:
            stateproc.open(str(path)).states[0].to_arrow()
        assert caught.value.where.offset
        assert caught.value.advice
