"""Every serializer vector that Flink wrote decodes to its value."""

from __future__ import annotations

from typing import Any

import pytest

from stateproc.serializers import read_snapshot
from stateproc.serializers.java.class_descriptions import parse_classes
from tests.helpers.sweeps import sample
from tests.helpers.value_comparison import plain, same
from tests.helpers.vectors import VECTORS, read_vectors

# Values that bytes and snapshot alone do not determine, and the reason. All other values must be equal.
UNDETERMINED = {
    "internal DATE": "IntSerializer's snapshot does not say which SQL type it serves",
    "internal TIME(0)": "as DATE",
    "internal TIME(3)": "as DATE",
    "internal TIMESTAMP_LTZ(0)": "TimestampDataSerializer's snapshot has a precision only",
    "internal TIMESTAMP_LTZ(3)": "as TIMESTAMP_LTZ(0)",
    "internal TIMESTAMP_LTZ(6)": "as TIMESTAMP_LTZ(0)",
    "internal TIMESTAMP_LTZ(9)": "as TIMESTAMP_LTZ(0)",
    "internal TIMESTAMP(0) WITH LOCAL TIME ZONE": "as TIMESTAMP_LTZ(0)",
    "internal TIMESTAMP(3) WITH LOCAL TIME ZONE": "as TIMESTAMP_LTZ(0)",
    "internal TIMESTAMP(6) WITH LOCAL TIME ZONE": "as TIMESTAMP_LTZ(0)",
    "internal TIMESTAMP(9) WITH LOCAL TIME ZONE": "as TIMESTAMP_LTZ(0)",
    "LinkedList without mask of 1.13.6": "outer version 2 stores no flag and means a mask",
    "Value of a user class": "the class's own code writes the bytes",
    "Kryo": "classes without descriptions, see test_kryo_vectors.py",
    "Pojo nested": "a field of its own class is Kryo's, see test_kryo_vectors.py",
    "Pojo subclasses seen": "a field of its own class is Kryo's",
    "Pojo subclasses registered": "a field of its own class is Kryo's",
    "Pojo subclass that is no Pojo": "the subclass is Kryo's",
}


def _entries() -> list[Any]:
    return [
        pytest.param(path.name, index, id=f"{path.stem}-{entry['name']}")
        for path in sorted(VECTORS.glob("flink-[0-9]*.json"))
        for index, entry in enumerate(read_vectors(path.name)["serializers"])
        if not any(
            f"{entry['name']} of {read_vectors(path.name)['flink']}" == name
            or entry["name"] == name
            or entry["name"].startswith(f"{name} ")
            for name in UNDETERMINED
        )
    ]


def _kinds(name: str, index: int) -> set[tuple[str, str]]:
    """Return the name and the bytes of the serializer snapshot."""
    entry = read_vectors(name)["serializers"][index]
    return {(entry["name"], entry["snapshot"])}


@pytest.mark.parametrize(("name", "index"), sample(_entries(), _kinds))
def test_values_decode_to_those_that_flink_wrote(name: str, index: int) -> None:
    vectors = read_vectors(name)
    entry = vectors["serializers"][index]
    serializer = read_snapshot(bytes.fromhex(entry["snapshot"]))
    options: dict[str, Any] = {"kryo": 5 if vectors["flink"].startswith("2") else 2}
    if "classes" in entry:
        options["classes"] = parse_classes(entry["classes"])
    for case in entry["cases"]:
        value = plain(serializer.decode(bytes.fromhex(case["data"]), **options))
        assert same(value, case["value"]), case["data"][:200]
