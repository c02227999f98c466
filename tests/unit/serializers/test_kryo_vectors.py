"""Kryo values that Flink wrote decode to the original values (vectors: tests/vectors/README.md)."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from stateproc.serializers import read_snapshot
from stateproc.serializers.kryo.serializer import Kryo
from tests.helpers.paths import VECTORS

ENUMS = {
    "stateproc.vectors.Scalars$Color": ["RED", "GREEN", "BLUE", "ÜBER"],
    "stateproc.vectors.Scalars$Shape": ["ROUND", "SQUARE"],
}
# The class of their values differs from their static type, which is possible only with raw types in Java.
OTHER_CLASS = ("Kryo typed list of Point", "Kryo registered", "Kryo registered itself")


def cases() -> list[Any]:
    found = []
    for release, kryo in (("1.20.3", 2), ("2.3.0", 5)):
        for entry in json.loads((VECTORS / f"flink-{release}.json").read_bytes())["serializers"]:
            if entry["serializer"].endswith(".KryoSerializer"):
                found.append(pytest.param(kryo, entry, id=f"{release}: {entry['name']}"))
    return found


@pytest.mark.parametrize(("kryo", "entry"), cases())
def test_values_decode_to_those_that_flink_wrote(kryo: int, entry: dict[str, Any]) -> None:
    serializer = read_snapshot(bytes.fromhex(entry["snapshot"]))
    assert isinstance(serializer, Kryo)
    if entry["name"] in OTHER_CLASS:
        serializer = replace(serializer, class_name="java.lang.Object")
    for case in entry["cases"]:
        decoded = serializer.decode(bytes.fromhex(case["data"]), kryo=kryo, classes=ENUMS | entry.get("classes", {}))
        assert plain(decoded) == expected(case["value"], kryo), case["data"]


def test_vectors_contain_kryo_values() -> None:
    assert len(cases()) > 100


def plain(value: Any) -> Any:
    """Convert decoded values to the form that :func:`expected` returns."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        return instant(value.isoformat())
    if isinstance(value, dt.date | dt.time):
        return instant(value.isoformat())
    if isinstance(value, dict):
        kept = {name: plain(item) for name, item in value.items() if item is not None and name != "class"}
        return kept or []
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):
            return kept_entries((plain(key), plain(item)) for key, item in value)
        return entries(value) if entries(value) is not None else [plain(item) for item in value]
    if isinstance(value, bool | int) or value is None:
        return value
    return instant(str(value))


def entries(value: list[Any]) -> dict[str, Any] | None:
    if not value or not all(isinstance(item, dict) and set(item) == {"key", "value"} for item in value):
        return None
    return kept_entries((plain(item["key"]), plain(item["value"])) for item in value)


def kept_entries(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Return entries by key, without nulls, because decoded objects and maps are alike."""
    return {key if isinstance(key, str) else json.dumps(key): item for key, item in pairs if item is not None}


def expected(value: Any, kryo: int) -> Any:
    """Convert a vector's value: times with seconds, milliseconds to an instant, map keys to JSON."""
    if isinstance(value, dict) and set(value) == {"millis"}:
        stamp = dt.datetime.fromtimestamp(value["millis"] / 1000, dt.timezone.utc)
        return instant(stamp.isoformat())
    if isinstance(value, dict):
        kept = {name: expected(item, kryo) for name, item in value.items() if item is not None}
        return {name: item for name, item in kept.items() if name != "class"} or []
    if isinstance(value, list):
        return entries(value) if entries(value) is not None else [expected(item, kryo) for item in value]
    if isinstance(value, float):
        return repr(value)
    if value in ("-0.0", "NaN"):
        return value
    if value in ("Infinity", "-Infinity"):
        return value
    if isinstance(value, str) and kryo == 5 and value.endswith("[Europe/Berlin]"):
        # Kryo 5 does not write the offset, which follows from the zone.
        value = re.sub(r"[+-]\d\d:\d\d\[", "[", value)
    return instant(value) if isinstance(value, str) else value


def instant(text: str) -> str:
    """Normalize text of a time: no zero seconds, no trailing zeros of fractions, Z for UTC."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = {"inf": "Infinity", "-inf": "-Infinity"}.get(text, text)
    if not re.match(r"^([+-]?\d{4,}-\d\d-\d\dT)?\d\d:\d\d", text):
        return text
    text = text.replace("+00:00", "Z")
    text = re.sub(r"(\.\d*?)0+(?=\D|$)", r"\1", text)
    text = re.sub(r"\.(?=\D|$)", "", text)
    return re.sub(r"(\d\d:\d\d):00(?![\d.])", r"\1", text)


JDK_CLASSES = {
    "strings": ("java.util.ArrayList", ["ab", "c", "é"]),
    "strings-null": ("java.util.ArrayList", ["ab", None, "c"]),
    "all-null": ("java.util.ArrayList", [None, None]),
    "empty": ("java.util.ArrayList", []),
    "ints": ("java.util.ArrayList", [1, -2, 300]),
    "ints-null": ("java.util.ArrayList", [1, None, 3]),
    "mixed": ("java.util.ArrayList", [1, "x", 2, None, 2.5]),
    "set": ("java.util.HashSet", ["k"]),
    "linkedlist": ("java.util.LinkedList", [5, 6]),
    "nested": ("java.util.ArrayList", [["q"], ["r", "s"]]),
    "backref": ("java.util.ArrayList", ["shared", "shared"]),
    "emptymap": ("java.util.HashMap", {}),
    "lt-h": ("java.time.LocalTime", dt.time(1)),
    "lt-hm": ("java.time.LocalTime", dt.time(1, 2)),
    "lt-hms": ("java.time.LocalTime", dt.time(1, 2, 3)),
    "date-neg": ("java.util.Date", dt.datetime(1969, 12, 31, 23, 59, 59, 995000, dt.timezone.utc)),
    "ld-old": ("java.time.LocalDate", "-0005-01-02"),
    "bigint-zero": ("java.math.BigInteger", 0),
    "localdate": ("java.time.LocalDate", dt.date(2024, 2, 29)),
    "localtime": ("java.time.LocalTime", "01:02:03.000000004"),
    "localdatetime": ("java.time.LocalDateTime", "2024-02-29T01:02:03.000000004"),
    "instant": ("java.time.Instant", "1970-01-01T00:00:05.000000006Z"),
    "uuid": ("java.util.UUID", "00000000-0000-0001-0000-000000000002"),
}


@pytest.mark.parametrize("name", JDK_CLASSES)
@pytest.mark.parametrize(("release", "kryo"), [("1.20.5", 2), ("2.3.0", 5)])
def test_values_of_jdk_classes(name: str, release: str, kryo: int) -> None:
    class_name, value = JDK_CLASSES[name]
    data = json.loads((VECTORS / "shared-kryo.json").read_bytes())["vectors"][name][release]
    serializer = Kryo(class_name, (class_name,))
    assert serializer.decode(bytes.fromhex(data), kryo=kryo) == value
