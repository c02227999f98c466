"""Unknown serializers in every kind of state, by hand-made canonical savepoints and operator states."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import stateproc
from stateproc import UnreadableStateWarning, UnsupportedSnapshot
from tests.helpers.byte_builders.metadata import (
    i32,
    i64,
    inline,
    key_groups,
    metadata,
    operator,
    operator_handle,
    subtask,
    utf,
)
from tests.helpers.byte_builders.serializers import BASE, composite, scalar, versioned
from tests.helpers.fixtures import CLASSES, fixtures

VOID = versioned("org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot", 3)
UNKNOWN = versioned("com.acme.MoneySnapshot", 1)
TTL = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot"
SECOND = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc)
Entries = list[tuple[bytes, bytes]]
STATES: dict[str, tuple[str, bytes, Entries]] = {
    "value": ("VALUE", UNKNOWN, [(b"", b"one")]),
    "ttl": ("VALUE", composite(TTL, 2, scalar("Long"), UNKNOWN), [(b"", i64(1000) + b"two")]),
    "list": ("LIST", composite(f"{BASE}ListSerializerSnapshot", 1, UNKNOWN), [(b"", b"a,b")]),
    "keys": (
        "MAP",
        composite(f"{BASE}MapSerializerSnapshot", 1, UNKNOWN, scalar("Long")),
        [(b"x", b"\0" + i64(1)), (b"yy", b"\1")],
    ),
    "both": (
        "MAP",
        composite(f"{BASE}MapSerializerSnapshot", 1, UNKNOWN, UNKNOWN),
        [(b"x", b"\0" + b"three"), (b"yy", b"\1")],
    ),
    "known": ("VALUE", scalar("Long"), [(b"", i64(4))]),
}
"""State → kind, value serializer, and (user key, value) of the entries of key 7."""
BYTES = {
    "value": b"one",
    "ttl": b"two",
    "list": b"a,b",
    "keys": [(b"x", 1), (b"yy", None)],
    "both": [(b"x", b"three"), (b"yy", None)],
    "known": 4,
}


def savepoint(directory: Path, **options: str) -> stateproc.Snapshot:
    """Write a canonical savepoint of one key with a value in each of ``STATES``, and two operator states."""
    header = i32(6) + b"\0" + i32(2) + scalar("Long") + len(STATES).to_bytes(2, "big")
    group = b"\0\0"
    for index, (name, (kind, serializer, entries)) in enumerate(STATES.items()):
        header += utf(name) + i32(0, 1) + utf("KEYED_STATE_TYPE") + utf(kind) + i32(2)
        header += utf("NAMESPACE_SERIALIZER") + i32(2) + VOID + utf("VALUE_SERIALIZER") + i32(2) + serializer
        for position, (user_key, value) in enumerate(entries):
            last = position == len(entries) - 1
            key = bytes([0x85 if last else 0x05]) + i64(7) + b"\0" + user_key
            group += i32(len(key)) + key + i32(len(value)) + value
        group += (index + 1).to_bytes(2, "big") if index + 1 < len(STATES) else b"\xff\xff"
    keyed = key_groups(7, 0, [0] * 5 + [len(header)] + [0] * 122, inline("keyed", header + group))
    listed = i32(5) + b"\0\1" + utf("elements") + i32(1, 1) + utf("OPERATOR_STATE_DISTRIBUTION_MODE")
    listed += utf("SPLIT_DISTRIBUTE") + i32(1) + utf("VALUE_SERIALIZER") + i32(2) + UNKNOWN + b"\0\0"
    at = len(listed)
    elements = operator_handle([("elements", 0, [at, at + 3])], inline("listed", listed + b"onefour"))
    part = subtask(4, 0, managed_operator=elements, managed_keyed=keyed)
    (directory / "_metadata").write_bytes(metadata(4, [operator(4, [part], parallelism=1)]))
    return stateproc.open(str(directory), **options)


def test_every_kind_as_bytes(tmp_path: Path) -> None:
    (found,) = savepoint(tmp_path, opaque="bytes").operators
    assert {state.name: state.to_arrow()["value"].to_pylist() for state in found.keyed_states} == {
        name: [value] for name, value in BYTES.items()
    }
    [row] = found.wide().to_arrow().to_pylist()
    assert row == {"key_group": 5, "key": 7, "value": b"one", "ttl_last_access": SECOND, **BYTES}
    assert found.state("list").schema().names == ["key_group", "key", "value"]
    flat = found.state("both").to_arrow(flatten=True).to_pylist()
    assert [(row["map_key"], row["map_value"]) for row in flat] == BYTES["both"]
    assert found.state("elements").to_arrow().to_pylist() == [
        {"subtask": 0, "value": b"one"},
        {"subtask": 0, "value": b"four"},
    ]


def test_every_kind_as_null(tmp_path: Path) -> None:
    (found,) = savepoint(tmp_path, on_error="null").operators
    types = {
        "value": pa.null(),
        "ttl": pa.null(),
        "list": pa.list_(pa.null()),
        "keys": pa.null(),
        "both": pa.null(),
    }
    for name, type_ in types.items():
        with pytest.warns(UnreadableStateWarning, match=f"null because it cannot be decoded: '{name}'"):
            table = found.state(name).to_arrow()
        assert table.schema.field("value").type == type_
        row = {"key_group": 5, "key": 7, "value": None}
        assert table.to_pylist() == [row | ({"last_access": None} if name == "ttl" else {})]
        with pytest.warns(UnreadableStateWarning):
            assert found.state(name).to_arrow(flatten=True).num_rows == 1
    with pytest.warns(UnreadableStateWarning) as recorded:
        [row] = found.wide().to_arrow().to_pylist()
    assert len(recorded) == 1
    assert row == {"key_group": 5, "key": 7, "ttl_last_access": None, "known": 4, **dict.fromkeys(types)}
    with pytest.warns(UnreadableStateWarning, match="'elements'"):
        assert found.state("elements").to_arrow().to_pylist() == 2 * [{"subtask": 0, "value": None}]


def test_every_kind_is_an_error_by_default(tmp_path: Path) -> None:
    (found,) = savepoint(tmp_path).operators
    for state in found.states:
        if state.name == "known":
            assert state.to_arrow().to_pylist() == [{"key_group": 5, "key": 7, "value": 4}]
            continue
        for read in (state.schema, state.splits, state.to_arrow):
            with pytest.raises(UnsupportedSnapshot, match=r"com\.acme\.MoneySnapshot") as refused:
                read()
            assert "opaque='bytes'" in (refused.value.advice or ""), state.name


@pytest.mark.parametrize("flatten", [False, True])
def test_values_of_an_unlisted_class_are_null_one_by_one(flatten: bool) -> None:
    """The POJO's serializer is known, and which subclasses its values have shows only in the data."""
    fixture = next(item for item in fixtures() if item.name == "1.20/edges-hashmap-canonical")
    described = fixture.open(classes=CLASSES).operator("edges-generic").state("animal").to_arrow().to_pylist()
    dogs = {row["key"] for row in described if row["value"]["class"] == "fixtures.Edges$Dog"}
    assert 0 < len(dogs) < len(described)
    state = fixture.open(on_error="null").operator("edges-generic").state("animal")
    assert state.problem is None
    with pytest.warns(UnreadableStateWarning, match=r"values of state 'animal' .* are null: .*fixtures\.Edges\$Dog"):
        rows = state.to_arrow(flatten=flatten).to_pylist()
    assert {row["key"] for row in rows} == {row["key"] for row in described}
    assert {row["key"] for row in rows if row["value"] is None} == dogs
    cats = {row["key"]: row["value"]["name"] for row in described if row["key"] not in dogs}
    assert {row["key"]: row["value"]["name"] for row in rows if row["value"] is not None} == cats
    with pytest.raises(UnsupportedSnapshot, match=r"fixtures\.Edges\$Dog"):
        fixture.open().operator("edges-generic").state("animal").to_arrow()
