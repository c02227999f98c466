"""Serializer snapshots of every vector and fixture are written byte for byte as Flink wrote them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stateproc.codec.layouts import AlwaysNull
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers import Serializer, proxied_snapshot, read_proxied, read_snapshot
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.wire import Cursor
from tests.helpers.paths import FIXTURES
from tests.helpers.sweeps import sample
from tests.helpers.vectors import VECTORS, read_vectors, sweep_marks

# Snapshots that are read but not written with the same bytes, and the reason.
EXCEPTIONS = {
    "TtlAware ": "TtlAwareSerializer adds no bytes to values and no state holds its snapshot: Flink 2 takes it off",
}


def _release(text: str) -> Release:
    major, minor = text.split(".")[:2]
    return Release(int(major), int(minor))


def _snapshots() -> list[Any]:
    """Return (snapshot, release), including equal entries of another release's file."""
    found = []
    for path in sorted(VECTORS.glob("flink-[0-9]*.json")):
        vectors = read_vectors(path.name)
        entries = list(vectors["serializers"])
        for release, names in vectors.get("same_as", {}).items():
            others = {entry["name"]: entry for entry in read_vectors(f"flink-{release}.json")["serializers"]}
            entries += [others[name] for name in names if name in others]
        for entry in entries:
            if not entry["name"].startswith(tuple(EXCEPTIONS)):
                found.append(
                    pytest.param(
                        bytes.fromhex(entry["snapshot"]),
                        _release(vectors["flink"]),
                        id=f"{vectors['flink']}-{entry['name']}",
                        marks=sweep_marks(path.name, entry, by_snapshot=True),
                    )
                )
    return found


@pytest.mark.parametrize(("snapshot", "release"), _snapshots())
def test_a_vectors_snapshot_is_written_as_it_was_read(snapshot: bytes, release: Release) -> None:
    assert proxied_snapshot(read_snapshot(snapshot), release) == snapshot


_PROXIED = re.compile(rb"\x00\x00\x00\x02(?=\x00[\x10-\xff][a-z]+\.[\w.$]+)")


def snapshots_in(data: bytes) -> list[tuple[bytes, Serializer]]:
    """Return every proxied snapshot in the bytes of a file, found by its first bytes."""
    found = []
    for match in _PROXIED.finditer(data):
        cursor = Cursor(data, pos=match.start())
        try:
            serializer = read_proxied(cursor)
        except SnapshotError:
            continue
        found.append((data[match.start() : cursor.pos], serializer))
    return found


_LINES = sorted((path.name for path in FIXTURES.iterdir() if path.is_dir()), key=_release, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("line", sample(_LINES, lambda line: {line[0]}))
def test_a_fixtures_snapshots_are_written_as_they_were_read(line: str) -> None:
    count = 0
    for path in sorted((FIXTURES / line).rglob("*")):
        if not path.is_file() or path.suffix in (".sst", ".jsonl", ".parquet"):
            continue
        for snapshot, serializer in snapshots_in(path.read_bytes()):
            written = proxied_snapshot(serializer, _release(line))
            assert written == snapshot, f"{path.relative_to(FIXTURES)}: {serializer.type_name}"
            count += 1
    assert count > 0


def test_scala_types_are_in_another_package_in_flink_2() -> None:
    entries = {entry["name"]: entry for entry in read_vectors("flink-1.20.3.json")["serializers"]}
    moved = {entry["name"]: entry for entry in read_vectors("flink-2.3.0.json")["serializers"]}
    # Kryo's settings name Flink classes that have moved, in bytes that are copied unchanged.
    names = [
        name
        for name, entry in entries.items()
        if b"api.scala" in bytes.fromhex(entry["snapshot"]) and b"Kryo" not in bytes.fromhex(entry["snapshot"])
    ]
    assert len(names) > 5
    for name in names:
        written = proxied_snapshot(read_snapshot(bytes.fromhex(entries[name]["snapshot"])), Release(2, 3))
        assert written.hex() == moved[name]["snapshot"], name


HOLDER = b"org.apache.flink.api.common.ExecutionConfig$SerializableSerializer"


def test_kryo_of_flink_1_is_written_for_flink_2() -> None:
    """Serializer objects, which Flink 2 cannot read, are omitted; the classes and their ids are kept."""
    entries = read_vectors("flink-1.20.3.json")["serializers"]
    snapshots = [data for entry in entries if HOLDER in (data := bytes.fromhex(entry["snapshot"]))]
    assert len(snapshots) > 3
    for data in snapshots:
        serializer = read_snapshot(data)
        written = proxied_snapshot(serializer, Release(2, 3))
        assert HOLDER not in written
        again = read_snapshot(written)
        assert [part.registrations for part in kryo_parts(again)] == [
            part.registrations for part in kryo_parts(serializer)
        ]
        assert proxied_snapshot(serializer, Release(1, 20)) == data
    own = next(
        data for data in snapshots if b"java.util.UUID" not in data and len(kryo_parts(read_snapshot(data))) == 1
    )
    # A user class whose name has the same length, registered in the same way.
    avro = b"org.apache.avro.generic.GenericData$Array"
    own = own.replace(avro, b"com.acme.Registered".ljust(len(avro), b"_"))
    with pytest.raises(UnsupportedSnapshot, match=r"registered for com\.acme\.\S* as an object"):
        proxied_snapshot(read_snapshot(own), Release(2, 3))


def kryo_parts(serializer: Serializer) -> list[Kryo]:
    own = [serializer] if isinstance(serializer, Kryo) else []
    return own + [part for inner in serializer.nested for part in kryo_parts(inner)]


def test_writing_a_read_only_serializer_is_refused() -> None:
    with pytest.raises(UnsupportedSnapshot, match=r"no serializer snapshot can be written"):
        proxied_snapshot(Opaque("com.acme.Snapshot"), Release(1, 20))
    with pytest.raises(UnsupportedSnapshot, match=r"no serializer snapshot can be written"):
        proxied_snapshot(Scalar("Own", "Own", AlwaysNull(0), 0), Release(1, 20))
