"""The serializers of fields that descriptions declare are those that Flink's type extraction gives them."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from stateproc import types
from stateproc.flink_versions import release
from stateproc.serializers import proxied_snapshot
from stateproc.serializers.pojo.serializer import Pojo
from tests.helpers.flink.compilation import JAVA, JOBS, compiled
from tests.helpers.quick_java import QUICK_JAVA

pytestmark = pytest.mark.flink

PROXY_VERSION = 4  # bytes in front of the snapshot
FIELDS = JOBS / "extraction" / "extraction" / "Fields.java"
CLASS = "extraction.Fields"
CLASSES = {
    "Addr": {"street": "String", "zip": "int"},
    "Color": ["RED", "GREEN"],
    "generic Gen": {"n": "int", "s": "String"},
    "record Rec": {"a": "String", "b": "int"},
    "generic record PrivateRec": {"a": "String", "b": "int"},
    "Nested": {"numbers": "List<Integer>", "places": "Map<String, Addr>", "place": "Addr"},
    "Outer": {"all": "List<Nested>", "some": "Set<Nested>"},
    "Empty": {},
    "Abstract": {"a": "int"},
    "Holder<T>": {
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
}


@pytest.mark.parametrize("line", ["1.20", "2.0", "2.3"])
def test_flink_takes_our_snapshots_of_extracted_fields_as_they_are(line: str, tmp_path: Path) -> None:
    source, found = tmp_path / "snapshots.tsv", tmp_path / "found.tsv"
    fields = _extracted_fields()
    snapshots = {
        name: proxied_snapshot(serializer, release(line))[PROXY_VERSION:] for name, serializer in fields.fields
    }
    source.write_text("".join(f"{name}\t{snapshot.hex()}\n" for name, snapshot in snapshots.items()))
    path = compiled(line, "fixtures", [JOBS / "extraction"], java=17)
    subprocess.run([*JAVA, *QUICK_JAVA, "-cp", path, "extraction.Extracting", str(source), str(found)], check=True)
    rows = {row.split("\t")[0]: row.split("\t")[1:] for row in found.read_text().splitlines()}
    assert len(rows) == len(fields.fields)
    assert {name: row for name, row in rows.items() if row[0] != "as is" or row[1] != row[2]} == {}


def _extracted_fields() -> Pojo:
    """What our extraction makes of the class, described as a user would: with the types of its source."""
    body = FIELDS.read_text(encoding="utf-8").split("public Fields()")[0]
    declared = {name: _full(type_) for type_, name in re.findall(r"^    public (.+) (\w+);$", body, re.MULTILINE)}
    described = {
        _full(heading): fields if isinstance(fields, list) else {name: _full(text) for name, text in fields.items()}
        for heading, fields in CLASSES.items()
    }
    pojo = types.Extracted(CLASS, {CLASS: declared, **described})
    assert isinstance(pojo, Pojo)
    return pojo


def _full(text: str) -> str:
    """Give classes their full names, as imports and the enclosing class do in Java."""
    return re.sub(r"(?<![\w.])[A-Z]\w*", lambda word: _full_names().get(word[0], word[0]), text)


@cache
def _full_names() -> dict[str, str]:
    text = FIELDS.read_text(encoding="utf-8")
    imported = {name.rpartition(".")[2]: name for name in re.findall(r"^import ([\w.]+);$", text, re.MULTILINE)}
    nested = re.findall(r"(?:class|enum|record|interface) (\w+)", text.split("public Fields()")[1])
    return imported | {name: f"{CLASS}${name}" for name in nested}
