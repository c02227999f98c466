"""The serializers of fields that descriptions declare are those that Flink's type extraction gives them."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stateproc import types
from stateproc.errors import SnapshotError
from stateproc.flink_versions import release
from stateproc.serializers import Serializer, proxied_snapshot
from stateproc.serializers.pojo.serializer import Pojo
from tests.helpers.flink.compilation import JAVA, JOBS, compiled
from tests.helpers.quick_java import QUICK_JAVA

pytestmark = pytest.mark.flink

PROXY_VERSION = 4  # bytes in front of the snapshot
FIELDS = JOBS / "extraction" / "extraction" / "Fields.java"
CLASS = "extraction.Fields"
CLASSES: dict[str, Any] = {
    "Addr": {"street": "String", "zip": "int"},
    "Color": ["RED", "GREEN"],
    "generic Gen": {"n": "int", "s": "String"},
    "record Rec": {"a": "String", "b": "int"},
    "generic record PrivateRec": {"a": "String", "b": "int"},
    "Nested": {"numbers": "List<Integer>", "places": "Map<String, Addr>", "place": "Addr"},
    "Outer": {"all": "List<Nested>", "some": "Set<Nested>"},
    "Empty": {},
    "Abstract": {"a": "int"},
    "class Holder<T>": {
        "one": "T",
        "many": "List<T>",
        "named": "Map<String, T>",
        "array": "T[]",
        "pair": "Tuple2<T, T>",
        "texts": "List<String>",
    },
    "Sub extends Holder": {
        "one": "Long",
        "many": "List<Long>",
        "named": "Map<String, Long>",
        "array": "Long[]",
        "pair": "Tuple2<Long, Long>",
        "texts": "List<String>",
        "more": "int",
    },
    "Node": {"next": "Node", "others": "Node[]", "n": "int"},
    "NamedTuple extends Tuple2": {"f0": "String", "f1": "Long"},
    "WideTuple extends Tuple2": {"f0": "String", "f1": "Long", "more": "int"},
    "Face": {},
    "Tuple2<A, B>": {"f0": "A", "f1": "B"},
}


NOT_READ = {
    "listRow": "nothing describes Row to Kryo",
    "listOuter": "a map has a null key",
}


@pytest.mark.parametrize("line", ["1.20", "2.0", "2.3"])
def test_flink_takes_our_snapshots_of_extracted_fields_as_they_are(line: str, tmp_path: Path) -> None:
    """The bytes that Flink's serializers write of values are read to their ends, too."""
    fields = _extracted_fields()
    rows = _of_flink(line, fields, tmp_path)
    assert {name: row for name, row in rows.items() if row.verdict != "as is" or row.restored != row.own} == {}
    read = {name: _decoded(serializer, rows[name], line) for name, serializer in fields.fields}
    problems = {name: value for name, value in read.items() if isinstance(value, SnapshotError)}
    assert problems.keys() == NOT_READ.keys(), problems
    assert {name: read[name] for name in SAMPLES} == SAMPLES


SAMPLES = {
    "listInteger": [3, None],
    "listPojo": [{"street": "text", "zip": 3}, None],
    "setEnum": ["GREEN"],
    "mapLongPojo": [(4, {"street": "text", "zip": 3})],
    "mapPojoEnum": [({"street": "text", "zip": 3}, "GREEN")],
    "collectionLong": [4, None],
    "iterable": ["text", None],
    "record": {"a": "text", "b": 3},
    "tuple": {"f0": "text", "f1": 3},
    "tupleList": {"f0": "text", "f1": [3, None]},
    "namedTuple": {"f0": "text", "f1": 4},
    "wideTuple": {"f0": "text", "f1": 4, "more": 3},
    "either": {"left": "text", "right": None},
    "lists": [["text", None]],
    "treeMap": [("text", 4)],
}


@dataclass(frozen=True)
class Row:
    """What Flink says of a field."""

    verdict: str
    restored: str
    own: str
    value: str


def _of_flink(line: str, fields: Pojo, folder: Path) -> dict[str, Row]:
    source, found = folder / "snapshots.tsv", folder / "found.tsv"
    snapshots = {
        name: proxied_snapshot(serializer, release(line))[PROXY_VERSION:] for name, serializer in fields.fields
    }
    source.write_text("".join(f"{name}\t{snapshot.hex()}\n" for name, snapshot in snapshots.items()))
    path = compiled(line, "fixtures", [JOBS / "extraction"], java=17)
    subprocess.run([*JAVA, *QUICK_JAVA, "-cp", path, "extraction.Extracting", str(source), str(found)], check=True)
    rows = {cells[0]: Row(*cells[1:]) for cells in (text.split("\t") for text in found.read_text().splitlines())}
    assert rows.keys() == snapshots.keys()
    return rows


def _decoded(serializer: Serializer, row: Row, line: str) -> Any:
    """The value, the error of reading it, or None where Flink wrote none."""
    if row.value == "-":
        return None
    try:
        return serializer.decode(bytes.fromhex(row.value), kryo=release(line).kryo, classes=_descriptions())
    except SnapshotError as error:
        return error


def _extracted_fields() -> Pojo:
    """What our extraction makes of the class, described as a user would: with the types of its source."""
    body = FIELDS.read_text(encoding="utf-8").split("public Fields()")[0]
    declared = {name: _full(type_) for type_, name in re.findall(r"^    public (.+) (\w+);$", body, re.MULTILINE)}
    pojo = types.Extracted(CLASS, {CLASS: declared, **_descriptions()})
    assert isinstance(pojo, Pojo)
    return pojo


def _descriptions() -> dict[str, Any]:
    return {
        _full(heading): fields if isinstance(fields, list) else {name: _full(text) for name, text in fields.items()}
        for heading, fields in CLASSES.items()
    }


def _full(text: str) -> str:
    """Give classes their full names, as imports and the enclosing class do in Java."""
    return re.sub(r"(?<![\w.])[A-Z]\w*", lambda word: _full_names().get(word[0], word[0]), text)


@cache
def _full_names() -> dict[str, str]:
    text = FIELDS.read_text(encoding="utf-8")
    imported = {name.rpartition(".")[2]: name for name in re.findall(r"^import ([\w.]+);$", text, re.MULTILINE)}
    nested = re.findall(r"(?:class|enum|record|interface) (\w+)", text.split("public Fields()")[1])
    return imported | {name: f"{CLASS}${name}" for name in nested}
