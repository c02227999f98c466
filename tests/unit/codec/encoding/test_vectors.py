"""Every value of the serializer vectors is encoded to Flink's bytes, alone, in a batch and sliced."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec.errors import Unrepresentable
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.base import Unwritable
from stateproc.codec.machine import DecodeFailure, ValueDecoder
from stateproc.serializers import read_snapshot
from stateproc.serializers.core.base import LayoutContext, Undecodable
from stateproc.serializers.java.class_descriptions import parse_classes
from tests.helpers.sweeps import sample
from tests.helpers.vectors import VECTORS, read_vectors, sweep_marks

# Kinds with values that cannot be encoded, and the reason. Their other values are compared.
READ_ONLY = {
    "Kryo": "object graphs",
    "Java": "Java object streams",
    "Variant": "JSON text does not say which of its numeric types a variant has",
    "Avro recursive": "read as JSON text",
    "StreamElement": "markers lose what they hold when they are read, and are never in state",
    "Scala Try": "a failure is a Java exception",
    "Pojo": "a field of its own class, and a subclass that is no POJO, are Kryo's",
    "Record nested": "a field of its own class is Kryo's",
}
# Kinds with values that cannot be decoded with the vector's information.
UNTOLD = {
    "Kryo": "classes without descriptions",
    "Value of a user class": "the class's own code writes the bytes",
    "Pojo": "a field of its own class is Kryo's",
    "Record nested": "a field of its own class is Kryo's",
    "LinkedList without mask of 1.13.6": "outer version 2 stores no flag and means a mask",
    "LocalDate": "years beyond Arrow's dates, with temporal='micros'",
    "LocalDateTime": "as LocalDate",
    "Instant": "as LocalDate",
}


def _entries() -> list[Any]:
    return [
        pytest.param(
            path.name,
            index,
            temporal,
            id=f"{path.stem}-{entry['name']}-{temporal}",
            marks=sweep_marks(path.name, entry),
        )
        for path in sorted(VECTORS.glob("flink-[0-9]*.json"))
        for index, entry in enumerate(read_vectors(path.name)["serializers"])
        for temporal in ("exact", "micros")
    ]


def _layout(vectors: dict[str, Any], entry: dict[str, Any], temporal: str) -> Layout:
    classes = parse_classes(entry.get("classes", {}))
    kryo = 5 if vectors["flink"].startswith("2") else 2
    ctx = LayoutContext(kryo=kryo, classes=classes, temporal=temporal, row_kind=True, tail=True)
    return read_snapshot(bytes.fromhex(entry["snapshot"])).layout(ctx)


def _decoded(decoder: ValueDecoder, data: bytes) -> pa.Array:
    raw = np.frombuffer(data + bytes(8), dtype=np.uint8)
    return decoder.decode(raw, np.zeros(1, np.int64), np.array([len(data)], np.int64))


def encoded(layout: Layout, array: pa.Array) -> list[bytes]:
    row_bytes = layout.encode(array)
    assert len(row_bytes) == len(array)
    data = row_bytes.data.tobytes()
    return [data[start:stop] for start, stop in zip(row_bytes.offsets, row_bytes.offsets[1:], strict=False)]


def lost(value: Any, data: bytes, name: str, temporal: str) -> str | None:
    """Return why the decoded value cannot be encoded to the same bytes, or None if it can."""
    text = json.dumps(value, ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "half of a surrogate pair is read as U+FFFD, for UTF-8 has none"
    if name in ("BigInt", "BigDec") and data[:5] in (b"\0\0\0\5\0", b"\0\0\0\5\1", b"\0\0\0\5\n"):
        return "0, 1 and 10 that are not Java's constants have another form than those"
    if temporal == "micros" and re.search(r"\d:\d\d\.\d{6}(?!000)\d{3}", text):
        return "nanoseconds are cut"
    return None


def _named(names: dict[str, str], name: str, release: str) -> bool:
    return any(key in (name, f"{name} of {release}") or name.startswith(f"{key} ") for key in names)


def _kinds(file: str, index: int, temporal: str) -> set[str]:
    """Return the serializer; and the form of times, of serializers that have times."""
    name = read_vectors(file)["serializers"][index]["name"]
    return {name, f"{name} {temporal}"} if re.search("(?i)time|date|instant", name) else {name}


@pytest.mark.parametrize(("file", "index", "temporal"), sample(_entries(), _kinds))
def test_values_are_encoded_to_the_bytes_that_flink_wrote(file: str, index: int, temporal: str) -> None:
    vectors = read_vectors(file)
    entry = vectors["serializers"][index]
    name, release = entry["name"], vectors["flink"]
    try:
        layout = _layout(vectors, entry, temporal)
    except Undecodable:
        assert _named(UNTOLD, name, release)
        return
    decoder = ValueDecoder(layout)
    arrays, expected = [], []
    for case in entry["cases"]:
        data = bytes.fromhex(case["data"])
        try:
            array = _decoded(decoder, data)
        except (DecodeFailure, Unrepresentable):
            assert _named(UNTOLD, name, release)
            continue
        try:
            (again,) = encoded(layout, array)
        except Unwritable:
            assert _named(READ_ONLY, name, release)
            continue
        assert (again == data) == (lost(case["value"], data, name, temporal) is None), (data.hex(), again.hex())
        assert _decoded(decoder, again).equals(array) or "NaN" in str(case["value"])
        arrays.append(array)
        expected.append(again)
    if not arrays:
        return
    batch = pa.concat_arrays(arrays)
    assert encoded(layout, batch) == expected
    assert encoded(layout, batch.slice(1)) == expected[1:]
    assert encoded(layout, batch.slice(1, max(0, len(batch) - 2))) == expected[1:-1]
    assert encoded(layout, batch.slice(len(batch))) == []
