"""Serializer snapshots of `stateproc.types` equal those of Flink's TypeInformation (tests/vectors/types-*.json)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stateproc import types
from stateproc.flink_versions import Release
from stateproc.serializers import Serializer, proxied_snapshot
from tests.helpers.paths import VECTORS

FILES = {path.stem.removeprefix("types-"): path for path in sorted(VECTORS.glob("types-*.json"))}
OUTER = "stateproc.types.PlainTypes$"
CLASSES = {
    f"{OUTER}Order extends {OUTER}Base": {
        "id": "long", "name": "String", "count": "Integer", "price": "double", "color": f"{OUTER}Color",
        "tags": "List<String>", "sums": "Map<String, Long>", "sizes": "int[]", "boxes": "Integer[]",
        "words": "String[]", "at": "Instant", "total": "BigDecimal", "day": "LocalDate", "uuid": "UUID",
        "address": f"{OUTER}Address",
    },
    f"{OUTER}Color": ["RED", "GREEN", "BLUE"],
    f"{OUTER}Base": {"id": "long"},
    f"{OUTER}Address": {"street": "String", "number": "short", "near": "List<String>"},
    f"{OUTER}Sets": {"numbers": "Set<Integer>", "places": f"List<{OUTER}Address>"},
}  # fmt: skip
# Vectors of types without a text form.
BY_WORDS = {
    "Extracted Order": lambda: types.Extracted(f"{OUTER}Order", CLASSES),
    "Extracted Sets": lambda: types.Extracted(f"{OUTER}Sets", CLASSES),
    "Nullable padded Long": lambda: types.Nullable(types.LONG, padded=True),
}


def _named(name: str) -> Serializer:
    make = BY_WORDS.get(name)
    return make() if make is not None else types.parse(name)


def _vectors() -> list[Any]:
    return [
        pytest.param(release, name, snapshot, id=f"{release}-{name[:60]}")
        for release, path in FILES.items()
        for name, snapshot in json.loads(path.read_text()).items()
    ]


def _release(text: str) -> Release:
    return Release(*(int(part) for part in text.split(".")[:2]))


@pytest.mark.parametrize(("release", "name", "snapshot"), _vectors())
def test_the_serializer_snapshot_of_a_type_equals_flinks(release: str, name: str, snapshot: str) -> None:
    assert proxied_snapshot(_named(name), _release(release))[4:].hex() == snapshot


# Written by Flink's generators of serializer vectors: Scala types, and types wrapped for TTL.
WORDS = {
    "Ttl of LongSerializer": types.Ttl(types.LONG),
    "Ttl of ListSerializer": types.Ttl(types.List(types.STRING)),
    "Scala Option": types.Option(types.STRING),
    "Scala Unit": types.UNIT,
    "Scala Either": types.Either(types.LONG, types.STRING, scala=True),
    "Scala Enumeration": types.ScalaEnum("stateproc.vectors.ScalaTypes$Weekday", {"Monday": 1, "Sunday": 7}),
    "Scala Tuple3 with Option": types.CaseClass("scala.Tuple3", types.LONG, types.Option(types.INT), types.STRING),
    "Scala Tuple2": types.CaseClass("scala.Tuple2", types.STRING, types.LONG),
}


@pytest.mark.parametrize("release", ["1.20.3", "2.3.0"])
@pytest.mark.parametrize("name", WORDS)
def test_the_snapshot_of_a_scala_or_ttl_type_equals_flinks(name: str, release: str) -> None:
    vectors = json.loads((VECTORS / f"flink-{release}.json").read_text())["serializers"]
    (snapshot,) = [entry["snapshot"] for entry in vectors if entry["name"] == name]
    assert proxied_snapshot(WORDS[name], _release(release)).hex() == snapshot
