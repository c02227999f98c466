"""What releases of Flink said of serializer snapshots that others wrote: `tests/vectors/compatibility/pairs.json.xz`.

`tests/helpers/flink/compatibility.py` records it. A pair is an old and a new serializer of one case, with one value.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from stateproc.flink_versions import release
from stateproc.serializers import Serializer, read_snapshot
from stateproc.serializers.compatibility import Comparison
from tests.helpers.paths import VECTORS

PAIRS = VECTORS / "compatibility" / "pairs.json.xz"
REFUSED, MISREAD, MIGRATED, RIGHT = "refused", "misread", "migrated", "right"
_TYPES = "compatibility.Types$"
CLASSES: dict[str, Any] = {
    f"{_TYPES}Color": ["RED", "GREEN", "BLUE"],
    f"{_TYPES}Addr": {"street": "String", "zip": "int"},
    f"{_TYPES}Gen": {"n": "int", "s": "String"},
    f"{_TYPES}GenLong": {"at": "long", "boxed": "Long"},
    f"{_TYPES}GenDouble": {"d": "double"},
    f"{_TYPES}GenFloat": {"f": "Float"},
    f"{_TYPES}GenShort": {"s": "short"},
    f"{_TYPES}GenChar": {"c": "char"},
    f"{_TYPES}GenBoolean": {"b": "boolean", "y": "byte"},
    f"{_TYPES}GenEnum": {"c": f"{_TYPES}Color"},
    f"{_TYPES}GenList": {"l": "List<String>"},
    f"{_TYPES}GenArray": {"i": "int[]"},
    f"{_TYPES}GenBytes": {"b": "byte[]"},
    f"{_TYPES}GenTexts": {"t": "String[]"},
    f"{_TYPES}GenBig": {"d": "java.math.BigDecimal", "i": "java.math.BigInteger"},
    f"{_TYPES}GenNested": {"g": f"{_TYPES}Gen", "a": f"{_TYPES}Addr"},
    f"{_TYPES}GenDate": {"d": "java.util.Date"},
    f"{_TYPES}GenObject": {"o": "Object"},
}
"""Descriptions of the classes that Kryo writes, as a user gives them."""


@dataclass(frozen=True)
class Pair:
    """One old and one new serializer.

    Attributes:
        old_release: The release that wrote the snapshot and the value.
        new_release: The release that was asked.
        avro: Whether both had Avro on their class path.
        name: The case.
        group: What it is about.
        old: The old serializer.
        new: The new one.
        bytes: The value, as the old one wrote it.
        row: What was recorded.
    """

    old_release: str
    new_release: str
    avro: bool
    name: str
    group: str
    old: Serializer
    new: Serializer
    bytes: bytes
    row: dict[str, str]

    def __str__(self) -> str:
        return f"{self.old_release} → {self.new_release}{' with Avro' if self.avro else ''}: {self.name}"

    @property
    def comparison(self) -> Comparison:
        """What the rules are asked with."""
        return Comparison(release(self.old_release).kryo, release(self.new_release), CLASSES)

    @property
    def outcome(self) -> str:
        """What became of the state."""
        row = self.row
        if row["verdict"] in ("unreadable", "incompatible", "throws") or row.get("restored") == "not restored":
            return REFUSED
        if row["verdict"] == "after migration":
            return MIGRATED if row.get("values") != "throws" else REFUSED
        return RIGHT if row.get("values", "equal") == "equal" else MISREAD


def recorded_pairs() -> Iterator[Pair]:
    """Yield all pairs for which the new job has a serializer."""
    recorded = json.loads(lzma.decompress(PAIRS.read_bytes()))
    texts = recorded["texts"]

    @cache
    def serializer(number: int) -> Serializer:
        return read_snapshot(bytes.fromhex(texts[number]))

    for run in recorded["runs"]:
        for row in run["pairs"]:
            if "new" in row:
                old, new = serializer(row["old"]), serializer(row["new"])
                data = bytes.fromhex(texts[row["bytes"]])
                yield Pair(run["old"], run["new"], run["avro"], row["name"], row["group"], old, new, data, row)
