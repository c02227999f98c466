"""A serializer snapshot that is damaged, or of a version that is not known, makes its own state unreadable only."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import stateproc
from stateproc import SnapshotError, UnreadableStateWarning, UnsupportedSnapshot
from stateproc.model.operator import Operator
from tests.helpers.fixtures import Fixture, fixtures

UID = "kitchen-string"
RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
BASE = "org.apache.flink.api.common.typeutils.base."
CASES = [
    item
    for item in fixtures()
    if item.name.split("/", 1)[1] in ("tiny-hashmap-canonical-inline", "tiny-hashmap-checkpoint-inline")
]


def changed(fixture: Fixture, directory: Path, state: str, class_name: str, at: int, value: bytes) -> Operator:
    """Copy the snapshot and overwrite bytes after the state's first snapshot class of that name, in every header."""
    shutil.copytree(Path(fixture.snapshot), directory / "snapshot")
    metadata = directory / "snapshot" / "_metadata"
    data = bytearray(metadata.read_bytes())
    name = len(state).to_bytes(2, "big") + state.encode() + b"\0\0\0\0"
    found = data.find(name)
    while found >= 0:
        start = data.index(class_name.encode(), found) + len(class_name)
        data[start + at : start + at + len(value)] = value
        found = data.find(name, start)
    metadata.write_bytes(bytes(data))
    return stateproc.open(str(directory / "snapshot"), uids=[UID]).operator(UID)


@pytest.mark.parametrize("fixture", CASES, ids=lambda item: item.name)
@pytest.mark.parametrize(
    ("state", "class_name", "damage"),
    [
        ("profile", f"{RUNTIME}PojoSerializerSnapshot", (0, b"\0\0\0\x63")),
        ("profile", f"{RUNTIME}PojoSerializerSnapshot", (4, b"\xff\xff\xff\xff")),
        ("spent", f"{BASE}MapSerializerSnapshot", (4, b"\xff\xff\xff\xff")),
        ("products", f"{BASE}ListSerializerSnapshot", (4, b"\xff\xff\xff\xff")),
    ],
    ids=["unknown version", "value", "map", "list"],
)
def test_other_states_stay_readable(
    fixture: Fixture, state: str, class_name: str, damage: tuple[int, bytes], tmp_path: Path
) -> None:
    whole = fixture.open().operator(UID)
    operator = changed(fixture, tmp_path, state, class_name, *damage)
    assert operator.problems == ()
    assert [(item.name, item.kind) for item in operator.states] == [(item.name, item.kind) for item in whole.states]
    problem = operator.state(state).problem
    assert isinstance(problem, UnsupportedSnapshot)
    assert f"the serializer snapshot of class '{class_name}' cannot be read: " in problem.message
    equal = []
    for item in whole.states:
        try:
            assert operator.state(item.name).to_arrow() == item.to_arrow()
        except SnapshotError as error:
            assert class_name in error.message
        else:
            equal.append(item.name)
    readable = [item.name for item in operator.states if item.problem is None]
    assert equal == readable
    if "canonical" in fixture.name:
        assert len(readable) == len(whole.states) - 1


def test_its_values_are_null_or_bytes(tmp_path: Path) -> None:
    fixture = CASES[0]
    state = fixture.open().operator(UID).state("products").to_arrow()
    damaged = changed(fixture, tmp_path, "products", f"{BASE}ListSerializerSnapshot", 4, b"\xff\xff\xff\xff")
    path = damaged.location.directory_uri
    with pytest.warns(UnreadableStateWarning, match="'products'"):
        nulls = stateproc.open(path, on_error="null").operator(damaged.operator_id).state("products").to_arrow()
    assert sorted(nulls["key"].to_pylist()) == sorted(state["key"].to_pylist())
    assert nulls["value"].null_count == len(nulls)
    opaque = stateproc.open(path, opaque="bytes").operator(damaged.operator_id).state("products").to_arrow()
    lists = dict(zip(state["key"].to_pylist(), state["value"].to_pylist(), strict=True))
    for key, value in zip(opaque["key"].to_pylist(), opaque["value"].to_pylist(), strict=True):
        units = len(lists[key][0].encode("utf-16-le")) // 2
        assert value[0] == units + 1  # how a Flink string begins


def test_a_damaged_key_serializer_is_an_error_of_the_header(tmp_path: Path) -> None:
    shutil.copytree(Path(CASES[0].snapshot), tmp_path / "snapshot")
    metadata = tmp_path / "snapshot" / "_metadata"
    data = metadata.read_bytes()
    name = f"{BASE}StringSerializer$StringSerializerSnapshot".encode()
    metadata.write_bytes(data.replace(name + b"\0\0\0\3", name + b"\0\0\0\x63", 1))
    operator = stateproc.open(str(tmp_path / "snapshot"), uids=[UID]).operator(UID)
    [problem, *_] = operator.problems
    assert "version 99" in problem.message
