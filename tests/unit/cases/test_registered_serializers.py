"""All states of a heap checkpoint, with functions that read what the job's own Kryo serializers write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import stateproc
from stateproc.codec.kryo.library_serializers import SERIALIZER_BODIES
from stateproc.codec.kryo.registered_serializers import REGISTERED_TYPES
from stateproc.serializers import KryoObjectInput, register_kryo
from tests.helpers.cases import CASE_SOURCES, CaseSnapshot, ExpectedState, unpacked_cases

CASE = "kryo-serializers"
PACKAGE = "com.acme.lab.Case02$"


def read_money(data: KryoObjectInput) -> dict[str, Any]:
    return {"cents": data.read_varlong(False), "currency": data.read_string()}


def read_item(data: KryoObjectInput) -> dict[str, Any]:
    return {"quantity": data.read_varint(False), "price": data.read_varint(False)}


@pytest.fixture
def functions() -> Iterator[None]:
    readers = {f"{PACKAGE}MoneySerializer": read_money, f"{PACKAGE}WireSerializer": read_item}
    for name, read in readers.items():
        register_kryo(name, read)
    yield
    for name in readers:
        del SERIALIZER_BODIES[name], REGISTERED_TYPES[name]


def descriptions() -> dict[str, Any]:
    found = json.loads((CASE_SOURCES / CASE / "classes.json").read_text(encoding="utf-8"))
    item, order = found.pop(f"{PACKAGE}Item"), found.pop(f"{PACKAGE}Order")
    assert item and order
    return found | {f"{PACKAGE}Item implements {PACKAGE}Wire": {}, f"{PACKAGE}Order implements nothing": order}


@pytest.mark.parametrize("folder", ["hashmap-full/chk-1", "rocksdb-canonical"])
def test_every_state_is_read(functions: None, folder: str) -> None:
    path = unpacked_cases() / CASE / "snapshot/all" / folder
    snapshot = stateproc.open(str(path), uids=["messages"], classes=descriptions())
    states: list[ExpectedState] = CaseSnapshot(CASE, 0).states()
    assert len(states) > 15
    for expected in states:
        rows = snapshot.operator("messages").state(expected.name).to_arrow().to_pylist()
        assert expected.differences(rows) == [], expected.name
