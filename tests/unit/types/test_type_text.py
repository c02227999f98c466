"""`stateproc.types`: text that names types, default types of columns, refusals, and hashes of keys."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from stateproc import types
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.keygroups.key_group_assignment import key_hash_of
from stateproc.serializers import Serializer, proxied_snapshot, read_snapshot
from tests.helpers.paths import VECTORS

# --- text ----------------------------------------------------------------------------------------------------

SAME = [
    ("long", types.LONG), ("Int", types.INT), ("STRING", types.STRING), ("java.lang.Double", types.DOUBLE),
    ("decimal", types.BIG_DEC), ("java.time.LocalDate", types.LOCAL_DATE), ("date", types.LOCAL_DATE),
    ("DATE", types.DATE), ("binary", types.BYTES), ("char[]", types.CHAR_ARRAY),
    ("LongValue", types.VALUES["LongValue"]),
    (" Tuple2 < Long ,String > ", types.Tuple(types.LONG, types.STRING)),
    ("list<int>", types.List(types.INT)), ("Nullable<Long>", types.Nullable(types.LONG)),
    ("Long??", types.Nullable(types.LONG)), ("Option<String>", types.Option(types.STRING)),
    ("Ttl<List<Long>>", types.Ttl(types.List(types.LONG))),
    ("com.acme.Point(Integer, Integer)", types.CaseClass("com.acme.Point", types.INT, types.INT)),
    ("CaseClass com.acme.Empty()", types.CaseClass("com.acme.Empty")),
    ("Tuple2(Long, String)", types.CaseClass("scala.Tuple2", types.LONG, types.STRING)),
    ("Pojo com.acme.A$B {b: long, a: String}", types.Pojo("com.acme.A$B", {"a": types.STRING, "b": types.LONG})),
    ("ROW<id BIGINT NOT NULL, `a b` DECIMAL(10, 2)>",
     types.RowData([("id", "BIGINT NOT NULL"), ("a b", "DECIMAL(10,2)")])),
    ("Map<String, SQL TIMESTAMP(3)>", types.Map(types.STRING, types.Sql("TIMESTAMP(3)"))),
    ("Tuple2<DECIMAL(9, 2), SQL STRING>", types.Tuple(types.Sql("DECIMAL(9, 2)"), types.Sql("STRING"))),
    ('Avro com.acme.R {"type": "record", "name": "R", "fields": []}',
     types.Avro({"type": "record", "name": "R", "fields": []}, "com.acme.R")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SAME)
def test_text_names_the_type(text: str, expected: Serializer) -> None:
    made = types.parse(text)
    assert made == expected
    for release in (Release(1, 20), Release(2, 3)):
        assert proxied_snapshot(made, release) == proxied_snapshot(expected, release)


def test_a_uuid_is_of_later_releases() -> None:
    made = types.parse("uuid")
    assert made == types.UUID == types.parse("UUID") == types.parse("java.util.UUID")
    assert made.type_name == "UUID" and read_snapshot(proxied_snapshot(made, Release(2, 4))) == made
    with pytest.raises(UnsupportedSnapshot, match=r"UUID is of Flink 2\.4 and later, not of 2\.3") as refused:
        proxied_snapshot(made, Release(2, 3))
    assert "Kryo java.util.UUID" in str(refused.value)
    assert types.parse("Kryo java.util.UUID") != made


WRONG = [
    ("", "a type is missing"), ("Lnog", "there is no 'Lnog'"), 
    ("Tuple2<Long>", "Tuple2 has 1 types in brackets, not 2"),
    ("Tuple2<Long, String", "',' is missing"), ("List", r"the types in List<…> are missing"),
    ("List<Long, Long>", "List has 2 types"), ("Long Long", "'Long' is too much"), ("Foo<Long>", "there is no Foo<"),
    ("com.acme.Order", "nothing says what the class 'com.acme.Order' is"),
    ("Pojo com.acme.A {a Long}", "':' is missing"), ("Pojo com.acme.A {a: Long, a: Long}", "two fields 'a'"),
    ("Pojo", "a class name is missing"), ("Enum com.acme.E {}", "no list of different constants"),
    ("Enum com.acme.E {A, A}", "no list of different constants"), ("Avro {", "no JSON"), ("Avro {}", "no Avro schema"),
    ("Avro a.R[]", "schema of the class a.R is missing"),
    ("ROW<a BIGINT, a INT>", "two fields of one name"), ("SQL BLOB", "'BLOB' is none"), ("SQL", "a type is missing"),
    ("DECIMAL(39, 0)", "a number from 1 to 38"), ("DECIMAL(5, 6)", "a number from 0 to 5"), ("SQL VARCHAR(0)", "1 to"),
    ("Tuple26<Long>", "Tuple26 has 1"), ("List<" * 33 + "Long" + ">" * 33, "nested too deep"),
    ("Long" + "[]" * 40, "nested too deep"), ("ARRAY<" * 40 + "INT" + ">" * 40, "nested too deep"),
    ("Pojo a.B {x: List<" * 20 + "Long" + ">}" * 20, "nested too deep"), 
    ("Tuple<" + ", ".join(["Long"] * 26) + ">", "26"),
    ("Row<Long;>", "',' is missing"), ("Kryo é!", "too much"), ("<", "a type is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_text_that_does_not_name_a_type_is_refused_with_advice(text: str, reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason) as caught:
        types.parse(text)
    assert caught.value.advice
    assert len(str(caught.value)) < 1500


def test_random_text_is_a_type_or_raises_an_error_with_advice() -> None:
    tokens = ["Long", "Tuple2", "<", ">", ",", "Pojo a.B", "{", "}", ":", "a", "[]", "?", "ROW", "(", ")", " ", "Avro"]
    tokens += ['{"type":"int"}', "SQL", "`", "NOT NULL", "Enum a.E", "Kryo", "Option", "[", "]", "\0", "\ud800", "'"]
    state = 1
    for _ in range(3000):
        text = ""
        for _ in range(8):
            state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            text += tokens[(state >> 33) % len(tokens)]
        try:
            assert isinstance(types.parse(text), Serializer)
        except InvalidOption as error:
            assert error.advice


# Type names that contain these words do not describe the type completely.
INCOMPLETE = ("Pojo ", "Avro ", "Enum ", "Kryo ", "TaggedUnion", "NFA", "Node", "Buffer", "Lockable", "Dewey")
INCOMPLETE += ("?", "SortedMap", "LinkedList", "WindowKey", "Sqn", "Traversable", "Try[", "RAW(", "STRUCTURED")
INCOMPLETE += ("BinaryRow", "TwoPhase", "CountWindow", "Value[]", "NULL", "Nothing", "Sorted", "Money", "BITMAP")
INCOMPLETE += ("EventId", "Kafka", "INTERVAL")


def test_type_names_are_parsed_to_the_same_type() -> None:
    seen = 0
    for path in sorted(VECTORS.glob("flink-[0-9]*.json")):
        for entry in json.loads(path.read_text())["serializers"]:
            serializer = read_snapshot(bytes.fromhex(entry["snapshot"]))
            name = serializer.type_name
            plain_case_class = "(" in name and not name.startswith("Tuple") and not name[0].isupper()
            # Words such as STRING and DATE are Flink's own types in text; SQL types have the prefix "SQL ".
            sql_word = name.isupper() and name.isalpha()
            if sql_word or any(part in name for part in INCOMPLETE) or plain_case_class:
                continue
            try:
                again = types.parse(name)
            except InvalidOption:
                assert "(" in name, name  # a case class by its simple name, or a SQL type
                continue
            assert again.type_name == name
            seen += 1
    assert seen > 200


# --- defaults ------------------------------------------------------------------------------------------------

DEFAULTS = [
    (pa.bool_(), "Boolean"), (pa.int8(), "Byte"), (pa.int16(), "Short"), (pa.int32(), "Integer"), (pa.int64(), "Long"),
    (pa.float32(), "Float"), (pa.float64(), "Double"), (pa.string(), "String"), (pa.large_string(), "String"),
    (pa.binary(), "byte[]"), (pa.binary(16), "byte[]"), (pa.date32(), "LocalDate"), (pa.time64("us"), "LocalTime"),
    (pa.timestamp("us", "UTC"), "Instant"), (pa.timestamp("us"), "LocalDateTime"), (pa.decimal128(10, 2), "BigDecimal"),
    (pa.list_(pa.int64()), "List<Long>"), (pa.map_(pa.string(), pa.float64()), "Map<String, Double>"),
    (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), "Row<Integer, List<String>>"),
    (pa.dictionary(pa.int32(), pa.string()), "String"),
]  # fmt: skip


@pytest.mark.parametrize(("arrow", "name"), DEFAULTS)
def test_the_default_of_a_column(arrow: pa.DataType, name: str) -> None:
    assert types.of_arrow(arrow).type_name == name
    assert types.of(arrow) == types.of(name)


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.null(), pa.duration("s"), pa.list_(pa.uint8())])
def test_a_column_without_a_default_is_refused(arrow: pa.DataType) -> None:
    with pytest.raises(InvalidOption, match=r"has no Flink type by default"):
        types.of_arrow(arrow)


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: types.Tuple(*[types.LONG] * 26),
        lambda: types.Tuple("Long"),
        lambda: types.Pojo("not a class", {}),
        lambda: types.Pojo("com.acme.A", {"a": types.LONG}, {"b": "com.acme.B"}),
        lambda: types.Enum("com.acme.E", "RED"),
        lambda: types.Extracted("com.acme.A", {}),
        lambda: types.Array(types.Map(types.CHAR, types.Sql("STRING")).value),
        lambda: types.Avro("{"),
        lambda: types.RowData([("a", "INT"), ("a", "INT")]),
        lambda: types.of(3),
    ],
)
def test_types_that_flink_does_not_have_are_refused(make: Any) -> None:
    with pytest.raises(InvalidOption) as caught:
        make()
    assert caught.value.advice


def test_a_set_requires_flink_2() -> None:
    with pytest.raises(UnsupportedSnapshot, match=r"of Flink 2\.0 and later, not of 1\.20"):
        proxied_snapshot(types.Set(types.LONG), Release(1, 20))


def test_fields_of_a_superclass_are_declared_in_the_superclass() -> None:
    declared = types.Pojo("com.acme.B", {"b": types.LONG, "a": types.STRING}, {"a": "com.acme.A"})
    extracted = types.Extracted(
        "com.acme.B",
        {"com.acme.B extends com.acme.A": {"a": "String", "b": "long"}, "com.acme.A": {"a": "String"}},
    )
    assert proxied_snapshot(declared, Release(1, 20)) == proxied_snapshot(extracted, Release(1, 20))
    assert proxied_snapshot(declared, Release(1, 20)) != proxied_snapshot(
        types.Pojo("com.acme.B", {"b": types.LONG, "a": types.STRING}), Release(1, 20)
    )


# --- keys ----------------------------------------------------------------------------------------------------

HASHED = ["Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "Character", "String", "BigInteger"]
HASHED += ["BigDecimal", "LocalDate", "LocalTime", "LocalDateTime", "Instant", "java.util.Date", "java.sql.Timestamp"]
HASHED += ["LongValue", "StringValue", "Tuple2<Long, String>", "Tuple2<Long, Tuple1<Instant>>", "Row<Long, byte[]>"]
HASHED += ["Long?", "List<String>", "ROW<id BIGINT, name STRING, at TIMESTAMP(3), d DECIMAL(20, 2)>"]
UNHASHED = ["Pojo a.B {a: Long}", "a.B(Long)", "Enum a.E {A}", "byte[]", "Long[]", "Tuple1<byte[]>", "Kryo a.B"]
UNHASHED += ["Tuple2<Long, Enum a.E {A}>", "ROW<a ARRAY<INT>>", 'Avro {"type": "record", "name": "R", "fields": []}']


@pytest.mark.parametrize("text", HASHED)
def test_key_types_with_a_known_hash(text: str) -> None:
    assert key_hash_of(types.parse(text)) is not None


@pytest.mark.parametrize("text", UNHASHED)
def test_key_types_without_a_known_hash(text: str) -> None:
    assert key_hash_of(types.parse(text)) is None
