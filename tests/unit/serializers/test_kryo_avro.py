"""Avro's generic values in Kryo: bytes of KryoSerializer 1.20.5 and 2.3.0 with flink-avro and Avro 1.11."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stateproc.codec.kryo.reader import read_kryo
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.values import json_text
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.wire import Cursor
from tests.helpers.paths import TESTS

VECTORS: dict[str, dict[str, str]] = json.loads((TESTS / "vectors/kryo_avro.json").read_text())
FLINK_AVRO = "org.apache.flink.formats.avro.utils.AvroKryoSerializerUtils$"
SCHEMAS = (("org.apache.avro.Schema", f"{FLINK_AVRO}AvroSchemaSerializer"),)
GENERIC = "org.apache.avro.generic.GenericData$"
LISTS = "org.apache.flink.api.java.typeutils.runtime.kryo.Serializers$SpecificInstanceCollectionSerializerForArrayList"
NULLS = dict.fromkeys(("s", "e", "f", "b", "m", "u", "d", "t", "n", "arr", "boolv", "fl"))
RECORD = {
    "s": "plain",
    "e": "Y",
    "f": "AQI=",
    "b": "CQg=",
    "m": {"nul": None, "k": NULLS},
    "u": 5,  # an int or a long
    "d": "2019-04-14",
    "t": "2020-09-13T12:26:40.123Z",
    "n": "2.56",
    "arr": ["q"],
    "boolv": True,
    "fl": 1.5,
}
CONVERTED = NULLS | {
    "s": "é\0",
    "f": "AQI=",
    "m": {"hash": None},
    "u": {"string": ""},
    "d": "2020-01-02",
    "n": "1.25",
    "arr": ["z", "z"],
}
VALUES: dict[str, Any] = {
    "avro record": RECORD,
    "avro record utf8": CONVERTED,
    "record by serializer": RECORD | {"m": {"nul": None}, "u": {"long": 5}, "arr": ["z", "y"]},
    "array": ["z", "y"],
    "avro enum": "X",
    "avro fixed": "Bwc=",
    "utf8 reused": "lon",
    "utf8 empty": "",
    "utf8 none": "",
    "ByteBuffer": "AgM=",
    "ByteBuffer slice": "AgM=",
    "ByteBuffer ro": "AQI=",
}
CASES = [(name, int(version)) for name in VALUES for version in VECTORS[name]]


def setting(name: str, version: int) -> KryoSetting:
    serializers = {f"{GENERIC}Array": LISTS if version < 5 else f"{FLINK_AVRO}AvroGenericDataArraySerializer"}
    registrations = ["java.lang.Object", f"{GENERIC}Array"]
    if name == "record by serializer":
        serializers[f"{GENERIC}Record"] = f"{FLINK_AVRO}AvroGenericRecordSerializer"
        registrations.insert(1, f"{GENERIC}Record")
    return KryoSetting(version, tuple(registrations), serializers, defaults=SCHEMAS)


@pytest.mark.parametrize(("name", "version"), CASES)
def test_values(name: str, version: int) -> None:
    value = read_kryo(Cursor(bytes.fromhex(VECTORS[name][str(version)])), setting(name, version), True)
    assert json.loads(json_text(value)) == VALUES[name]


@pytest.mark.parametrize(
    ("name", "version"), [case for case in CASES if case[0].startswith(("avro", "record", "array"))]
)
def test_every_truncation_is_refused(name: str, version: int) -> None:
    data = bytes.fromhex(VECTORS[name][str(version)])
    for end in range(0, len(data), 1 if len(data) < 200 else 7):
        with pytest.raises(SnapshotError):
            read_kryo(Cursor(data[:end]), setting(name, version), True)


@pytest.mark.parametrize("version", [2, 5])
def test_texts_of_releases_without_a_hash(version: int) -> None:
    """Avro before 1.10: bytes, length, string."""
    data = bytes.fromhex(VECTORS["utf8 reused"][str(version)])
    assert data[-3:] == b"\x00\x06\x00"  # hash, length, no string
    without = data[:-3] + data[-2:]
    assert str(read_kryo(Cursor(without), setting("utf8", version), True)) == "lon"


@pytest.mark.parametrize("version", [2, 5])
def test_buffers_of_java_11(version: int) -> None:
    """No memory segment at the end."""
    data = bytes.fromhex(VECTORS["ByteBuffer"][str(version)])[:-1]
    assert read_kryo(Cursor(data), setting("buffer", version), True) == b"\x02\x03"


@pytest.mark.parametrize("version", [2, 5])
def test_schemas_that_kryo_wrote_by_their_fields(version: int) -> None:
    """The job had no flink-avro: nothing a user describes helps."""
    data = bytes.fromhex(VECTORS["avro record without schema serializer"][str(version)])
    with pytest.raises(UnsupportedSnapshot, match="without flink-avro's serializer of schemas") as error:
        read_kryo(Cursor(data), KryoSetting(version), True)
    assert "describe" not in str(error.value.advice) and "damaged" not in str(error.value.advice)
    for name in (f"{GENERIC}Record", "org.apache.avro.generic.GenericRecord"):
        with pytest.raises(Undecodable, match="without flink-avro's serializer of schemas"):
            Kryo(name).layout(LayoutContext(kryo=version))
        assert Kryo(name, defaults=SCHEMAS).is_known(LayoutContext(kryo=version))
