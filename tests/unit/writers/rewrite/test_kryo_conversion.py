"""`upgrade` converts values of Kryo 2 for Flink 2, in every kind of state, and says what it cannot convert."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import SavepointWriter, UnsupportedSnapshot
from stateproc.codec.arrow_arrays import Unencodable, row_bytes_of
from stateproc.codec.kryo.recorded_graph import How, Node
from stateproc.codec.kryo.types import FieldType, class_of_name
from stateproc.errors import SnapshotError
from stateproc.flink_versions import release
from stateproc.serializers import LayoutContext, read_snapshot
from stateproc.serializers.compatibility import Answer, Comparison, resolve, same_job
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.java.structs import TupleOf
from stateproc.serializers.kryo.compatibility import Bytes, bytes_of
from stateproc.serializers.kryo.conversion import Rewritten
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.compatibility import convertible, undeclared_collections
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.writers.rewrite.collection_types import ElementClasses
from stateproc.writers.rewrite.kryo_conversion import ValueConversion, conversion_context, encoding
from tests.helpers.cases import CASE_SOURCES, CaseSnapshot, case_snapshots
from tests.helpers.fixtures import FIXTURES, fixtures_in
from tests.helpers.paths import VECTORS
from tests.helpers.sweeps import sample
from tests.unit.codec.test_kryo5_output import OLD
from tests.unit.serializers.test_kryo_vectors import ENUMS

CASE = "kryo-upgrade"
SNAPSHOTS = [item for item in case_snapshots() if item.case == CASE]
CLASSES: dict[str, Any] = json.loads((CASE_SOURCES / CASE / "classes.json").read_text(encoding="utf-8"))
UIDS = ["keyed", "by-code", "elements", "shapes", "alarms", "windows"]
ORDER = "com.acme.lab.Case03$Order"
TUPLES = "org.apache.flink.api.java.tuple"


def writer_of(snapshot: CaseSnapshot, classes: dict[str, Any]) -> SavepointWriter:
    options = {"classes": classes, "uids": UIDS}
    return SavepointWriter.from_existing_savepoint(None, snapshot.path, options).with_flink_version("2.3")


def rows_of(path: str | Path) -> dict[str, list[str]]:
    """The rows of all states by operator and state, as JSON text, in the order of this text.

    Kryo 5 does not write the offset of a ZonedDateTime, which follows from the zone.
    """
    snapshot = stateproc.open(str(path), classes=CLASSES, uids=UIDS, temporal="lossless")
    found = {}
    for operator in (snapshot.operator(uid) for uid in UIDS):
        for state in (*operator.keyed_states, *operator.operator_states):
            rows = [row for batch in state.batches() for row in batch.to_pylist()]
            texts = (re.sub(r"[+-]\d\d:\d\d\[", "[", json.dumps(row, default=str, sort_keys=True)) for row in rows)
            found[f"{operator.display} {state.name}"] = sorted(texts)
    return found


@pytest.mark.parametrize("snapshot", sample(SNAPSHOTS, lambda item: ["any"]), ids=str)
def test_values_stay_and_restore(snapshot: CaseSnapshot, tmp_path: Path) -> None:
    """Real Flink restores the same: tests/integration/flink/test_case_restores.py."""
    before = stateproc.open(snapshot.path, classes=CLASSES, uids=UIDS).check(flink_version="2.3")
    assert not before.restores
    path = writer_of(snapshot, CLASSES).write(tmp_path / "new")
    after = stateproc.open(path, classes=CLASSES, uids=UIDS).check(flink_version="2.3")
    assert after.restores and {state.verdict.value for item in after.operators for state in item.states} == {"as is"}
    assert rows_of(path) == rows_of(snapshot.path)


def test_the_plan_says_what_is_converted() -> None:
    plan = writer_of(SNAPSHOTS[0], CLASSES).plan()
    reasons = {(item.uid, state.name): state.reasons for item in plan.operators for state in item.states}
    values = "values of Kryo 2 written as Kryo 5"
    assert values in reasons["keyed", "order"] and values in reasons["elements", "rules"]
    assert "keys and values of Kryo 2 written as Kryo 5" in reasons["keyed", "by-code"]
    assert "keys of Kryo 2 written as Kryo 5" in reasons["by-code", "_timer_state/event_user-timers"]
    assert not any("Kryo" in text for text in reasons["keyed", "plain"])


def test_all_classes_without_description_are_named_at_once() -> None:
    with pytest.raises(UnsupportedSnapshot, match=r"values cannot be converted to Kryo 5 of Flink 2\.3") as caught:
        writer_of(SNAPSHOTS[0], {}).plan()
    for place in ("keyed, order", "keyed, by-code", "by-code, last", "elements, split", "windows, window-contents"):
        assert place in caught.value.message
    for name in ("Order", "Code"):
        assert f'"com.acme.lab.Case03${name}"' in str(caught.value.advice)


def serializers_of(path: str | Path) -> dict[str, Any]:
    snapshot = stateproc.open(str(path), classes=CLASSES, uids=UIDS)
    headers = (file.header for uid in UIDS for file in snapshot.operator(uid).keyed_files)
    return {info.name: info.snapshots for header in headers if header is not None for info in header.states}


@pytest.mark.parametrize("snapshot", SNAPSHOTS[:1], ids=str)
def test_arguments_of_collections_are_taken_from_values(snapshot: CaseSnapshot, tmp_path: Path) -> None:
    """Of a POJO that nobody describes; what is written is as with its description, and the plan says it."""
    classes = {name: value for name, value in CLASSES.items() if name != ORDER}
    writer = writer_of(snapshot, classes)
    reasons = {(item.uid, state.name): state.reasons for item in writer.plan().operators for state in item.states}
    for place in (("keyed", "order"), ("elements", "split"), ("windows", "window-contents")):
        text = ", ".join(reasons[place])
        assert "Order.tags taken as java.util.List<java.lang.String>, as its values are" in text
        assert "Order.byColour taken as java.util.Map<com.acme.lab.Case03$Colour, com.acme.lab.Case03$Line>" in text
        assert "Order.nested taken as java.util.List<java.util.ArrayList<java.lang.Object>>" in text
    path, described = writer.write(tmp_path / "taken"), writer_of(snapshot, CLASSES).write(tmp_path / "described")
    assert serializers_of(path) == serializers_of(described) and rows_of(path) == rows_of(described)


@pytest.mark.parametrize(
    ("classes", "type_"),
    [
        (["java.lang.String"], "java.util.List<java.lang.String>"),
        (["[Ljava.lang.String;"], "java.util.List<java.lang.String[]>"),
        (["java.util.HashMap"], "java.util.List<java.util.HashMap<java.lang.Object>>"),
        (["java.lang.String", "java.lang.Long"], None),
        ([], None),
    ],
)
def test_elements_of_one_class_show_the_argument(classes: list[str], type_: str | None) -> None:
    """Elements of several classes, or none at all, do not: then the POJO needs a description."""
    found = ElementClasses("java.util.List")
    elements = [Node(How.BY_CLASS, class_of_name(name)) for name in classes]
    null = Node(How.BY_CLASS)
    found.watch(Node(How.BY_CLASS, class_of_name("java.util.ArrayList"), children=[null, *elements]))
    found.watch(null)
    assert (None if found.type is None else str(found.type)) == type_


def test_maps_and_lists_of_a_fixture_show_their_arguments() -> None:
    fixture = fixtures_in(FIXTURES / "1.20" / "edges-rocksdb-canonical")[0]
    options = {"classes": {"fixtures.Edges$Generic": {"text": "String", "number": "int", "longs": "long[]"}}}
    writer = SavepointWriter.from_existing_savepoint(None, fixture.snapshot, options | {"uids": "edges-generic"})
    plan = str(writer.with_flink_version("2.3").plan())
    assert "Basket.items taken as java.util.List<java.lang.String>" in plan
    assert "Basket.counts taken as java.util.Map<java.lang.String, java.lang.Long>" in plan


PAIR = Pojo(
    "com.acme.Tagged",
    (("pair", TupleOf(f"{TUPLES}.Tuple2", (Kryo("java.util.List", ("java.util.List",)), Kryo("java.lang.Iterable")))),),
)


def test_collections_in_tuples_of_pojos_are_those_of_flink_2() -> None:
    """Its type extraction gives List<E> in a field Tuple2<List<E>, …> the serializer of a field List<E>."""
    described = {"com.acme.Tagged": {"pair": f"{TUPLES}.Tuple2<List<String>, java.lang.Iterable<Long>>"}}
    comparison = Comparison(2, release("2.3"), described)
    (job,) = same_job(PAIR, comparison).nested
    assert job.type_name == "Tuple2<List<String?>?, List<Long?>?>"
    assert resolve(PAIR, same_job(PAIR, comparison), comparison).answer is Answer.INCOMPATIBLE
    context = conversion_context(LayoutContext(kryo=2, classes=described), release("2.3"))
    converter = ValueConversion(convertible(PAIR, comparison).layout, context, "state").converter()
    listed = "0100" + b"java.util.ArrayLis".hex() + "f401"  # by name, an ArrayList
    value = bytes.fromhex(f"02 00 {listed} 02 03 01 82 61 00 {listed} 01 09 04")  # ["a", null], [2]
    found = converter.of(row_bytes_of(pa.array([value], pa.large_binary()))).to_arrow().to_pylist()
    assert found == [bytes.fromhex("02 00 00 00000002 00 0261 01 00 00000001 00 0000000000000002")]


MADE = json.loads((VECTORS / "pojo-collections.json").read_bytes())
BASKET = "com.acme.Made$Basket"


def in_flink_2(class_name: str, value: str, classes: dict[str, Any]) -> str:
    """Convert a POJO that Flink 1 wrote, whose fields it leaves to Kryo."""
    types = sorted(classes[class_name].items())
    pojo = Pojo(class_name, tuple((name, Kryo(f"java.util.{type_.split('<')[0]}")) for name, type_ in types))
    context = conversion_context(LayoutContext(kryo=2, classes=classes), release("2.3"))
    layout_of = convertible(pojo, Comparison(2, release("2.3"), classes)).layout
    converter = ValueConversion(layout_of, context, "state").converter()
    (found,) = converter.of(row_bytes_of(pa.array([bytes.fromhex(value)], pa.large_binary()))).to_arrow().to_pylist()
    return bytes(found).hex()


@pytest.mark.parametrize("case", MADE["vectors"])
def test_objects_in_collections_of_pojos_are_those_of_flink_2(case: dict[str, str]) -> None:
    """Durations, Objects, Numbers, Optionals, and Items with such fields: each a value of Kryo 5 of its own."""
    assert in_flink_2(BASKET, case["1.20.3"], MADE["classes"]) == case["2.3.0"]


@pytest.mark.parametrize("type_", MADE["fields"])
def test_collections_of_each_class_are_those_of_flink_2(type_: str) -> None:
    case = MADE["fields"][type_]
    classes = MADE["field classes"] | {case["class"]: {"v": type_}}
    assert in_flink_2(case["class"], case["1.20.3"], classes) == case["2.3.0"]


@pytest.mark.parametrize(("kind", "value"), [("List", "03018261"), ("Map", "03018261"), ("Set", "0400")])
def test_other_objects_than_collections_are_refused(kind: str, value: str) -> None:
    """A String and an Integer in fields of collections, which the bytes of a damaged file may have."""
    element = "java.time.Duration" if kind != "Map" else "String, java.time.Duration"
    with pytest.raises(SnapshotError):
        in_flink_2("com.acme.Held", "0200" + value, {"com.acme.Held": {"v": f"{kind}<{element}>"}})


def test_changed_bytes_of_collections_are_values_or_errors() -> None:
    data, chance = bytes.fromhex(MADE["vectors"][0]["1.20.3"]), random.Random(1)
    found = 0
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 2, 5))):
            changed[chance.randrange(len(data))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        try:
            in_flink_2(BASKET, changed.hex(), MADE["classes"])
        except SnapshotError:
            found += 1
    assert found > 100


def test_null_keys_and_subclasses_in_collections_of_pojos_are_refused() -> None:
    with pytest.raises(UnsupportedSnapshot, match="a map has a null key"):
        in_flink_2(BASKET, MADE["null key"], MADE["classes"])
    item = "com.acme.Made$Item"
    described = MADE["classes"] | {f"com.acme.Sub extends {item}": MADE["classes"][item] | {"z": "int"}}
    with pytest.raises(UnsupportedSnapshot, match=r"elements of class .*Item', which has described subclasses"):
        in_flink_2(BASKET, MADE["vectors"][0]["1.20.3"], described)


def test_collections_in_tuples_of_pojos_need_a_description() -> None:
    comparison = Comparison(2, release("2.3"))
    assert list(undeclared_collections(PAIR, comparison)) == [(PAIR, "pair")]
    assert resolve(PAIR, same_job(PAIR, comparison), comparison).answer is Answer.INCOMPATIBLE
    assert convertible(PAIR, comparison) == PAIR


@pytest.mark.parametrize(
    ("held", "found"),
    [
        ("String", Bytes.OTHER),
        ("com.acme.Open", Bytes.ALIKE),
        ("com.acme.Maybe", Bytes.UNDECIDED),
        ("int[]", Bytes.UNDECIDED),
    ],
)
def test_an_optional_of_a_final_class_has_other_bytes_in_a_field(held: str, found: Bytes) -> None:
    """Kryo 2 leaves out the class of what it holds, Kryo 5 writes it: FieldSerializer, OptionalSerializer."""
    described = {"open com.acme.Open": {"n": "int"}, "com.acme.Maybe": {"n": "int"}}
    comparison = Comparison(2, release("2.3"), described | {"generic com.acme.Holder": {"a": f"Optional<{held}>"}})
    assert bytes_of(Kryo("com.acme.Holder"), comparison).bytes is found
    optional = Kryo("java.util.Optional", declared=FieldType("java.util.Optional", (FieldType("java.lang.String"),)))
    assert bytes_of(optional, comparison).bytes is Bytes.ALIKE


def test_a_constant_that_repeats_is_written_again() -> None:
    """As read by Flink 2.3: Kryo 2 writes a reference, which Kryo 5 takes for a mark."""
    colours = {"com.acme.Colour": ["RED", "GREEN"]}
    context = conversion_context(LayoutContext(kryo=2, classes=colours), release("2.3"))
    array = Kryo("[Lcom.acme.Colour;", ("[Lcom.acme.Colour;",))
    assert bytes_of(array, Comparison(2, release("2.3"), colours)).bytes is Bytes.UNDECIDED
    written = row_bytes_of(pa.array([bytes.fromhex("57 01 04 01 01 03 01 02")], pa.large_binary()))
    found = ValueConversion(array.layout, context, "state").converter().of(written).to_arrow().to_pylist()
    assert found == [bytes.fromhex("57 01 04 01 01 01 01 01 02")]


def test_states_that_need_nothing_stay_bytes(tmp_path: Path) -> None:
    """Numbers and text of Kryo 2 are those of Kryo 5; the registration of Avro's serializer is another."""
    fixture = fixtures_in(FIXTURES / "1.20" / "edges-rocksdb-canonical")[0]
    options = {"classes": {"fixtures.Edges$Generic": {"text": "String", "number": "int", "longs": "long[]"}}}
    writer = SavepointWriter.from_existing_savepoint(None, fixture.snapshot, options | {"uids": "edges-generic"})
    writer.drop_state("edges-generic", "basket").with_flink_version("2.3")
    (operator,) = (item for item in writer.plan().operators if item.uid == "edges-generic")
    reasons = {state.name: state.reasons for state in operator.states}
    assert reasons["generic"] == ("registrations of Kryo as in Flink 2.3",)
    state = stateproc.open(writer.write(tmp_path / "new"), uids="edges-generic").operator("edges-generic")
    snapshots = [info.snapshots["VALUE_SERIALIZER"] for info in state.keyed_files[0].header.states]
    assert not any(b"ExecutionConfig$SerializableSerializer" in data for data in snapshots)


def test_a_class_with_an_id_takes_none_of_the_job() -> None:
    """Kryo leaves UUID at the id that Flink's registrar gives it, so that the next class has the first of the job's."""
    setting = Kryo("java.util.UUID", ("java.util.UUID", "com.acme.First")).setting(LayoutContext())
    assert setting.registrations == ("com.acme.First",)


@pytest.mark.parametrize(("written", "to"), [("2.3", "1.20")])
def test_values_of_kryo_5_are_not_converted(written: str, to: str) -> None:
    fixture = fixtures_in(FIXTURES / written / "edges-rocksdb-canonical")[0]
    writer = SavepointWriter.from_existing_savepoint(None, fixture.snapshot).with_flink_version(to)
    with pytest.raises(UnsupportedSnapshot, match=r"of Kryo 5 \(Flink 2\.x\) cannot be carried over to Flink 1\.20"):
        writer.plan()


def test_a_state_that_is_left_out_needs_no_description() -> None:
    classes = {name: value for name, value in CLASSES.items() if "Code" not in name}
    writer = writer_of(SNAPSHOTS[0], classes)
    for uid in ("by-code", "elements", "shapes", "alarms"):
        writer.remove_operator(uid)
    with pytest.raises(UnsupportedSnapshot, match=r"keyed, order: .*Case03.Code"):
        writer.plan()
    for state in ("order", "orders", "by-code"):
        writer.drop_state("keyed", state)
    plan = writer.remove_operator("windows").plan()
    assert {item.uid for item in plan.operators if item.action.value == "changed"} == {"keyed"}


def test_states_without_kryo_are_copied_as_files(tmp_path: Path) -> None:
    fixture = fixtures_in(FIXTURES / "1.20" / "edges-rocksdb-canonical")[0]
    writer = SavepointWriter.from_existing_savepoint(None, fixture.snapshot, {"uids": "edges,edges-generic"})
    plan = writer.remove_operator("edges-generic").with_flink_version("2.3").plan()
    assert {str(item.action) for item in plan.operators} == {"carried over", "dropped"}


def test_classes_that_no_description_helps_are_named_with_the_others() -> None:
    snapshot = next(item for item in case_snapshots() if item.case == "scala-kryo" and "rocksdb-canonical" in item.path)
    writer = SavepointWriter.from_existing_savepoint(None, snapshot.path).with_flink_version("2.3")
    with pytest.raises(UnsupportedSnapshot, match=r"Flink 2\.x registers nothing for Scala's classes") as caught:
        writer.plan()
    assert "--classes" in str(caught.value.advice) and "drop_state" in str(caught.value.advice)


def test_a_value_without_a_form_in_flink_2_is_an_error_of_its_state() -> None:
    with (
        pytest.raises(UnsupportedSnapshot, match="no form in the serializer of Flink 2: a null") as caught,
        encoding("x"),
    ):
        raise Unencodable("a null", 0)
    assert caught.value.where.state == "x"


COLUMNS = {
    **{f"Kryo {name}": f"java.lang.{name}" for name in ("String", "Long", "Integer", "Double", "Float")},
    **{f"Kryo {name}": f"java.time.{name}" for name in ("LocalDate", "LocalDateTime", "LocalTime", "Instant")},
    "Kryo UUID": "java.util.UUID",
    "Kryo class Point": "",
}
"""Recorded values that are converted as columns, and their class; that of the description where it is empty."""


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_convert_as_objects_do(name: str) -> None:
    entry = OLD[name]
    serializer = replace(read_snapshot(bytes.fromhex(entry["snapshot"])), class_name=COLUMNS[name] or class_of(entry))
    context = LayoutContext(kryo=2, classes=ENUMS | entry.get("classes", {}))
    context = conversion_context(context, release("2.3"))
    assert isinstance(serializer, Kryo)
    layout = serializer.layout(context)
    assert isinstance(layout, Rewritten)
    by_columns = ValueConversion(serializer.layout, context, "state").converter()
    by_objects = ValueConversion(serializer.layout, replace(context, by_objects=True), "state").converter()
    values = row_bytes_of(pa.array([bytes.fromhex(case["data"]) for case in entry["cases"]], pa.large_binary()))
    assert by_columns.of(values).to_arrow() == by_objects.of(values).to_arrow()


def class_of(entry: dict[str, Any]) -> str:
    return next(iter(parse_classes(entry["classes"])))


def test_values_that_no_column_represents_are_converted_as_objects() -> None:
    """Half of a surrogate pair."""
    context = conversion_context(LayoutContext(kryo=2), release("2.3"))
    half = bytes.fromhex("0301" + "83" + "61" + "eda080")  # a String of a, and the first half of a pair
    values = row_bytes_of(pa.array([half], pa.large_binary()))
    serializer = Kryo("java.lang.String")
    assert isinstance(serializer.layout(context), Rewritten)
    converted = ValueConversion(serializer.layout, context, "state").converter().of(values)
    assert converted.to_arrow().to_pylist() == [half]
